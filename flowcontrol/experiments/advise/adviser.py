"""Try changes in rounds: alone, joined, then what limits behind the best."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import reduce
from operator import or_
from typing import TYPE_CHECKING, Final

from flowcontrol.analysis import find_bottleneck
from flowcontrol.analysis.figures import Figures
from flowcontrol.analysis.frames import Panels, Tables, end_of, mean_over_time, panels_of
from flowcontrol.analysis.panel import Panel
from flowcontrol.analysis.subtasks import subtask_figures
from flowcontrol.errors import RunError, ScenarioError
from flowcontrol.experiments.advise.result import (
    HELD_BACK,
    Advice,
    Change,
    Goal,
    NotRun,
    Proposal,
    Seen,
    Subject,
    figures_of,
    goal_of,
    weighed,
)
from flowcontrol.experiments.advise.rules import RULES, Rule, changes_of
from flowcontrol.experiments.base import job_for
from flowcontrol.experiments.executor import (
    Progress,
    ShowProgress,
    Simulate,
    judging_clock,
    warm_up,
)
from flowcontrol.layout.job import Job

if TYPE_CHECKING:
    from flowcontrol.scenario import Scenario
    from flowcontrol.scenario.given import Base


# --- Try changes: each in its own run on the virtual clock, then the helpful ones together.


JOINED: Final = 4
"""Kinds of changes that are joined at most."""

MOST_MORE: Final = 32
"""Task managers that are added at most where slots do not suffice."""

_MANAGERS: Final = "cluster.task_managers"

SHARE_OF_BEST: Final = 0.1
"""Share of the largest gain below which a change is not joined with others."""

_OF_STAGES: Final = frozenset({"parallelism", "partitioner", "placement", "slots"})
"""Kinds of changes that move a limit from one stage to the next."""

_MS_PER_S: Final = 1000.0


Fits = Callable[["Job"], bool]
"""Tells whether a job may be run."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A change that can be run."""

    change: Change  # Which
    job: Job  # The changed scenario, laid out


def candidates(
    base: Base, changes: Iterable[Change], fits: Fits
) -> tuple[list[Candidate], list[NotRun]]:
    """Lay the changed scenarios out.

    ``fits``: whether a job may be run.
    """
    found, refused = [], []
    for change in changes:
        try:
            placed, job = _laid_out(base, change)
        except ScenarioError as error:
            problem = error.problems[0]
            refused.append(NotRun(change, f"{problem.place}: {problem.message}"))
            continue
        if fits(job):
            found.append(Candidate(placed, job))
        else:
            refused.append(NotRun(change, "its run would be too long here"))
    return found, refused


def _laid_out(base: Base, change: Change) -> tuple[Change, Job]:
    """Return a change and its job; where the slots do not suffice, with more task managers.

    Raises ScenarioError if the changed scenario is refused.
    """
    try:
        return change, job_for(base.scenario(change.keys), base.source)
    except ScenarioError as error:
        if "operators" not in base.mapping or error.problems[0].place != _MANAGERS:
            raise
        first = error
    now = base.mapping.get("cluster", {}).get("task_managers", 1)
    for count in range(now + 1, now + MOST_MORE + 1):
        more = change.on_managers(count)
        with suppress(ScenarioError):
            return more, job_for(base.scenario(more.keys), base.source)
    raise first


def parts_of_all(jobs: Iterable[Job]) -> int:
    """Return the parts of the kernel that jobs need together."""
    from flowcontrol.memory.parts import parts_of

    return reduce(or_, map(parts_of, jobs), 0)


def seen_in(tables: Tables, scenario: Scenario) -> Seen:
    """Return what a run shows of a job, for the choice of changes."""
    tables = panels_of(tables)
    rows, whole = tables.panel("stages"), (0.0, end_of(tables))
    busiest = {}
    for stage in scenario.stages:
        own = subtask_figures(rows.of("stage", stage.name), whole)
        busiest[stage.name] = max((one.busy_ms_per_s for one in own), default=0.0) / _MS_PER_S
    limits = find_bottleneck(tables, scenario).stage
    sources = rows.among("stage", [stage.name for stage in scenario.sources])
    held = sources.per_sample(["backpressured_ms_per_s"], "max")
    held = held.take(held["backpressured_ms_per_s"] > HELD_BACK * _MS_PER_S)
    blocked = mean_over_time(held, "backpressured_ms_per_s") / _MS_PER_S
    return Seen(limits, busiest, max(blocked, _piling_up(tables, sources)))


def _piling_up(tables: Panels, sources: Panel) -> float:
    """Return which share of what was emitted in the second half of a run only filled buffers.

    It would have held the sources back, had the buffers been full: more subtasks have more.
    """
    half = end_of(tables) / 2
    emitted = sources.per_sample(["records_out"])
    flying = tables.panel("channels").per_sample(["in_flight_records"])
    grown = []
    for found, column in ((emitted, "records_out"), (flying, "in_flight_records")):
        late = found[column][found["t_s"] >= half]
        grown.append(float(late[-1] - late[0]) if len(late) else 0.0)
    return min(1.0, max(0.0, grown[1] / grown[0])) if grown[0] > 0 else 0.0


def tried(
    chosen: Iterable[Candidate], before: Figures, goal: Goal, simulate: Simulate
) -> Iterator[Proposal | NotRun]:
    """Run changed scenarios; yield what each gained, or why it failed."""
    for one in chosen:
        try:
            run = simulate(one.job.scenario)
        except RunError as error:
            yield NotRun(one.change, str(error))
            continue
        after = figures_of(run.tables, one.job.scenario)
        seen = seen_in(run.tables, one.job.scenario)
        yield weighed(one.change, before, after, goal, seen)


def joined(proposals: Sequence[Proposal]) -> Iterator[Change]:
    """Yield the changes that helped, joined: the best with the next of another kind, and so on."""
    best: dict[str, Change] = {}
    least = SHARE_OF_BEST * max((one.gain for one in proposals), default=0.0)
    for one in proposals:
        if one.helps and one.gain >= least:
            best.setdefault(one.change.kind, one.change)
    whole: Change | None = None
    for change in list(best.values())[:JOINED]:
        if whole is None:
            whole = change
        elif not _meet(whole, change):
            whole = whole.joined(change, "each helps alone")
            yield whole


def behind(
    best: Proposal, base: Base, scenario: Scenario, rules: Sequence[Rule]
) -> Iterator[Change]:
    """Yield what may help beside a change, once something else limits than before."""
    limits = best.seen.limits or "nothing"
    for change in changes_of(Subject(scenario, base.mapping, best.seen), rules):
        if change.kind in _OF_STAGES and not _meet(best.change, change):
            yield best.change.joined(change, f"without the last of them {limits} limits")


def _meet(one: Change, other: Change) -> bool:
    """Tell whether two changes set the same key."""
    return bool({path for path, _ in one.keys} & {path for path, _ in other.keys})


# --- Runs changes of a scenario in rounds: alone, joined, then what limits behind the best.


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
