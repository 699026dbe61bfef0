"""A run whose parallelism a controller changes."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from fractions import Fraction
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from flowcontrol.errors import RunError, ScenarioError
from flowcontrol.layout.job import Job
from flowcontrol.layout.physical_graph import build_physical_graph
from flowcontrol.records import SCALINGS
from flowcontrol.results.run import Run
from flowcontrol.scaling.runs.controllers import controller_for
from flowcontrol.scaling.runs.derive import derive, vertices_of
from flowcontrol.scaling.runs.epoch import Ended, Span, joined_tables, run_epoch
from flowcontrol.scenario import Scenario
from flowcontrol.state.requests import Entry

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True)
class Epochs:
    """A run, epoch by epoch."""

    parts: list[tuple[Span, Ended]] = field(default_factory=list)  # Its epochs, in order
    # By epoch and source with a log: what its subtasks had had before it.
    offsets: list[dict[str, list[Fraction]]] = field(default_factory=list)

    @property
    def replayed(self) -> int:
        """Records that sources read again after a restart."""
        return sum(
            sum(ended.read[name]) - sum(own)
            for _, ended in self.parts
            if ended.decision is not None
            for name, own in ended.restored.items()
        )

    @property
    def lost_in_flight(self) -> int:
        """Records that were on their way as the job stopped."""
        return sum(ended.in_flight for _, ended in self.parts if ended.decision is not None)


def run_scaled(
    job: Job, *, progress: Callable[[int, int], None] | None = None, track: bool = True
) -> Run:
    """Run a job whose scenario names a controller.

    ``progress``: called at each sample with the rounds done and the records that reached the sinks.

    With the table ``scalings``. Raises RunError if the job does not fit the cluster at a
    parallelism that the controller chose, or the run holds more in flight than its logs may.
    """
    began = time.perf_counter()
    epochs = run_epochs(job, progress or (lambda rounds, records: None), track=track)
    scenario, parts = job.scenario, epochs.parts
    tables = joined_tables(parts, checkpoints=scenario.checkpointing is not None)
    tables[SCALINGS.name] = scalings_table(scenario, parts)
    return Run(
        job,
        tables,
        job.rounds,
        time.perf_counter() - began,
        transfers=sum(ended.transfers for _, ended in parts),
        control_messages=sum(ended.control_messages for _, ended in parts),
    )


def first_job(job: Job) -> Job:
    """Return the job of the first epoch of a run."""
    scenario = job.scenario
    widths = {stage.name: stage.parallelism for stage in scenario.stages}
    derived = derive(scenario, widths, {}, 0, 0)
    return build_physical_graph(derived.scenario, round_us=job.round_us)


def run_epochs(job: Job, progress: Callable[[int, int], None], *, track: bool) -> Epochs:
    """Run a job epoch by epoch; as :func:`run_scaled`."""
    scenario = job.scenario
    if scenario.scaling is None:
        raise ValueError(f"{scenario.name!r} has no controller")
    vertices = vertices_of(scenario)
    widths = {stage.name: stage.parallelism for stage in scenario.stages}
    controller = controller_for(scenario, scenario.scaling)
    controller.start(0.0, {name: widths[name] for name in vertices})
    found, offsets = Epochs(), dict[str, list[Fraction]]()
    begins_us = running_us = arrived = 0
    while True:
        try:
            derived = derive(scenario, widths, offsets, begins_us, running_us)
            own = build_physical_graph(derived.scenario, round_us=job.round_us)
        except ScenarioError as error:
            raise _refused(error, found, widths) from error
        span = Span(derived.origin_us, begins_us, running_us)
        base = derived.origin_us // job.round_us

        def told(rounds: int, records: int, base: int = base, had: int = arrived) -> None:
            progress(min(job.rounds, base + rounds), had + records)

        restored = _restored(own, found, base)
        ended, controller = run_epoch(own, controller, span, told, restored, track=track)
        found.parts.append((span, ended))
        found.offsets.append(derived.offsets)
        if ended.decision is None:
            return found
        arrived += ended.arrived
        for vertex, new in ended.decision.changes.items():
            widths |= dict.fromkeys(vertices[vertex].stages, new)
        offsets = {
            name: [a + b for a, b in zip(had, ended.restored[name], strict=True)]
            for name, had in derived.offsets.items()
        }
        begins_us = derived.origin_us + _last_sample_us(ended)
        if begins_us >= scenario.duration_us:
            return found
        stands_us = scenario.scaling.stands_us
        running_us = max(begins_us, ended.stopped_us + stands_us)
        controller.start(running_us / 1e6, {name: widths[name] for name in vertices})


def _restored(job: Job, found: Epochs, base: int) -> dict[int, list[Entry]]:
    """Return what requests hold at first, by task: what they held in the last checkpoint.

    Flink hands whole states of sinks over, and elements of operators that call a service one by
    one, to the subtasks in turn, unless there are as many as before
    (``RoundRobinOperatorStateRepartitioner``). ``base``: the round of the run at which it begins.
    """
    if not found.parts:
        return {}
    span, ended = found.parts[-1]
    later = span.origin_us // job.round_us - base
    dealt = dict[int, list[Entry]]()
    for name, held in ended.requests.items():
        tasks, requests = job.tasks[name], job.stage(name).stage.requests
        items = states = [entries for entries, _ in held]
        if len(states) != len(tasks) and requests is not None and requests.is_of_operator:
            items = [[entry] for state in states for entry in state]
        each, more = divmod(len(items), len(tasks))
        for index, task in enumerate(tasks):
            first = index * each + min(index, more)
            own = items[first : first + each + (index < more)]
            entries = [
                replace(entry, first=-1, emitted=entry.emitted + later)
                for state in own
                for entry in state
            ]
            if entries:
                dealt[task] = entries
    return dealt


def _last_sample_us(ended: Ended) -> int:
    """Return when an epoch ended, by its own clock, microseconds."""
    import pyarrow.compute as pc

    last_s: float = pc.max(ended.tables["stages"]["t_s"]).as_py()
    return round(last_s * 1e6)


def _refused(error: ScenarioError, found: Epochs, widths: dict[str, int]) -> Exception:
    """Return the error of a job that does not fit: the scenario's at the start, else the run's."""
    if not found.parts:
        return error
    ended = found.parts[-1][1]
    sizes = ", ".join(f"{name}: {width}" for name, width in widths.items())
    text = "; ".join(problem.message for problem in error.problems)
    at_s = ended.decided_us / 1e6
    return RunError(
        f"at {at_s:g} s the controller chose a parallelism that the cluster cannot run ({sizes}): "
        f"{text}; give the task managers more network memory, or limit the parallelism"
    )


def scalings_table(scenario: Scenario, parts: list[tuple[Span, Ended]]) -> pa.Table:
    """Return the table ``scalings`` of a run: a row for each vertex that was scaled."""
    import pyarrow as pa

    widths = {name: scenario.stage(name).parallelism for name in vertices_of(scenario)}
    rows: list[dict[str, Any]] = []
    for (_, ended), (after, _) in pairwise(parts):
        decision = ended.decision
        assert decision is not None
        for stage, new in decision.changes.items():
            at_s = ended.decided_us / 1e6
            rows.append(
                {
                    "t_s": at_s,
                    "stage": stage,
                    "old": widths[stage],
                    "new": new,
                    "reason": decision.reason[stage],
                    "restart_s": (after.running_us - ended.decided_us) / 1e6,
                }
            )
            widths[stage] = new
    return pa.Table.from_pylist(rows, schema=SCALINGS.arrow_schema())
