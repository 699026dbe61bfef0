"""What limits a job in each sample interval: stages, exchanges, throttles.

The rule is Flink's: the first stage downstream that is busy and not blocked while something
upstream of it is blocked. :mod:`flowcontrol.analysis.bottleneck` says what it is beyond that rule.
Of several independent parts of a job, as two branches before they meet, each may have a limit.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from flowcontrol.analysis.frames import Tables, result_frame
from flowcontrol.analysis.subtasks import NEVER_IDLE
from flowcontrol.analysis.wording import throttle_name
from flowcontrol.protocol.monitoring.levels import LOW_ABOVE
from flowcontrol.scenario import Edge, Scenario
from flowcontrol.scenario.partitions import SPILLING

if TYPE_CHECKING:
    import pandas as pd

SATURATED: Final = 0.9
"""Busy share from which a stage certainly limits the stages that it blocks."""

NOTICEABLE: Final = 0.02
"""Blocked share above which a stage counts as blocked; less is rounding to whole rounds."""

_S_PER_MS = 1 / 1000.0


@dataclass(frozen=True)
class Interval:
    """One sample interval, figures by stage as ratios.

    Attributes
    ----------
    t_s, length_s : float, s
        Its end and its length.
    blocked, busy : mapping of str to float, ratio
        Shares of time of the worst subtask of a stage.
    hungry : frozenset of str
        Edges with a channel whose sender has a backlog while its receiver has nothing queued.
    growing : frozenset of str
        Edges with more records in flight than at the sample before.
    behind : frozenset of str
        Sources with a subtask that is never idle while records wait in its log.
    """

    t_s: float
    length_s: float
    blocked: Mapping[str, float]
    busy: Mapping[str, float]
    hungry: frozenset[str]
    growing: frozenset[str]
    behind: frozenset[str] = frozenset()


Limits = Sequence[tuple[Interval, Sequence[str]]]
"""What limited in each interval: names of stages, edges or the throttle, that of the job first."""


def find_limits(tables: Tables, scenario: Scenario) -> Limits:
    """Return what limited a run, interval by interval.

    Parameters
    ----------
    tables : mapping of str to pyarrow.Table
        ``stages`` and ``channels`` of the run.
    scenario : Scenario
        What was run.

    Returns
    -------
    list of (Interval, list of str)
        In the order of time, with the names of stages, edges or the throttle: the one that limits
        the job first, then those of other parts of it; none if nothing limits.
    """
    samples = result_frame(tables, "stages")
    order = {stage.name: rank for rank, stage in enumerate(scenario.topological())}
    behind = _behind_logs(samples)
    intervals = [
        replace(interval, behind=behind.get(interval.t_s, frozenset()))
        for interval in _intervals(samples, _hungry_edges(tables), _growing_edges(tables))
    ]
    return [(interval, _limits(interval, scenario, order)) for interval in intervals]


def _limits(interval: Interval, scenario: Scenario, order: Mapping[str, int]) -> list[str]:
    """Return the limits of an interval: that of the job, then those of its other parts."""
    first = _limit(interval, scenario, order) or _slow_reader(interval, order)
    if first is None:
        return []
    held = [name for name, share in interval.blocked.items() if share > LOW_ABOVE]
    found = dict.fromkeys([first])
    for sender in sorted(held, key=lambda name: order[name]):
        edges = scenario.outputs(sender)
        if not any(interval.blocked.get(edge.receiver, 0.0) > NOTICEABLE for edge in edges):
            limit = _limit(interval, scenario, order, edges)
            if limit is not None:
                found[limit] = None
    free = [name for name in interval.behind if interval.blocked.get(name, 0.0) <= NOTICEABLE]
    return list(found | dict.fromkeys(sorted(free, key=lambda name: order[name])))


def _intervals(
    samples: pd.DataFrame,
    hungry: Mapping[float, frozenset[str]],
    growing: Mapping[float, frozenset[str]],
) -> list[Interval]:
    """Return the intervals of a run; of a stage the worst subtask counts, as in Flink."""
    shares = samples.groupby(["t_s", "stage"], as_index=False)[
        ["backpressured_ms_per_s", "busy_ms_per_s", "interval_s"]
    ].max()
    intervals = []
    for t_s, rows in shares.groupby("t_s"):
        at, stages = float(str(t_s)), rows["stage"]
        intervals.append(
            Interval(
                t_s=at,
                length_s=float(rows["interval_s"].iloc[0]),
                blocked=dict(zip(stages, rows["backpressured_ms_per_s"] * _S_PER_MS, strict=True)),
                busy=dict(zip(stages, rows["busy_ms_per_s"] * _S_PER_MS, strict=True)),
                hungry=hungry.get(at, frozenset()),
                growing=growing.get(at, frozenset()),
            )
        )
    return intervals


def _behind_logs(samples: pd.DataFrame) -> dict[float, frozenset[str]]:
    """Return by sample the sources that are never idle while records wait in their log."""
    is_busy = samples["busy_ms_per_s"] * _S_PER_MS >= NEVER_IDLE
    rows = samples[is_busy & (samples["lag_records"] > 0)]
    return {float(str(t_s)): frozenset(part["stage"]) for t_s, part in rows.groupby("t_s")}


def _slow_reader(interval: Interval, order: Mapping[str, int]) -> str | None:
    """Return the first source that is behind its log although nothing blocks it."""
    free = [name for name in interval.behind if interval.blocked.get(name, 0.0) <= NOTICEABLE]
    return min(free, key=lambda name: order[name], default=None)


def _hungry_edges(tables: Tables) -> dict[float, frozenset[str]]:
    """Return by sample the edges on which a sender waits for a receiver that has nothing."""
    channels = result_frame(tables, "channels")
    return _edges_by_sample(channels[(channels["backlog"] > 0) & (channels["queued"] == 0)])


def _growing_edges(tables: Tables) -> dict[float, frozenset[str]]:
    """Return by sample the edges on which more records are in flight than at the one before."""
    channels = result_frame(tables, "channels")
    totals = channels.groupby(["edge", "t_s"], as_index=False)["in_flight_records"].sum()
    return _edges_by_sample(totals[totals.groupby("edge")["in_flight_records"].diff() > 0])


def _edges_by_sample(rows: pd.DataFrame) -> dict[float, frozenset[str]]:
    return {float(str(t_s)): frozenset(part["edge"]) for t_s, part in rows.groupby("t_s")}


def _limit(
    interval: Interval,
    scenario: Scenario,
    order: Mapping[str, int],
    edges: Iterable[Edge] | None = None,
) -> str | None:
    """Return what limited in an interval: the name of a stage or of an edge, or None.

    Of several unblocked stages below blocked ones, the busiest limits; of equally busy ones the
    last, since the others only pass the pressure on. Only the given edges count, if there are any.
    """
    candidates = [
        edge
        for edge in (scenario.edges if edges is None else edges)
        if interval.blocked.get(edge.sender, 0.0) > NOTICEABLE
        and (
            interval.blocked.get(edge.receiver, 0.0) <= LOW_ABOVE or edge.partition_type in SPILLING
        )
    ]

    def busy_then_late(edge: Edge) -> tuple[float, int]:
        return interval.busy.get(edge.receiver, 0.0), order[edge.receiver]

    if not candidates:
        overrun = _overrun(interval, scenario)
        return max(overrun, key=busy_then_late).receiver if overrun else None
    edge = max(candidates, key=busy_then_late)
    if scenario.system.throttle != "none" and not scenario.inputs(edge.sender):
        return _behind_throttle(interval, scenario, edge.sender)
    blocked = interval.blocked[edge.sender]
    busy = interval.busy.get(edge.receiver, 0.0)
    if edge.partition_type in SPILLING:  # the disk blocks, not the receiver
        return edge.name if blocked > LOW_ABOVE else None
    if busy >= SATURATED:
        return edge.receiver
    if blocked <= LOW_ABOVE:
        return None  # the tail of a phase that has ended
    was_blocked_in_vain = busy < blocked  # for part of the time the receiver had nothing to do
    return edge.name if was_blocked_in_vain or edge.name in interval.hungry else edge.receiver


def _overrun(interval: Interval, scenario: Scenario) -> list[Edge]:
    """Return the edges whose queues of records grow before a receiver that is never idle."""
    if not scenario.system.counts_records:
        return []
    return [
        edge
        for edge in scenario.edges
        if edge.name in interval.growing and interval.busy.get(edge.receiver, 0.0) >= NEVER_IDLE
    ]


def _behind_throttle(interval: Interval, scenario: Scenario, source: str) -> str | None:
    """Return the limit behind a throttled source: a saturated stage, or the throttle itself."""
    last_first = reversed(scenario.downstream(source))
    name = max(last_first, key=lambda stage: interval.busy.get(stage, 0.0))
    if interval.busy.get(name, 0.0) >= SATURATED:
        return name
    if interval.blocked[source] <= LOW_ABOVE:
        return None
    return throttle_name(scenario)
