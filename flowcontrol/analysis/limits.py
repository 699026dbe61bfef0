"""What limits a job in each sample interval: stages, exchanges, throttles.

The rule is Flink's: the first stage downstream that is busy and not blocked while something
upstream of it is blocked. :mod:`flowcontrol.analysis.bottleneck` says what it is beyond that rule.
Of several independent parts of a job, as two branches before they meet, each may have a limit.

Buffers hold what a stage does not get done until they are full. Until then its senders are not
blocked, while the latency of its records grows.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from typing import Final, NamedTuple

import numpy as np

from flowcontrol.analysis.frames import Tables, panels_of
from flowcontrol.analysis.panel import Array, Panel
from flowcontrol.analysis.subtasks import NEVER_IDLE, edges_into
from flowcontrol.analysis.waits import (
    ROUND,
    in_time_with_triggers,
    is_of_round,
    round_us_of,
    stretches,
)
from flowcontrol.analysis.wording import throttle_name
from flowcontrol.protocol.monitoring import LOW_ABOVE, POOL_HIGH
from flowcontrol.scenario import Edge, Scenario
from flowcontrol.scenario.models import SPILLING

_MORE: Final = 0.05
"""Growth of what waits for a subtask, relative to what it takes up meanwhile, from which it is
behind; less comes and goes where it is just as fast as what is sent to it."""

_LASTING: Final = 0.05
"""Share of the run for which that must grow: a window's burst is worked off before the next one."""


def overruns(samples: Panel, channels: Panel, scenario: Scenario) -> Mapping[float, set[str]]:
    """Return by sample the stages that fall behind.

    ``samples``, ``channels``: the tables ``stages`` and ``channels``.

    A stage with a subtask that is not idle for a while falls behind until the most waits
    for it, also in between where less does, as after each burst of a window. Of a transport that
    counts records the growth from sample to sample says the same, so there is none of these.
    """
    found: dict[float, set[str]] = defaultdict(set)
    if scenario.system.counts_records or not len(samples):
        return found
    least_s = _LASTING * float(samples["t_s"][-1])
    for stage in scenario.stages:
        edges = edges_into(scenario, stage.name)
        rows = samples.of("stage", stage.name)
        is_full = rows["busy_ms_per_s"] >= 1000 * NEVER_IDLE
        if not edges or any(edge.chain for edge in scenario.inputs(stage.name)):
            continue
        into = channels.among("edge", edges) if is_full.any() else channels
        for subtask in sorted(set(rows["subtask"][is_full].tolist())):
            for t_s in _behind(rows.of("subtask", subtask), into.of("receiver", subtask), least_s):
                found[t_s].add(stage.name)
    return found


def _behind(rows: Panel, into: Panel, least_s: float) -> Iterator[float]:
    """Yield the samples in which a subtask falls behind."""
    times = rows["t_s"]
    totals = into.per_sample(["in_flight_records"])
    at = dict(zip(totals["t_s"].tolist(), totals["in_flight_records"].tolist(), strict=True))
    waiting = np.array([at.get(t_s, 0) for t_s in times.tolist()], np.float64)
    before = np.concatenate([[0.0], waiting[:-1]])
    taken = rows["rate_in"] * rows["interval_s"]
    for first, last in _stretches(rows["busy_ms_per_s"] >= 1000 * NEVER_IDLE):
        top = first + int(np.argmax(waiting[first:last]))
        grows = first + np.flatnonzero((waiting > before)[first : top + 1])
        if len(grows) < 2:
            continue
        begin = int(grows[0])
        grown = waiting[top] - before[begin]
        length_s = float(rows["interval_s"][begin : top + 1].sum())
        if length_s >= least_s and grown > _MORE * taken[begin : top + 1].sum():
            yield from times[begin : top + 1].tolist()


def _stretches(is_true: Array) -> Iterator[tuple[int, int]]:
    """Yield where each stretch of what is true begins, and where it has ended."""
    edges = np.flatnonzero(np.diff(np.concatenate([[False], is_true, [False]]).astype(np.int8)))
    yield from zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True)


SATURATED: Final = 0.9
"""Busy share from which a stage certainly limits the stages that it blocks."""

NOTICEABLE: Final = 0.02
"""Blocked share above which a stage counts as blocked; less is rounding to whole rounds."""

_S_PER_MS = 1 / 1000.0

_SHARES: Final = ("backpressured_ms_per_s", "busy_ms_per_s")


class Interval(NamedTuple):
    """One sample interval, figures by stage as ratios."""

    t_s: float  # t_s, length_s: its end and its length (s)
    length_s: float
    # Shares of time of the worst subtask of a stage (ratio).
    blocked: Mapping[str, float]
    busy: Mapping[str, float]
    # Edges with a channel whose sender has a backlog while its receiver has nothing queued.
    hungry: Set[str]
    # Edges with more records in flight than at the sample before, under a transport that counts
    # records.
    growing: Set[str]
    behind: Set[str]  # Sources with a subtask that is never idle while records wait in its log
    # By edge with channels that wait for a round trip: how much longer that is than in the job.
    stretched: Mapping[str, float]
    # Stages with a subtask behind full inputs that has room for output and is mostly busy.
    at_work: Set[str]
    overrun: Set[str]  # Stages that fall behind while buffers still hold what waits for them


Limits = Sequence[tuple[Interval, Sequence[str]]]
"""What limited in each interval: names of stages, edges, the throttle or ROUND; the job's first."""


def find_limits(tables: Tables, scenario: Scenario, round_us: int | None = None) -> Limits:
    """Return what limited a run, interval by interval.

    - ``tables``: ``stages`` and ``channels`` of the run.
    - ``round_us``: length of its rounds, microseconds; by default what the scenario states.

    In the order of time, with the names of stages, edges or the throttle: the one that limits the
    job first, then those of other parts of it; none if nothing limits. ``ROUND`` stands for an
    exchange that limits only because of the length of the rounds.
    """
    panels = panels_of(tables)
    order = {stage.name: rank for rank, stage in enumerate(scenario.topological())}
    outputs = {name: scenario.outputs(name) for name in order}
    samples, channels = panels.panel("stages"), panels.panel("channels")
    intervals = _intervals(samples, channels, scenario, round_us_of(scenario, round_us))
    in_time = in_time_with_triggers(samples, scenario)
    intervals = [_without(one, in_time.get(one.t_s, frozenset()), scenario) for one in intervals]
    return [(interval, _limits(interval, scenario, order, outputs)) for interval in intervals]


def _limits(
    interval: Interval,
    scenario: Scenario,
    order: Mapping[str, int],
    outputs: Mapping[str, Sequence[Edge]],
) -> list[str]:
    """Return the limits of an interval: that of the job, then those of its other parts.

    A stage that limits and is blocked has subtasks that are at work and others that are not: these
    are no other part, and wait for those, as for the barrier of the one that is behind.
    """
    first = _limit(interval, scenario, order) or _slow_reader(interval, order)
    if first is None:
        return []
    blocked, found = interval.blocked, dict.fromkeys([first])
    for sender, edges in outputs.items():
        if sender == first or blocked.get(sender, 0.0) <= LOW_ABOVE:
            continue
        if not any(blocked.get(edge.receiver, 0.0) > NOTICEABLE for edge in edges):
            limit = _limit(interval, scenario, order, edges)
            if limit is not None:
                found[limit] = None
    free = [name for name in interval.behind if interval.blocked.get(name, 0.0) <= NOTICEABLE]
    apart = sorted({*free, *interval.overrun}, key=lambda name: order[name])
    return list(found | dict.fromkeys(apart))


def _intervals(
    samples: Panel, channels: Panel, scenario: Scenario, round_us: int | None
) -> list[Interval]:
    """Return the intervals of a run; of a stage the worst subtask counts, as in Flink."""
    stretched = stretches(channels, scenario, round_us)
    overrun = overruns(samples, channels, scenario)
    hungry = _by_sample(channels, "edge", _is_hungry(channels))
    growing = _growing(channels) if scenario.system.counts_records else {}
    behind = _by_sample(samples, "stage", _is_behind(samples))
    at_work = _by_sample(samples, "stage", _is_at_work(samples))
    blocked: dict[float, dict[str, float]] = defaultdict(dict)
    busy: dict[float, dict[str, float]] = defaultdict(dict)
    for stage in sorted(set(samples["stage"].tolist())):
        worst = samples.of("stage", stage).per_sample(_SHARES, "max")
        shares = ((worst[column] * _S_PER_MS).tolist() for column in _SHARES)
        for t_s, held, at_it in zip(worst["t_s"].tolist(), *shares, strict=True):
            blocked[t_s][stage], busy[t_s][stage] = held, at_it
    nothing: set[str] = set()
    each = samples.per_sample([])
    return [
        Interval(
            t_s=t_s,
            length_s=length_s,
            blocked=blocked[t_s],
            busy=busy[t_s],
            hungry=hungry.get(t_s, nothing),
            growing=growing.get(t_s, nothing),
            behind=behind.get(t_s, nothing),
            stretched=stretched.get(t_s, {}),
            at_work=at_work.get(t_s, nothing),
            overrun=overrun.get(t_s, nothing),
        )
        for t_s, length_s in zip(each["t_s"].tolist(), each["interval_s"].tolist(), strict=True)
    ]


def _without(interval: Interval, in_time: frozenset[str], scenario: Scenario) -> Interval:
    """Return an interval in which stages are not held up that only wait for their triggers."""
    if not in_time:
        return interval
    edges = {edge.name for edge in scenario.edges if edge.receiver in in_time}
    return interval._replace(
        blocked={name: share * (name not in in_time) for name, share in interval.blocked.items()},
        growing=interval.growing - edges,
        behind=interval.behind - in_time,
    )


def _by_sample(rows: Panel, column: str, is_true: Array) -> Mapping[float, Set[str]]:
    """Return by sample the stages, or edges, with a row of which something is true."""
    found: dict[float, set[str]] = defaultdict(set)
    times, names = rows["t_s"][is_true].tolist(), rows[column][is_true].tolist()
    for t_s, name in zip(times, names, strict=True):
        found[t_s].add(name)
    return found


def _is_behind(rows: Panel) -> Array:
    """Tell when a source is never idle while records wait in its log."""
    is_behind: Array = rows["busy_ms_per_s"] * _S_PER_MS >= NEVER_IDLE
    return is_behind & (rows["lag_records"] > 0)


def _is_at_work(rows: Panel) -> Array:
    """Tell when a subtask holds its senders up itself, however long it is blocked.

    Its inputs are full, its output has room, and it is busy whenever it is not blocked, which is
    most of the time: what :func:`~flowcontrol.analysis.causes.root_cause.root_cause` goes by.
    """
    busy, blocked = (rows[name] * _S_PER_MS for name in ("busy_ms_per_s", "backpressured_ms_per_s"))
    has_room: Array = (rows["in_pool_usage"] >= POOL_HIGH) & (rows["out_pool_usage"] < POOL_HIGH)
    return has_room & (busy > blocked) & (busy + blocked >= SATURATED)


def _is_hungry(rows: Panel) -> Array:
    """Tell when a sender of an edge waits for a receiver that has nothing."""
    is_hungry: Array = (rows["backlog"] > 0) & (rows["queued"] == 0)
    return is_hungry


def _growing(channels: Panel) -> Mapping[float, Set[str]]:
    """Return by sample the edges with more records in flight than at the sample before."""
    found: dict[float, set[str]] = defaultdict(set)
    for edge in set(channels["edge"].tolist()):
        totals = channels.of("edge", edge).per_sample(["in_flight_records"])
        grows = np.diff(totals["in_flight_records"], prepend=np.int64(2**62)) > 0
        for t_s in totals["t_s"][grows].tolist():
            found[t_s].add(edge)
    return found


def _slow_reader(interval: Interval, order: Mapping[str, int]) -> str | None:
    """Return the first source that is behind its log although nothing blocks it."""
    free = [name for name in interval.behind if interval.blocked.get(name, 0.0) <= NOTICEABLE]
    return min(free, key=lambda name: order[name], default=None)


def _limit(
    interval: Interval,
    scenario: Scenario,
    order: Mapping[str, int],
    edges: Iterable[Edge] | None = None,
) -> str | None:
    """Return what limited in an interval: the name of a stage or of an edge, or None.

    Of several stages below blocked ones that are not blocked, or at work, the busiest limits; of
    equally busy ones the last, since the others only pass the pressure on. Only the given edges
    count, if there are any.
    """
    candidates = [
        edge
        for edge in (scenario.edges if edges is None else edges)
        if interval.blocked.get(edge.sender, 0.0) > NOTICEABLE
        and (
            interval.blocked.get(edge.receiver, 0.0) <= LOW_ABOVE
            or edge.receiver in interval.at_work
            or edge.partition_type in SPILLING
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
    if busy >= SATURATED or edge.receiver in interval.at_work:
        return edge.receiver
    if blocked <= LOW_ABOVE:
        return None  # the tail of a phase that has ended
    was_blocked_in_vain = busy < blocked  # for part of the time the receiver had nothing to do
    if not was_blocked_in_vain and edge.name not in interval.hungry:
        return edge.receiver
    stretch = interval.stretched.get(edge.name, 1.0)
    return ROUND if is_of_round(stretch, blocked, busy) else edge.name


def _overrun(interval: Interval, scenario: Scenario) -> list[Edge]:
    """Return the edges into stages that are never idle while more and more waits for them."""
    if not scenario.system.counts_records:
        return [edge for edge in scenario.edges if edge.receiver in interval.overrun]
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
