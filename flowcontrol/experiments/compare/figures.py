"""From the tables of one run to its figures in a comparison."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from flowcontrol.analysis.checkpoints import checkpoint_metrics
from flowcontrol.analysis.frames import Tables, result_frame
from flowcontrol.analysis.latencies import combine_latencies, latency_frame
from flowcontrol.experiments.compare.limits import LimitPhase
from flowcontrol.experiments.compare.metrics import (
    WINDOW_SAMPLES,
    Counted,
    Response,
    Step,
    ahead,
    responses,
    steps_of,
    swing,
)
from flowcontrol.results.run import Run
from flowcontrol.scenario import Scenario, Stage

if TYPE_CHECKING:
    import pandas as pd

_MEGABYTE: Final = 1e6


@dataclass(frozen=True)
class PiledUp:
    """The edge on which most records piled up between two moments."""

    edge: str  # Its name
    records: int  # records, nbytes: by how much what was in flight on it grew
    nbytes: int
    at_sender: bool  # More of the waiting buffers were added at the sender than at the receiver


@dataclass(frozen=True)
class Reaction:
    """What the producers did after the falls of the limit, or after its rises."""

    count: int  # Changes that count
    missed: int  # Those after which the rate never was at the new limit
    # How those were missed: above, swings or below, the first of these that occurs; empty if none
    # was.
    how: str
    # Longest time to be at the new limit after one of the others; None without others (s).
    longest_s: float | None


@dataclass(frozen=True)
class Figures:
    """The figures of a run; None: the scenario or the run has no such figure."""

    produced: int  # produced, consumed: records that the sources emitted and the sinks took up
    consumed: int
    of_limit: float | None  # Records that the sinks took up, over what they can at the limit
    # Of all records, all sinks together (ms).
    latency_p50_ms: float | None
    latency_p99_ms: float | None
    peak_records: int  # peak_records, peak_bytes: most in flight at a sample, all channels together
    peak_bytes: int
    swing: float | None  # Coefficient of variation of the producers' rate after transients
    # By how much the producers' mean rate in a phase was above its limit at most.
    ahead: float | None
    # Control messages over megabytes (1,000,000 bytes) moved, all edges together.
    control_per_mb: float | None
    is_bounded: bool | None  # Whether memory stayed within its bounds
    heap_exhausted_s: float | None  # When it did not (s)
    # Most that waited at a sample in the logs that sources read, all together.
    lag_records: int | None = None
    lag_s: float | None = None  # Furthest that a source was behind its log at a sample (s)
    lag_end_records: int | None = None  # What waits there at the end
    # Median end to end of the completed checkpoints (ms).
    checkpoint_e2e_p50_ms: float | None = None
    checkpoints_failed: int | None = None  # Checkpoints that expired, were declined or aborted
    changes: tuple[Response, ...] = ()  # What the producers did after each change of the limit
    # For each change that was not followed, by its position: where most piled up.
    piled_up: Mapping[int, PiledUp] = field(default_factory=dict)

    @property
    def slowdown(self) -> Reaction:
        """What the producers did after the falls of the limit that count."""
        return self._reaction(is_slowdown=True)

    @property
    def release(self) -> Reaction:
        """What the producers did after the rises of the limit that count."""
        return self._reaction(is_slowdown=False)

    def _reaction(self, *, is_slowdown: bool) -> Reaction:
        own = [change for change in self.changes if change.is_slowdown == is_slowdown]
        times = [change.after_s for change in own if change.after_s is not None]
        ways = {change.missed for change in own}
        how = next((how for how in ("above", "swings", "below") if how in ways), "")
        return Reaction(len(own), len(own) - len(times), how, max(times, default=None))


def window_s(scenario: Scenario) -> float:
    """Return the time over which rates are averaged to compare them with the limit, s."""
    return WINDOW_SAMPLES * scenario.sample_interval_s


def limit_steps(limits: Sequence[LimitPhase] | None) -> list[Step]:
    """Return the limit of all sources together over time; empty where it is not known."""
    return steps_of([Step(p.start_s, p.end_s, p.produced) for p in limits or ()])


def produced(tables: Tables, scenario: Scenario) -> Counted:
    """Return what all sources together emitted."""
    return _counted(tables, scenario.sources, "records_out")


def _consumed(tables: Tables, scenario: Scenario) -> Counted:
    return _counted(tables, scenario.sinks, "records_in")


def _counted(tables: Tables, stages: Sequence[Stage], column: str) -> Counted:
    frame = result_frame(tables, "stages")
    names = [stage.name for stage in stages]
    sums = frame[frame["stage"].isin(names)].groupby("t_s")[column].sum()
    return Counted([float(t) for t in sums.index], [float(count) for count in sums])


def figures_of(run: Run, scenario: Scenario, limits: Sequence[LimitPhase] | None) -> Figures:
    """Return the figures of a run.

    ``limits``: the limit of the job; None: unknown.

    As ``docs/reference/figures.md`` defines them.
    """
    tables = run.tables
    emitted, taken = produced(tables, scenario), _consumed(tables, scenario)
    steps = limit_steps(limits)
    able = sum(p.consumed * (p.end_s - p.start_s) for p in limits or ())
    channels = result_frame(tables, "channels")
    flights = channels.groupby("t_s")[["in_flight_records", "in_flight_bytes"]].sum()
    latency = combine_latencies(latency_frame(tables)) or {}
    lag = _lag_of(tables, scenario)
    changes = tuple(responses(emitted, steps, window_s(scenario)))
    moved = _moved_bytes(tables, scenario, channels)
    piled = {
        index: _piled_up(channels, change.at_s, change.until_s)
        for index, change in enumerate(changes)
        if change.missed == "above" and change.is_slowdown
    }
    control = run.control_messages
    e2e_ms, failed = checkpoint_metrics(tables)
    return Figures(
        produced=int(emitted.records[-1]) if emitted.records else 0,
        consumed=int(taken.records[-1]) if taken.records else 0,
        of_limit=taken.records[-1] / able if able > 0 and taken.records else None,
        latency_p50_ms=latency.get("p50_ms"),
        latency_p99_ms=latency.get("p99_ms"),
        peak_records=_most(flights["in_flight_records"]),
        peak_bytes=_most(flights["in_flight_bytes"]),
        swing=swing(emitted, steps),
        ahead=ahead(emitted, steps, window_s(scenario)) if emitted.times else None,
        control_per_mb=None if control is None or not moved else control * _MEGABYTE / moved,
        is_bounded=run.is_bounded,
        heap_exhausted_s=run.heap_exhausted_s,
        lag_records=None if lag is None else _most(lag["lag_records"]),
        lag_s=None if lag is None else float(lag["lag_s"].max()),
        lag_end_records=None if lag is None else int(lag["lag_records"].iloc[-1]),
        checkpoint_e2e_p50_ms=e2e_ms,
        checkpoints_failed=failed,
        changes=changes,
        piled_up={index: found for index, found in piled.items() if found is not None},
    )


def _lag_of(tables: Tables, scenario: Scenario) -> pd.DataFrame | None:
    """Return what waits in all logs at each sample, and how old it is; None without a log."""
    names = [stage.name for stage in scenario.stages if stage.reads_log]
    stages = result_frame(tables, "stages")
    rows = stages[stages["stage"].isin(names)]
    if rows.empty:
        return None
    return rows.groupby("t_s").agg(lag_records=("lag_records", "sum"), lag_s=("lag_s", "max"))


def _most(levels: pd.Series[Any]) -> int:
    return int(levels.max()) if len(levels) else 0


def _moved_bytes(tables: Tables, scenario: Scenario, channels: pd.DataFrame) -> float:
    """Return the bytes of records that receivers took up, on all edges between tasks.

    What a stage emitted on an edge, less what is in flight there at the end.
    """
    stages = result_frame(tables, "stages")
    moved = 0.0
    for edge in scenario.edges:
        if edge.chain:
            continue
        copies = scenario.stage(edge.receiver).parallelism if edge.partitioner == "broadcast" else 1
        emitted = stages[stages["stage"] == edge.sender].groupby("subtask")["records_out"].last()
        own = channels[channels["edge"] == edge.name].groupby(["sender", "receiver"])
        left = own["in_flight_records"].last().sum()
        moved += (emitted.sum() * copies - left) * scenario.stage(edge.sender).record_bytes
    return float(moved)


def _piled_up(channels: pd.DataFrame, at_s: float, until_s: float) -> PiledUp | None:
    """Return the edge on which most was added between two moments; None if none grew."""
    columns = ["in_flight_records", "in_flight_bytes", "backlog", "queued"]
    sums = channels.groupby(["edge", "t_s"])[columns].sum().reset_index()
    best: PiledUp | None = None
    for edge, rows in sums.groupby("edge"):
        first, last = (_level(rows, moment, columns) for moment in (at_s, until_s))
        grown = {name: last[name] - first[name] for name in columns}
        records = int(grown["in_flight_records"])
        if records > (best.records if best else 0):
            # What lies in a socket is in neither, while a queue may happen to be shorter.
            at_sender = grown["backlog"] > max(0.0, grown["queued"])
            best = PiledUp(str(edge), records, int(grown["in_flight_bytes"]), bool(at_sender))
    return best


def _level(rows: pd.DataFrame, at_s: float, columns: Sequence[str]) -> dict[str, float]:
    """Return the levels at the last sample up to a moment; 0 before the first."""
    until = rows[rows["t_s"] <= at_s + 1e-9]
    return {name: float(until[name].iloc[-1]) if len(until) else 0.0 for name in columns}
