"""Which stage limits a job, interval by interval, and over the run.

The rule is Flink's: the bottleneck is the first stage downstream that is busy and not blocked
while something upstream of it is blocked. Here it is judged for each sample interval apart, for
a job's bottleneck may come and go with the phases of its schedule; the run's bottleneck is what
limited it for the longest time. Seven cases beyond the rule:

- Nothing is blocked: no bottleneck, the sources run at their own rate.
- A stage is blocked although what follows it has nothing to do: then no stage limits but the
  exchange between them, its buffers being too few for the round trip (Flink's reading of pool
  usages: out full and in empty = the limit is the network).
- A stage is blocked whose result partition is written to disk: then the disk limits.
- A source is held back that has a throttle: then the busiest stage anywhere after it limits, for
  a throttle reaches over the stages in between; if none of them is saturated, the throttle does.
- Nothing is blocked, but the records before a saturated stage grow more, in queues of records:
  then it limits, and what comes before it does not know yet, or never will.
- Nothing is blocked, but a source that reads a log is never idle and records wait there: then it
  limits itself, be it that it reads too slowly or that it stands still.
- Some subtasks of several limit: they are named, not only the stage (:mod:`.subtasks`).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from flowcontrol.analysis.frames import Tables, end_of, result_frame
from flowcontrol.analysis.pressure import LOW_ABOVE
from flowcontrol.analysis.subtasks import NEVER_IDLE, Limiting, limiting_subtasks
from flowcontrol.analysis.wording import Evidence, describe, throttle_name
from flowcontrol.scenario import Edge, Scenario
from flowcontrol.scenario.partitions import SPILLING

if TYPE_CHECKING:
    import pandas as pd

SATURATED = 0.9
"""Busy share from which a stage certainly limits the stages that it blocks."""

NOTICEABLE = 0.02
"""Blocked share above which a stage counts as blocked; less is rounding to whole rounds."""

LASTING = 0.05
"""Least share of the run for which the run's bottleneck limits."""

_S_PER_MS = 1 / 1000.0


@dataclass(frozen=True)
class Bottleneck:
    """The bottleneck of a run.

    Attributes
    ----------
    stage : str or None
        The stage that limited longest; None if nothing limited for long, or if an exchange did.
    edge : str or None
        The edge whose exchange limited, if no stage did.
    subtasks : tuple of int
        The limiting subtasks of the stage; empty if it limits as a whole.
    limited_s : float, s
        Emulated time for which it limited.
    total_s : float, s
        Emulated time of the run.
    sentence : str
        Names the bottleneck and the evidence.
    throttle : str or None
        The throttle that limited, if neither a stage nor an exchange did.
    """

    stage: str | None
    edge: str | None
    subtasks: tuple[int, ...]
    limited_s: float
    total_s: float
    sentence: str
    throttle: str | None = None

    def detail(self) -> dict[str, Any]:
        """Return everything but the stage and the sentence as plain JSON."""
        return {
            "edge": self.edge,
            "subtasks": list(self.subtasks),
            "limited_s": self.limited_s,
            "share_of_run": self.limited_s / self.total_s if self.total_s > 0 else 0.0,
            **({} if self.throttle is None else {"throttle": self.throttle}),
        }


@dataclass(frozen=True)
class _Interval:
    """One sample interval, figures by stage as ratios."""

    t_s: float
    length_s: float
    blocked: Mapping[str, float]
    busy: Mapping[str, float]
    hungry: frozenset[str]
    """Edges with a channel whose sender has a backlog while its receiver has nothing queued."""
    growing: frozenset[str]
    """Edges with more records in flight than at the sample before."""
    behind: frozenset[str] = frozenset()
    """Sources with a subtask that is never idle while records wait in its log."""


def find_bottleneck(tables: Tables, scenario: Scenario) -> Bottleneck:
    """Find the bottleneck of a run.

    Parameters
    ----------
    tables : mapping of str to pyarrow.Table
        ``stages`` and ``channels`` of the run.
    scenario : Scenario
        The scenario that was run.

    Returns
    -------
    Bottleneck
        The limit that lasted longest, if it lasted for at least 5 % of the run, and a sentence
        with its figures.

    Notes
    -----
    The rule is the reading of Flink's task metrics: a blocked sink shows as busy, what feeds it
    as back-pressured; the first busy stage that is not itself blocked is the cause.
    """
    samples = result_frame(tables, "stages")
    order = {stage.name: rank for rank, stage in enumerate(scenario.topological())}
    behind = _behind_logs(samples)
    intervals = [
        replace(interval, behind=behind.get(interval.t_s, frozenset()))
        for interval in _intervals(samples, _hungry_edges(tables), _growing_edges(tables))
    ]
    limits: dict[str, list[_Interval]] = defaultdict(list)
    for interval in intervals:
        limit = _limit(interval, scenario, order) or _slow_reader(interval, order)
        if limit is not None:
            limits[limit].append(interval)
    return _verdict(limits, tables, scenario)


def _intervals(
    samples: pd.DataFrame,
    hungry: Mapping[float, frozenset[str]],
    growing: Mapping[float, frozenset[str]],
) -> list[_Interval]:
    """Return the intervals of a run; of a stage the worst subtask counts, as in Flink."""
    shares = samples.groupby(["t_s", "stage"], as_index=False)[
        ["backpressured_ms_per_s", "busy_ms_per_s", "interval_s"]
    ].max()
    intervals = []
    for t_s, rows in shares.groupby("t_s"):
        at, stages = float(str(t_s)), rows["stage"]
        intervals.append(
            _Interval(
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


def _slow_reader(interval: _Interval, order: Mapping[str, int]) -> str | None:
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


def _limit(interval: _Interval, scenario: Scenario, order: Mapping[str, int]) -> str | None:
    """Return what limited in an interval: the name of a stage or of an edge, or None.

    Of several unblocked stages below blocked ones, the busiest limits; of equally busy ones the
    last, since the others only pass the pressure on.
    """
    candidates = [
        edge
        for edge in scenario.edges
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


def _overrun(interval: _Interval, scenario: Scenario) -> list[Edge]:
    """Return the edges whose queues of records grow before a receiver that is never idle."""
    if not scenario.system.counts_records:
        return []
    return [
        edge
        for edge in scenario.edges
        if edge.name in interval.growing and interval.busy.get(edge.receiver, 0.0) >= NEVER_IDLE
    ]


def _behind_throttle(interval: _Interval, scenario: Scenario, source: str) -> str | None:
    """Return the limit behind a throttled source: a saturated stage, or the throttle itself."""
    last_first = reversed(scenario.downstream(source))
    name = max(last_first, key=lambda stage: interval.busy.get(stage, 0.0))
    if interval.busy.get(name, 0.0) >= SATURATED:
        return name
    if interval.blocked[source] <= LOW_ABOVE:
        return None
    return throttle_name(scenario)


def _verdict(
    limits: Mapping[str, list[_Interval]], tables: Tables, scenario: Scenario
) -> Bottleneck:
    """Return the limit that lasted longest, in words."""
    total_s = end_of(tables)
    lengths = {
        name: sum(interval.length_s for interval in intervals) for name, intervals in limits.items()
    }
    name = max(lengths, key=lambda limit: lengths[limit], default=None)
    evidence = Evidence(result_frame(tables, "stages"), scenario, lengths, total_s)
    if name is None or lengths[name] < LASTING * total_s:
        sentence = describe(evidence, None, frozenset(), Limiting())
        return Bottleneck(None, None, (), lengths.get(name or "", 0.0), total_s, sentence)
    times = frozenset(interval.t_s for interval in limits[name])
    is_edge = name in {edge.name for edge in scenario.edges}
    is_throttle = name == throttle_name(scenario)
    is_stage = not is_edge and not is_throttle
    limiting = limiting_subtasks(tables, scenario, name, times) if is_stage else Limiting()
    return Bottleneck(
        stage=name if is_stage else None,
        edge=name if is_edge else None,
        subtasks=limiting.subtasks,
        limited_s=lengths[name],
        total_s=total_s,
        sentence=describe(evidence, name, times, limiting),
        throttle=scenario.system.throttle if is_throttle else None,
    )
