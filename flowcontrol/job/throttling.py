"""A throttle between rounds: what its controller sees of the ledger's rows, and what it tells.

Every source stage runs the same controller on the same rows, so that all come to the same commands
and nothing but the ledger is shared. What the controller remembers stands in the rows of the
sources.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from flowcontrol.job.batch_control import BatchControl
from flowcontrol.job.graph import JobEdge, JobVertex
from flowcontrol.job.job import Job
from flowcontrol.job.subtask import Subtask
from flowcontrol.job.work import ServiceCurve
from flowcontrol.operators.source_log import unread
from flowcontrol.operators.states import SourceLog
from flowcontrol.systems.throttles.controller import (
    Controller,
    JobObservation,
    SourceObservation,
    TaskObservation,
)
from flowcontrol.systems.throttles.make import make_controller

Row = Mapping[str, Any]
Rows = Mapping[str, Mapping[str, Sequence[Row]]]
"""A round's ledger rows by edge and side, as a reference run yields them."""


def controller_of(job: Job) -> Controller | None:
    """Return the controller of a job's throttle, at rest; None if it has none."""
    system = job.scenario.system
    return make_controller(
        system.throttle,
        system.throttle_values,
        round_us=job.round_us,
        spouts_above=job.sources_above(),
    )


class SourceControl:
    """The controller of a job, beside some of its sources.

    Parameters
    ----------
    job : Job
        The scenario, laid out, with a throttle.
    sources : sequence of Subtask
        Whom it commands; those of other processes hear the same there.
    batches : BatchControl or None, optional
        Batches of Spark's windows, if those of the throttle are theirs.
    """

    def __init__(
        self, job: Job, sources: Sequence[Subtask], batches: BatchControl | None = None
    ) -> None:
        controller = controller_of(job)
        if controller is None:
            raise ValueError(f"{job.scenario.name!r} has no throttle")
        self.controller, self._job = controller, job
        self._sources, self._batches = sources, batches

    def start(self) -> None:
        """Command the sources before the first round."""
        pairs = _subtasks(self._job, is_source=True)
        self._tell(self.controller.first([_source_seen(plan, i, None, 0) for plan, i in pairs]))

    def resume(self) -> None:
        """Go on from what the sources' restored rows say; their commands are in force."""
        for source in self._sources:
            self.controller.restore(source.controller_state)

    def before_round(self, number: int, rows: Rows) -> None:
        """Show the controller the round before, if it wants to see it.

        Parameters
        ----------
        number : int
            The round that is about to run.
        rows : mapping
            Ledger rows of the round before, of all edges.
        """
        if number == 0:
            return
        due = number * self._job.round_us >= self.controller.next_look_us()
        if not due and not self.controller.wants_empty:
            return
        seen = observe_job(self._job, number, rows)
        if self._batches is not None:
            seen = seen._replace(is_empty=is_answered(self._batches, is_empty=seen.is_empty))
        if due or seen.is_empty:
            self._tell(self.controller.look(seen))
            if self._batches is not None and self.controller.found_nothing:
                self._batches.end_without_rows()

    def _tell(self, commands: Sequence[Any]) -> None:
        state = self.controller.state()
        order = [(plan.name, i) for plan, i in _subtasks(self._job, is_source=True)]
        by_place = dict(zip(order, commands, strict=True))
        for source in self._sources:
            command = by_place[source.plan.name, source.index]
            assert source.source is not None
            source.source.is_stopped = int(command.is_stopped)
            source.source.gap_ns = command.gap_ns
            source.source.admitted = command.admitted
            source.controller_state = state


def is_answered(batches: BatchControl, *, is_empty: bool) -> bool:
    """Tell whether a job that may be empty has answered all that it took up; if not, it begins."""
    if not is_empty or batches.is_answering:
        return False
    return not batches.end_with_rows()


def observe_job(job: Job, number: int, rows: Rows) -> JobObservation:
    """Return what a controller sees at the beginning of a round.

    Parameters
    ----------
    job : Job
        The scenario, laid out.
    number : int
        The round.
    rows : mapping
        Ledger rows of the round before.

    Notes
    -----
    When a record was emitted is not in the rows: ``oldest_us`` is -1. Throttles that need it
    run on the virtual clock only.
    """
    now_us, states = number * job.round_us, _task_states(job, rows)
    waits = {link.name: _records_under_way(rows[link.name]) for link in job.links}
    sources = tuple(
        _source_seen(plan, i, states[plan.name, i], now_us)
        for plan, i in _subtasks(job, is_source=True)
    )
    tasks, arrived = [], 0
    for plan, i in _subtasks(job, is_source=False):
        task, rates = states[plan.name, i]["task"], plan.rates(i)
        rate = 0.0 if rates is None else float(rates.rate_at(now_us))
        nbytes = sum(waits[link.name].get(i, 0) * link.record_bytes for link in plan.inputs)
        queued, taken = task["queued"], task["taken"]
        service_ms = 1000 / rate if rate > 0 else 0.0
        tasks.append(TaskObservation(plan.name, i, queued, nbytes, taken, service_ms))
        arrived += taken * sum(member.is_sink for member in plan.members)
    return JobObservation(
        now_us, sources, tuple(tasks), _is_empty(job, states, waits, now_us), arrived, -1
    )


def _subtasks(job: Job, *, is_source: bool) -> list[tuple[JobVertex, int]]:
    plans = [plan for plan in job.stages if plan.is_source == is_source]
    return [(plan, index) for plan in plans for index in range(plan.stage.parallelism)]


def _source_seen(
    plan: JobVertex, index: int, state: Mapping[str, Any] | None, now_us: int
) -> SourceObservation:
    rates = plan.rates(index)
    rate = 0.0 if rates is None else float(rates.rate_at(now_us))
    if state is None:
        return SourceObservation(plan.name, index, 0, 0, 0, rate)
    emitted, log = state["task"]["taken"], state.get("log")
    if log is None:
        return SourceObservation(plan.name, index, emitted, 0, state["source"]["offered"], rate)
    waiting = unread(SourceLog(**log))
    return SourceObservation(plan.name, index, emitted, waiting, log["end"], rate)


def _task_states(job: Job, rows: Rows) -> dict[tuple[str, int], dict[str, Any]]:
    """Return the state of every subtask's task."""
    found = {}
    for plan in job.stages:
        link, side = _first_link(plan)
        for row in rows[link.name][side]:
            if row["task_state"] is not None:
                found[plan.name, row[side]] = _read(row["task_state"])
    return found


def _first_link(plan: JobVertex) -> tuple[JobEdge, str]:
    return (plan.outputs[0], "sender") if plan.is_source else (plan.inputs[0], "receiver")


def _records_under_way(sides: Mapping[str, Sequence[Row]]) -> dict[int, int]:
    """Return, by receiver, the records of an edge that were written and not taken up."""
    found: dict[int, int] = {}
    for row in sides["sender"]:
        written = _read(row["channel_state"])["channel"]["written"]
        found[row["receiver"]] = found.get(row["receiver"], 0) + written
    for row in sides["receiver"]:
        found[row["receiver"]] -= _read(row["channel_state"])["channel"]["processed"]
    return found


def _is_empty(
    job: Job,
    states: Mapping[tuple[str, int], Mapping[str, Any]],
    waits: Mapping[str, Mapping[int, int]],
    now_us: int,
) -> bool:
    """Whether all that was admitted was emitted, and all that was emitted is done."""
    if any(count > 0 for by_receiver in waits.values() for count in by_receiver.values()):
        return False
    for plan in job.stages:
        for index in range(plan.stage.parallelism):
            state = states[plan.name, index]
            task, clock = state["task"], ServiceCurve.of(job, plan, index)
            if any(part["pending"] for part in state["partitions"]):
                return False
            if not plan.is_source:
                if clock is not None and task["ready"] > clock.work_by(now_us):
                    return False
            elif task["taken"] < state["source"]["admitted"] and _waits_in_log(state):
                return False
    return True


def _waits_in_log(state: Mapping[str, Any]) -> bool:
    """Whether a source has a log with records that it has not taken."""
    log = state.get("log")
    return log is not None and unread(SourceLog(**log)) > 0


def _read(state: Any) -> Any:
    """Return a state that may still be text."""
    return json.loads(state) if isinstance(state, str) else state
