"""The series of the charts as plain lists of numbers: sums, means and steps.

The series of a figure that covers intervals starts at 0 with the first value; draw it as steps that
rise at the *start* of an interval.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from flowcontrol.scenario import Edge, Scenario
from flowcontrol.scenario.schedule import Schedule

if TYPE_CHECKING:
    import pandas as pd

MAX_POINTS = 600
"""Samples drawn of one series; longer ones are averaged over groups of neighbours."""

_US_PER_S = 1_000_000


@dataclass(frozen=True)
class Series:
    """One line of a drawing."""

    name: str  # For the legend
    x: list[float]  # Emulated time (s)
    y: list[float]  # As many values


def thinned(frame: pd.DataFrame, column: str) -> tuple[list[float], list[float]]:
    """Return times and values of a column, at most :data:`MAX_POINTS` of them.

    ``frame``: one row per sample, in order, with ``t_s`` and ``interval_s``.

    Returns times in seconds, and values; of a long run each the mean of a group of neighbours,
    weighted by their intervals, at the time of the group's last sample.
    """
    times, values = frame["t_s"].tolist(), frame[column].astype("float64").tolist()
    size = -(-len(times) // MAX_POINTS)
    if size <= 1:
        return times, values
    lengths = frame["interval_s"].tolist()
    starts = range(0, len(times), size)
    return (
        [times[min(start + size, len(times)) - 1] for start in starts],
        [_mean(values[s : s + size], lengths[s : s + size]) for s in starts],
    )


def _mean(values: Sequence[float], weights: Sequence[float]) -> float:
    """Return the weighted mean; the plain one when the weights are all 0."""
    total = sum(weights)
    if total <= 0:
        return sum(values) / len(values)
    return sum(v * w for v, w in zip(values, weights, strict=True)) / total


def over_interval(name: str, frame: pd.DataFrame, column: str, factor: float = 1.0) -> Series:
    """Return the series of a figure that covers intervals, from time 0 on."""
    x, y = thinned(frame, column)
    y = [value * factor for value in y]
    return Series(name, [0.0, *x], [*y[:1], *y]) if x else Series(name, [], [])


def capability(name: str, schedules: Iterable[Schedule], until_s: float) -> Series:
    """Return the rate that a stage's schedules allow over time, all subtasks together.

    - ``schedules``: one per subtask.
    - ``until_s`` (s): end of the line; later phases are left out. At 0 the series is empty.
    """
    subtasks = list(schedules)
    starts = {phase.at_us for schedule in subtasks for phase in schedule.phases}
    times = sorted(start for start in starts | {0} if start < until_s * _US_PER_S)
    rates = [float(sum(schedule.rate_at(at) for schedule in subtasks)) for at in times]
    corners = [at / _US_PER_S for at in times]
    return Series(name, [*corners, until_s], [*rates, rates[-1]]) if times else Series(name, [], [])


def phase_changes(scenario: Scenario, until_s: float) -> list[float]:
    """Return the times, in seconds, at which any subtask's rate changes before ``until_s``."""
    changes = {
        change / _US_PER_S
        for stage in scenario.stages
        for rates in (stage.emit_rate, stage.arrival_rate, stage.service_rate)
        for schedule in rates or ()
        for change in schedule.changes()
    }
    return sorted(change for change in changes if 0 < change < until_s)


def is_remote(edge: Edge, sender: int, receiver: int, scenario: Scenario) -> bool:
    """Return whether a channel crosses task managers, and so has credits and exclusive buffers."""
    at_sender = scenario.stage(edge.sender).placement[sender]
    return at_sender != scenario.stage(edge.receiver).placement[receiver]


def edge_capacity(
    edge: Edge, channels: pd.DataFrame, stages: pd.DataFrame, scenario: Scenario
) -> float | None:
    """Return how many buffers an edge can hold in flight with its pools full.

    Returns output pools, exclusive buffers of the remote channels and floating buffers of their
    gates; overdraft is not counted. None if a pool is shared with another edge, nothing was
    sampled, the transport has queues of records, or channels come and go (``scaling``): then the
    edge has no figure of its own.
    """
    shared = len(scenario.outputs(edge.sender)) > 1 or len(scenario.inputs(edge.receiver)) > 1
    rows = channels[channels["edge"] == edge.name]
    pools = stages[stages["stage"] == edge.sender]
    has_none = scenario.system.counts_records or scenario.scaling is not None
    if shared or rows.empty or pools.empty or has_none:
        return None
    pairs = set(zip(rows["sender"].tolist(), rows["receiver"].tolist(), strict=True))
    remote = [pair for pair in pairs if is_remote(edge, *pair, scenario)]
    gates = {receiver for _, receiver in remote}
    size = float(pools[pools["t_s"] == pools["t_s"].max()]["output_pool_size"].sum())
    exclusive = scenario.options.exclusive_buffers * len(remote)
    return size + exclusive + scenario.options.floating_buffers * len(gates)
