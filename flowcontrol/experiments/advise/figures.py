"""What a run is judged by: throughput, latency, data in flight, checkpoints, memory, slots."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal

from flowcontrol.analysis.checkpoints import checkpoint_metrics
from flowcontrol.analysis.frames import Tables, end_of, mean_over_time, panels_of
from flowcontrol.analysis.latencies import combine_latencies, latency_panel
from flowcontrol.analysis.per_subtask import subtask_figures
from flowcontrol.experiments.footprint import network_memory, slots_used

if TYPE_CHECKING:
    from flowcontrol.scenario import Scenario

Goal = Literal["throughput", "latency", "checkpoints", "memory"]
"""What a change is to improve."""

GOALS: Final[tuple[Goal, ...]] = ("throughput", "latency", "checkpoints", "memory")

FIGURE_OF: Final[dict[Goal, str]] = {
    "throughput": "throughput",
    "latency": "latency_p99_ms",
    "checkpoints": "checkpoint_ms",
    "memory": "memory_bytes",
}
"""The figure that each goal is measured by; only of throughput more is better."""

_MS_PER_S: Final = 1000.0


@dataclass(frozen=True, slots=True)
class Figures:
    """Figures of one run, all of it."""

    # What all sinks took up; of a job that failed, without what it did again (records/s).
    throughput: float
    latency_p99_ms: float | None  # Of the sink with the largest; None if no record came to one (ms)
    in_flight_bytes: float  # Mean of the data in flight on all edges (bytes)
    # Median end to end of the completed checkpoints; None if there are none (ms).
    checkpoint_ms: float | None
    # Network memory that all task managers grant to gates and result partitions; None under a
    # transport that counts records (bytes).
    memory_bytes: int | None
    slots: int  # Slots that the job occupies
    # Largest share of time for which a source that reads no log was blocked, 0 to 1: what it could
    # not emit is lost.
    held_back: float
    lagging: float  # Records that waited in all logs at the end, as a share of those that were read

    def of(self, goal: Goal) -> float | None:
        """Return the figure that a goal is measured by."""
        found: float | None = getattr(self, FIGURE_OF[goal])
        return found

    def document(self) -> dict[str, Any]:
        """Return the figures as plain JSON."""
        return {name: getattr(self, name) for name in self.__slots__}


def figures_of(tables: Tables, scenario: Scenario) -> Figures:
    """Work out the figures of a run."""
    tables = panels_of(tables)
    stages, whole = tables.panel("stages"), (0.0, end_of(tables))
    paced = [stage.name for stage in scenario.sources if not stage.reads_log]
    sinks = [stage.name for stage in scenario.sinks]
    last = stages.of("t_s", whole[1])
    taken = int(last.among("stage", sinks)["records_in"].sum())
    of_sources = last.among("stage", [stage.name for stage in scenario.sources])
    emitted = max(1, int(of_sources["records_out"].sum()))
    held = [
        one.backpressured_ms_per_s
        for name in paced
        for one in subtask_figures(stages.of("stage", name), whole)
    ]
    flying = tables.panel("channels").per_sample(["in_flight_bytes"])
    return Figures(
        throughput=taken * _new(tables, emitted) / whole[1] if whole[1] > 0 else 0.0,
        latency_p99_ms=_latency(tables, sinks),
        in_flight_bytes=mean_over_time(flying, "in_flight_bytes"),
        checkpoint_ms=checkpoint_metrics(tables)[0] if "checkpoints" in tables else None,
        memory_bytes=_memory(scenario),
        slots=slots_used(scenario),
        held_back=max(held, default=0.0) / _MS_PER_S,
        lagging=int(of_sources["lag_records"].sum()) / emitted,
    )


def _memory(scenario: Scenario) -> int | None:
    return None if scenario.system.counts_records else network_memory(scenario)


def _new(tables: Tables, emitted: int) -> float:
    """Return which share of what sources emitted they had not emitted before a failure."""
    if "restarts" not in tables:
        return 1.0
    again = sum(n or 0 for n in tables["restarts"]["records_reprocessed"].to_pylist())
    return max(0.0, 1 - again / emitted)


def _latency(tables: Tables, sinks: list[str]) -> float | None:
    rows = latency_panel(tables)
    found = (combine_latencies(rows.of("stage", name)) for name in sinks)
    return max((one["p99_ms"] for one in found if one is not None), default=None)
