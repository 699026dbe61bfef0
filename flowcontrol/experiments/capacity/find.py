"""Find the sustainable rate of a source: runs on the virtual clock, one a rate.

The search doubles, then bisects, on rates with few digits.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from fractions import Fraction
from typing import TYPE_CHECKING, Final

from flowcontrol import notices
from flowcontrol.analysis import Bottleneck, find_bottleneck
from flowcontrol.analysis.frames import end_of, second_half_start
from flowcontrol.errors import Problem, ScenarioError
from flowcontrol.experiments.base import job_for
from flowcontrol.experiments.capacity.probe import (
    HIGHEST,
    LOWEST,
    OVERLOAD,
    Probe,
    at_rate,
    examine,
    paced_by,
    rounded,
    search,
)
from flowcontrol.experiments.capacity.result import Capacity, describe_probe
from flowcontrol.experiments.compare.limits import most_of_source
from flowcontrol.experiments.executor import Simulate, judging_clock
from flowcontrol.notices import PATIENCE_S
from flowcontrol.notices import quiet as silenced
from flowcontrol.scenario import Scenario, Schedule, Stage
from flowcontrol.scenario.given import Given, Overrides, as_scenario

if TYPE_CHECKING:
    from flowcontrol.results.run import Run

TOLERANCE: Final = 0.01
"""Relative error that is allowed by default."""

FINEST, COARSEST = 0.0001, 0.5
"""Range of that error."""


def capacity(
    scenario: Given,
    source: str,
    *,
    overrides: Overrides = (),
    tolerance: float = TOLERANCE,
    simulate: Simulate | None = None,
    progress: Callable[[Probe], None] | None = None,
    quiet: bool = False,
) -> Capacity:
    """Find the highest rate that a source can sustain.

    Parameters
    ----------
    scenario : Scenario, mapping, or str or Path
        A scenario, the mapping in its file, or the file. The schedule of the source is replaced by
        a constant, the same for each of its subtasks; everything else is unchanged. Of a source
        that reads a log it is what is written there (``arrival_rate``), and a rate is sustained if
        the lag stays bounded.
    source : str
        Name of the source.
    overrides : mapping or sequence of str, default ()
        Changes of the scenario: values by key, or ``KEY=VALUE`` each.
    tolerance : float, default 0.01
        Relative error allowed, at least 0.0001 and at most 0.5. Half of it is the allowance of
        :mod:`flowcontrol.experiments.capacity.probe`, half the distance at which the search ends.
    simulate : callable, optional
        Runs a scenario; by default the virtual clock.
    progress : callable, optional
        Called with each probe; by default each is a line on standard error, once the search has
        taken 2 s.
    quiet : bool, default False
        Show no progress, and do not say what takes long.

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
    if not FINEST <= tolerance <= COARSEST:
        raise ValueError(
            f"tolerance is {tolerance:g}: needs at least {FINEST:g} and at most {COARSEST:g}"
        )
    # Of many runs nobody reads the messages or the samples.
    unread = {"trace": None, "monitoring": None}
    with silenced(quiet):
        checked = as_scenario(scenario, overrides).model_copy(update=unread)
        stage = _checked_source(checked, source)
        seeker = _Seeker(checked, source, tolerance / 2, simulate, progress or _shown_late())
        below, above = search(seeker.holds, _start(stage), tolerance / 2)
        limit, force, shown_at = _limit(seeker, below, above)
        if seeker.is_of_round:  # which may limit too little at the rates near by to be seen there
            chosen = checked.model_copy(update={"round_ms": None})
            seeker = _Seeker(chosen, source, tolerance / 2, simulate, seeker.progress)
            below, above = search(seeker.holds, _start(stage), tolerance / 2)
            limit, force, shown_at = _limit(seeker, below, above)
    return Capacity(
        name=checked.name,
        source=source,
        reads_log=stage.reads_log,
        parallelism=stage.parallelism,
        tolerance=tolerance,
        window=seeker.window,
        below=None if below is None else seeker.probes[below],
        above=None if above is None else seeker.probes[above],
        limit=limit,
        force=force,
        probes=tuple(seeker.probes.values()),
        shown_at=shown_at,
    )


def _shown_late() -> Callable[[Probe], None]:
    """Return what says each probe in a line, once the search has taken some time."""
    began = time.monotonic()

    def say(probe: Probe) -> None:
        if time.monotonic() - began >= PATIENCE_S:
            notices.progress(describe_probe(probe))

    return say


class _Seeker:
    """Runs and judges rates, and keeps the probes."""

    def __init__(
        self,
        scenario: Scenario,
        source: str,
        allowance: float,
        simulate: Simulate | None,
        progress: Callable[[Probe], None],
    ) -> None:
        self.scenario, self.source, self.allowance = scenario, source, allowance
        self.job = job_for(scenario, scenario.name)
        self.is_own, self.simulate = simulate is None, simulate or judging_clock()
        self.progress = progress
        self.probes: dict[Fraction, Probe] = {}
        self.window = (0.0, 0.0)
        self.is_of_round = False

    def run(self, rate: Fraction) -> Run:
        """Run the scenario at a rate."""
        scenario = at_rate(self.scenario, self.source, rate)
        run = self.simulate(scenario)
        if self.is_own and scenario.round_ms is not None:
            self.is_of_round |= run.round_us != scenario.live_round_us
        return run

    def holds(self, rate: Fraction) -> bool:
        """Tell whether a rate is sustained."""
        tables = self.run(rate).tables
        self.window = (second_half_start(tables), end_of(tables))
        most = most_of_source(self.job, self.source, self.window)
        probe = examine(self.scenario, self.source, rate, tables, self.allowance, most)
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
    what = "is not a source: edges lead to it" if known else "is not a stage of the scenario"
    raise ScenarioError([Problem("--stage", f"{source!r} {what}; use one of {names}")], "command")


def _start(stage: Stage) -> Fraction:
    """Return the first rate to try: the highest one that the scenario states, within limits."""
    schedules: tuple[Schedule, ...] = getattr(stage, paced_by(stage)) or ()
    rates = [phase.rate for schedule in schedules for phase in schedule.phases]
    return min(max([*rates, 4 * LOWEST]), HIGHEST) if any(rates) else Fraction(1)


def _limit(
    seeker: _Seeker, below: Fraction | None, above: Fraction | None
) -> tuple[Bottleneck | None, tuple[Fraction, Fraction] | None, Fraction | None]:
    """Return the bottleneck, the rate in force there, and the rate at which it shows.

    Where it does not above the sustained rate, as buffers take up all that is too much, it does at
    the highest rate that was tried.
    """
    if above is None:
        return None, None, None
    first = above if below is None else rounded(below * OVERLOAD, seeker.allowance)
    for rate in (first, max(seeker.probes)):
        found = find_bottleneck(seeker.run(rate).tables, seeker.scenario)
        if found.stage is not None:
            return found, _force(seeker.scenario.stage(found.stage), seeker.window), rate
        if found.edge is not None or found.throttle is not None:
            return found, None, rate
    return None, None, None


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
