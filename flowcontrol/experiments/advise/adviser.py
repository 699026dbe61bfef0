"""Runs changes of a scenario in rounds: alone, joined, then what limits behind the best."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from flowcontrol.analysis import find_bottleneck
from flowcontrol.experiments.advise.changes import Change, Subject
from flowcontrol.experiments.advise.figures import Goal, figures_of
from flowcontrol.experiments.advise.gain import HELD_BACK, Proposal, goal_of
from flowcontrol.experiments.advise.result import Advice
from flowcontrol.experiments.advise.rules import RULES, Rule, changes_of
from flowcontrol.experiments.advise.tried import (
    Candidate,
    Fits,
    NotRun,
    behind,
    candidates,
    joined,
    parts_of_all,
    seen_in,
    tried,
)
from flowcontrol.experiments.executor import Simulate, judging_clock, warm_up
from flowcontrol.experiments.follow import Progress, ShowProgress

if TYPE_CHECKING:
    from collections.abc import Sequence

    from flowcontrol.analysis.frames import Tables
    from flowcontrol.scenario import Scenario
    from flowcontrol.scenario.given import Base

FURTHER: Final = 2
"""Times that what limits next is sought, with the best change made."""


class Adviser:
    """Finds out what changes of a scenario do.

    - ``goal``: what to improve; by default what the job lacks.
    - ``fits``: given a job, tells whether it may be run.
    - ``simulate``: runs a scenario; by default the virtual clock.
    """

    def __init__(
        self,
        base: Base,
        scenario: Scenario,
        tables: Tables,
        goal: Goal | None,
        fits: Fits,
        simulate: Simulate | None,
        rules: Sequence[Rule] = RULES,
    ) -> None:
        self.rules = rules
        self.base, self.scenario, self.fits = base, scenario, fits
        self.is_own = simulate is None
        self.simulate = simulate or judging_clock(fits)
        self.found: list[Proposal] = []
        self.not_run: list[NotRun] = []
        self.before = figures_of(tables, scenario)
        self.seen = seen_in(tables, scenario)
        self.goal = goal or goal_of(scenario, self.before)
        self.finding = find_bottleneck(tables, scenario).sentence

    def advice(self, show: ShowProgress) -> Advice:
        """Try changes alone, then joined, then what limits behind the best."""
        self._try(
            changes_of(Subject(self.scenario, self.base.mapping, self.seen), self.rules), show
        )
        self._try(list(joined(self._sorted())), show)
        for _ in range(FURTHER):
            known = len(self.found)
            self._try(self._further(), show)
            if len(self.found) == known:
                break
        return Advice(
            name=self.scenario.name,
            goal=self.goal,
            limits=self.seen.limits,
            finding=self.finding,
            before=self.before,
            proposals=tuple(self._sorted()),
            not_run=tuple(self.not_run),
        )

    def _further(self) -> list[Change]:
        """Return what may help beside the best change, if sources would be held back with it."""
        if not self.found:
            return []
        best: Proposal = max(self.found, key=_gained)
        if not best.helps or best.seen.held_back <= HELD_BACK:
            return []
        return list(behind(best, self.base, self.base.scenario(best.change.keys), self.rules))

    def _sorted(self) -> list[Proposal]:
        return sorted(self.found, key=lambda one: (-one.score, one.change.name))

    def _try(self, changes: list[Change], show: ShowProgress) -> None:
        known = {one.change.text for one in self.found}
        known |= {one.change.text for one in self.not_run}
        new = [change for change in changes if change.text not in known]
        runnable, refused = candidates(self.base, new, self.fits)
        self.not_run += refused
        if not runnable:
            return
        if self.is_own:
            warm_up(parts_of_all(one.job for one in runnable))
        with show(len(runnable), 0) as bar:
            self._run(runnable, bar)

    def _run(self, runnable: list[Candidate], bar: Progress) -> None:
        outcomes = tried(runnable, self.before, self.goal, self.simulate)
        for number, outcome in enumerate(outcomes, 1):
            if isinstance(outcome, NotRun):
                self.not_run.append(outcome)
            else:
                self.found.append(outcome)
            bar.update(number)


def _gained(one: Proposal) -> float:
    return one.gain
