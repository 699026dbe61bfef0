"""Find the sustainable rate of a source: runs on the virtual clock, one a rate.

The search doubles, then bisects, on rates with few digits.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Final

from flowcontrol.analysis import Bottleneck, find_bottleneck
from flowcontrol.analysis.frames import end_of, second_half_start
from flowcontrol.errors import Problem, ScenarioError
from flowcontrol.experiments.capacity.probe import Probe, at_rate, examine, paced_by
from flowcontrol.experiments.executor import Simulate, virtual_clock
from flowcontrol.experiments.follow import ignore
from flowcontrol.scenario import Scenario, Schedule, Stage

if TYPE_CHECKING:
    from flowcontrol.job.run import Run

HIGHEST: Final = Fraction(10**8)
"""Highest rate to try, records/s per subtask."""

LOWEST: Final = Fraction(1, 1000)
"""Lowest rate to try: 1 record in 1,000 s."""

_GUARD: Final = 8
"""Rates are rounded to this share of the width at which the search ends."""

Bracket = tuple[Fraction | None, Fraction | None]


def rounded(rate: Fraction, width: float) -> Fraction:
    """Return a rate rounded to a power of ten that is small against a relative width.

    Parameters
    ----------
    rate : Fraction, records/s
        More than 0.
    width : float
        Relative; the result differs by less than an eighth of it.

    Examples
    --------
    >>> rounded(Fraction(31415926, 10000), 0.01)
    Fraction(3142, 1)
    """
    step = Fraction(1)
    least = rate * Fraction(width) / _GUARD
    while step > least:
        step /= 10
    while step * 10 <= least:
        step *= 10
    return round(rate / step) * step


def search(holds: Callable[[Fraction], bool], start: Fraction, width: float) -> Bracket:
    """Find the highest rate at which something holds.

    Parameters
    ----------
    holds : callable
        Called with rates in records/s, each once.
    start : Fraction, records/s
        First rate, between LOWEST and HIGHEST.
    width : float
        Relative distance at which to stop, more than 0.

    Returns
    -------
    below, above : Fraction or None
        It holds at ``below``, not at ``above``, and they are no further apart than ``width``.
        ``below`` is None if it holds at no rate that was tried, down to LOWEST; ``above`` is None
        if it holds at all of them, up to HIGHEST.
    """
    below, above = _bracket(holds, rounded(start, width))
    if below is None or above is None:
        return below, above
    while above > below * (1 + Fraction(width)):
        middle = rounded(_between(below, above), width)
        if not below < middle < above:
            break
        if holds(middle):
            below = middle
        else:
            above = middle
    return below, above


def _bracket(holds: Callable[[Fraction], bool], rate: Fraction) -> Bracket:
    """Double, or quarter, until the predicate holds at one end only."""
    if holds(rate):
        below = rate
        while below * 2 <= HIGHEST:
            if not holds(below * 2):
                return below, below * 2
            below *= 2
        return below, None
    above = rate
    while above / 4 >= LOWEST:
        if holds(above / 4):
            return above / 4, above
        above /= 4
    return None, above


def _between(low: Fraction, high: Fraction) -> Fraction:
    """Return the geometric mean, to the nearest double."""
    return Fraction(float(low * high) ** 0.5)


TOLERANCE: Final = 0.01
"""Relative error that is allowed by default."""

OVERLOAD: Final = Fraction(3, 2)
"""Multiple of the sustainable rate at which a run shows the limit: just above the sustainable rate,
backpressure is too short to identify it."""


@dataclass(frozen=True)
class Capacity:
    """The sustainable rate of a source.

    Attributes
    ----------
    source : str
        Which.
    parallelism : int
        Its subtasks.
    tolerance : float
        Relative error that was allowed.
    window : tuple of float, s
        The judged part of each run.
    below : Probe or None
        The run at the highest sustained rate; None if no rate was.
    above : Probe or None
        The run at the lowest rate that was not; None if all were.
    limit : Bottleneck or None
        The bottleneck of a run at OVERLOAD times the rate; None if there is none.
    force : tuple of Fraction, or None, records/s
        Lowest and highest service rate in force at a subtask of the stage that limits, in the
        judged part; None for an edge or a stage without one.
    probes : tuple of Probe
        All judged runs, in order.
    """

    source: str
    parallelism: int
    tolerance: float
    window: tuple[float, float]
    below: Probe | None
    above: Probe | None
    limit: Bottleneck | None
    force: tuple[Fraction, Fraction] | None
    probes: tuple[Probe, ...]

    @property
    def rate(self) -> Fraction:
        """The highest sustained rate of one subtask, records/s; 0 if none is."""
        return self.below.rate if self.below is not None else Fraction(0)

    @property
    def total(self) -> Fraction:
        """The same of all subtasks together, records/s."""
        return self.rate * self.parallelism


def find_capacity(
    scenario: Scenario,
    source: str,
    *,
    tolerance: float = TOLERANCE,
    simulate: Simulate | None = None,
    progress: Callable[[Probe], None] | None = None,
) -> Capacity:
    """Find the highest rate that a source can sustain.

    Parameters
    ----------
    scenario : Scenario
        The job. The schedule of the source is replaced by a constant, the same for each of its
        subtasks; everything else is unchanged. Of a source that reads a log it is what is written
        there (``arrival_rate``), and a rate is sustained if the lag stays bounded.
    source : str
        Name of the source.
    tolerance : float, default 0.01
        Relative error allowed, at least 0.0001 and at most 0.5. Half of it is the allowance of
        :mod:`flowcontrol.experiments.capacity.probe`, half the distance at which the search ends.
    simulate : callable, optional
        Runs a scenario; by default the virtual clock.
    progress : callable, optional
        Called with each probe.

    Returns
    -------
    Capacity
        The rate, what limits it, and the runs just below and just above.

    Raises
    ------
    ScenarioError
        If the stage is not a source of the scenario, or the virtual clock refuses the scenario.
    RunError
        If a source's input ends before a run does.
    ValueError
        If the tolerance is out of range.
    """
    if not 0.0001 <= tolerance <= 0.5:
        raise ValueError(f"tolerance is {tolerance:g}: needs at least 0.0001 and at most 0.5")
    stage = _checked_source(scenario, source)
    simulate = simulate or virtual_clock()
    seeker = _Seeker(scenario, source, tolerance / 2, simulate, progress or ignore)
    below, above = search(seeker.holds, _start(stage), tolerance / 2)
    limit, force = _limit(seeker, below, above)
    return Capacity(
        source=source,
        parallelism=stage.parallelism,
        tolerance=tolerance,
        window=seeker.window,
        below=None if below is None else seeker.probes[below],
        above=None if above is None else seeker.probes[above],
        limit=limit,
        force=force,
        probes=tuple(seeker.probes.values()),
    )


class _Seeker:
    """Runs and judges rates, and keeps the probes."""

    def __init__(
        self,
        scenario: Scenario,
        source: str,
        allowance: float,
        simulate: Simulate,
        progress: Callable[[Probe], None],
    ) -> None:
        self.scenario, self.source, self.allowance = scenario, source, allowance
        self.simulate, self.progress = simulate, progress
        self.probes: dict[Fraction, Probe] = {}
        self.window = (0.0, 0.0)

    def run(self, rate: Fraction) -> Run:
        """Run the scenario at a rate."""
        return self.simulate(at_rate(self.scenario, self.source, rate))

    def holds(self, rate: Fraction) -> bool:
        """Tell whether a rate is sustained."""
        tables = self.run(rate).tables
        self.window = (second_half_start(tables), end_of(tables))
        probe = examine(self.scenario, self.source, rate, tables, self.allowance)
        self.probes[rate] = probe
        self.progress(probe)
        return probe.is_sustained


def _checked_source(scenario: Scenario, source: str) -> Stage:
    if scenario.shares_memory:
        text = "no capacity is sought where jobs start and stop: keep one job, without times"
        raise ScenarioError([Problem("jobs", text)], scenario.name)
    sources = [stage for stage in scenario.stages if stage.is_source]
    for stage in sources:
        if stage.name == source:
            return stage
    names = ", ".join(stage.name for stage in sources)
    known = any(stage.name == source for stage in scenario.stages)
    what = "is no source: edges lead to it" if known else "is no stage of the scenario"
    raise ScenarioError([Problem("--stage", f"{source!r} {what}; use one of {names}")])


def _start(stage: Stage) -> Fraction:
    """Return the first rate to try: the highest one that the scenario states, within limits."""
    schedules: tuple[Schedule, ...] = getattr(stage, paced_by(stage)) or ()
    rates = [phase.rate for schedule in schedules for phase in schedule.phases]
    return min(max([*rates, 4 * LOWEST]), HIGHEST) if any(rates) else Fraction(1)


def _limit(
    seeker: _Seeker, below: Fraction | None, above: Fraction | None
) -> tuple[Bottleneck | None, tuple[Fraction, Fraction] | None]:
    """Return the bottleneck and the rate in force there."""
    if above is None:
        return None, None
    rate = above if below is None else rounded(below * OVERLOAD, seeker.allowance)
    found = find_bottleneck(seeker.run(rate).tables, seeker.scenario)
    if found.stage is None:
        is_named = found.edge is not None or found.throttle is not None
        return (found if is_named else None), None
    return found, _force(seeker.scenario.stage(found.stage), seeker.window)


def _force(stage: Stage, window: tuple[float, float]) -> tuple[Fraction, Fraction] | None:
    """Return the rates of a stage, of a source those of reading, in force in a window."""
    start, end = (int(moment * 1_000_000) for moment in window)
    rates = [
        rate
        for schedule in stage.service_rate or stage.emit_rate or ()
        for rate in (
            schedule.rate_at(start),
            *(phase.rate for phase in schedule.phases if start < phase.at_us < end),
        )
    ]
    return (min(rates), max(rates)) if rates else None
