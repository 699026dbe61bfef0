"""Figures of a run, taken in the same way from a real system's samples and from the emulation's.

A phase lasts from one change of a rate to the next. It is compared behind its first part, in which
queues fill or drain; how long the source takes to follow a change is a figure of its own.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from beside import number

from flowcontrol.scenario import Scenario

SETTLED = 0.4
"""So much of a phase is left out before its steady part begins."""

FOLLOWS = 0.1
"""A source follows a change if its rate changes by this share of the larger one."""

SWINGS = 0.3
"""A source swings if its rate, over an eighth of the time, differs so much from its mean."""

BIN_S = 0.5
"""Length of time over which a swinging rate is taken."""

BATCHES = ("pid_rate", "static_admission")
"""Throttles whose sources take up a batch at once: it is their figure, as neither a change of the
rate is one nor a swing."""

APART = 0.75
"""Batches are told from each other if so many samples at most, as a share, begin one."""

LIMITS = {"records": 0.03, "waits": 0.1, "follows": 0.2, "period": 0.2, "depth": 0.2, "batch": 0.1}
"""How far two figures that agree may be apart, as a share of the measured one."""

LEAST = {"records": 2.0, "waits": 2.0, "follows": 0.15, "period": 0.2, "depth": 0.1, "batch": 2.0}
"""And by how much in any case, in the figure's unit: what sampling or one record makes of it."""

UNITS = {
    "records": "1/s",
    "waits": "records",
    "follows": "s",
    "period": "s",
    "depth": "of 1",
    "batch": "records",
}


@dataclass(frozen=True)
class Row:
    """One figure, measured and emulated.

    Attributes
    ----------
    window : tuple of (float, float)
        The phase, s.
    place : str
        A stage, or ``before STAGE`` for what waits there; ``log`` for what the source has not read.
    figure : str
        A key of `UNITS`.
    measured, emulated : float
        In the unit of `UNITS`.
    """

    window: tuple[float, float]
    place: str
    figure: str
    measured: float
    emulated: float

    @property
    def agrees(self) -> bool:
        """Whether the two are as near as `LIMITS` or `LEAST` demand."""
        apart = abs(self.emulated - self.measured)
        return apart <= max(LIMITS[self.figure] * abs(self.measured), LEAST[self.figure])


def windows(scenario: Scenario) -> list[tuple[float, float]]:
    """Return the phases, s."""
    moments = {0, scenario.duration_us}
    for stage in scenario.stages:
        for rates in (stage.emit_rate, stage.service_rate, stage.arrival_rate):
            moments |= {at for schedule in rates or () for at in schedule.changes()}
    bounds = [at / 1e6 for at in sorted(moments) if at <= scenario.duration_us]
    return list(pairwise(bounds))


def rows(scenario: Scenario, measured: pd.DataFrame, emulated: pd.DataFrame) -> list[Row]:
    """Return every figure that both runs have, and the depth of a swing that one alone has."""
    theirs, ours = (dict(figures(scenario, run)) for run in (measured, emulated))
    keys = [
        key for key in {**theirs, **ours} if key[2] == "depth" or (key in theirs and key in ours)
    ]
    return [Row(*key, measured=theirs.get(key, 0.0), emulated=ours.get(key, 0.0)) for key in keys]


def figures(
    scenario: Scenario, run: pd.DataFrame
) -> Iterator[tuple[tuple[tuple[float, float], str, str], float]]:
    """Yield (phase, place, figure) and its value.

    Parameters
    ----------
    scenario : Scenario
        A chain.
    run : DataFrame
        Indexed by time, s: counters ``STAGE.in`` and ``STAGE.out``, and levels such as ``log``.
    """
    names = [stage.name for stage in scenario.topological()]
    source = names[0]
    taken = {name: f"{name}.in" for name in names} | {source: f"{source}.out"}
    before: Line | None = None
    for window in windows(scenario):
        steady = run[(run.index > settled(window) + 1e-6) & (run.index <= window[1] + 0.01)]
        for name in names:
            yield (window, name, "records"), growth(steady[taken[name]])
        for sender, name in pairwise(names):
            waits = steady[f"{sender}.out"] - steady[f"{name}.in"]
            yield (window, f"before {name}", "waits"), float(waits.mean())
        if "log" in run:
            yield (window, "log", "waits"), float(steady["log"].mean())
        if scenario.system.throttle in BATCHES:
            for place, size in batches(steady[taken[source]]):
                yield (window, place, "batch"), size
            continue
        after = line(steady[taken[source]])
        if before is not None and abs(after.slope - before.slope) > FOLLOWS * max(
            after.slope, before.slope
        ):
            yield (window, source, "follows"), follows_s(window[0], before, after)
        before = after
        for figure, value in swings(steady[taken[source]]):
            yield (window, source, figure), value


def settled(window: tuple[float, float]) -> float:
    """Return from when on a phase is compared, s."""
    return window[0] + SETTLED * (window[1] - window[0])


class Line(NamedTuple):
    """A counter that grows steadily."""

    slope: float  # 1/s
    start: float  # At 0 s

    def at(self, time_s: float) -> float:
        """Return the counter at a moment."""
        return self.start + self.slope * time_s


def line(counted: Any) -> Line:
    """Return the line through a counter."""
    if len(counted) < 2:
        return Line(float("nan"), float("nan"))
    return Line(*map(float, np.polyfit(counted.index, counted.to_numpy(float), 1)))


def growth(counted: Any) -> float:
    """Return the growth of a counter, 1/s."""
    return line(counted).slope


def follows_s(change_s: float, before: Line, after: Line) -> float:
    """Return how long a source goes on as before a change, s.

    It is the time at the rate before that explains what was emitted until the phase is settled,
    had the rate changed at once. Both lines are extended to the change, so it needs no threshold,
    and what a source emits in lots makes no difference.
    """
    return (after.at(change_s) - before.at(change_s)) / (before.slope - after.slope)


def batches(counted: Any) -> Iterator[tuple[str, float]]:
    """Yield the median and the largest batch, if a source takes them up less often than sampled."""
    grown = np.diff(counted.to_numpy(float))
    sizes = grown[grown > 0]
    if 0 < len(sizes) < APART * len(grown):
        yield "median batch", float(np.median(sizes))
        yield "largest batch", float(sizes.max())


def swings(counted: Any) -> Iterator[tuple[str, float]]:
    """Yield the period and the depth of a source that swings: between what rates, over the mean."""
    times = np.arange(counted.index[0], counted.index[-1], BIN_S)
    if len(times) < 8:
        return
    rates = np.diff(np.interp(times, counted.index, counted.to_numpy(float))) / BIN_S
    mean = rates.mean()
    low, high = np.quantile(rates, [0.125, 0.875])
    if mean <= 0 or high - low <= 2 * SWINGS * mean:
        return
    yield "depth", float((high - low) / mean)
    is_high, ups = bool(rates[0] > mean), []
    for time, rate in zip(times, rates, strict=False):
        if not is_high and rate > mean + (high - mean) / 2:
            is_high = True
            ups.append(time)
        elif is_high and rate < mean - (mean - low) / 2:
            is_high = False
    if len(ups) > 2:
        yield "period", float((ups[-1] - ups[0]) / (len(ups) - 1))


def show(found: list[Row]) -> str:
    """Return rows as text, a block for each phase."""
    lines = []
    for window in dict.fromkeys(row.window for row in found):
        lines.append(f"\n{window[0]:g} to {window[1]:g} s")
        lines.append(f"{'':<18}{'':<10}{'measured':>10}{'emulated':>10}")
        for row in (row for row in found if row.window == window):
            lines.append(
                f"{row.place:<18}{row.figure:<10}{number(row.measured):>10}"
                f"{number(row.emulated):>10} {UNITS[row.figure]:<8}"
                f"{'' if row.agrees else 'apart'}".rstrip()
            )
    agreeing = sum(row.agrees for row in found)
    return "\n".join([*lines, f"\n{agreeing} of {len(found)} figures agree"])
