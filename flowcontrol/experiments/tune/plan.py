"""The plan of a search: the scenario, the varied keys, what is good, and how much is run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from flowcontrol.errors import Problem, ScenarioError
from flowcontrol.experiments.base import job_for
from flowcontrol.experiments.sweep.plan import Plan, Point, Vary, read_varied
from flowcontrol.experiments.sweep.varied import Varied, show_value
from flowcontrol.experiments.tune.columns import reserved
from flowcontrol.experiments.tune.goals import Goals, read_goals
from flowcontrol.experiments.tune.space import Space
from flowcontrol.layout.job import Job
from flowcontrol.memory.parts import parts_of
from flowcontrol.scenario import Scenario
from flowcontrol.scenario.given import Base

RUNS: Final = 200
"""Runs of a search by default."""

MOST_RUNS: Final = 100_000
"""Most runs of a search: what it asks for next takes the longer, the more it was told."""

MOST_SEED: Final = 2**32 - 1
"""Largest seed of the search: NumPy's generator takes no other."""

BATCH: Final = 10
"""Points that are asked for before the first of them is told, by default."""

_MOST_SHOWN: Final = 20
"""Problems that a refusal lists."""

_COMPANIES: Final = 8
"""Combinations in which a value is tried before it is refused."""


@dataclass(frozen=True)
class TunePlan:
    """What a search does."""

    sweep: Plan  # The scenario and the varied keys
    goals: Goals  # What is good
    runs: int  # Points to run, at least 1
    batch: int  # Points asked for at a time, at least 1
    seed: int  # Of the search
    given: Scenario | None  # The scenario as given, without a change; None if it is none by itself
    given_point: Point | None  # The same as a point; None if it is not among them
    example: Scenario  # A point that is not refused
    parts: int  # Parts of the kernel that the points need, as far as each value tells

    @property
    def space(self) -> Space:
        """All points."""
        return Space(self.sweep.varied)

    @property
    def base(self) -> Base:
        """The scenario."""
        return self.sweep.base


def make_tune_plan(
    base: Base,
    vary: Vary,
    objectives: Sequence[tuple[str, str]],
    constraints: Sequence[str],
    *,
    runs: int = RUNS,
    batch: int = BATCH,
    seed: int = 1,
) -> TunePlan:
    """Read and check what a search does.

    - ``objectives``: one or two: ``("minimise", "memory")``.
    - ``runs``, ``batch``, ``seed``: as in :class:`TunePlan`.

    Raises ScenarioError with every problem of these arguments, a value that no point can have among
    them.
    """
    problems: list[Problem] = []
    varied, is_whole = read_varied(base, vary, problems, reserved())
    if not varied and is_whole:
        text = "nothing is varied: name at least one key, --vary KEY=VALUES"
        problems.append(Problem("--vary", text))
    problems += [
        Problem(f"--vary {one.key}", "one value is nothing to choose from: state several, or --set")
        for one in varied
        if len(one.values) < 2
    ]
    for name, number, most in (("--runs", runs, MOST_RUNS), ("--batch", batch, MOST_RUNS)):
        if not 1 <= number <= most:
            problems.append(Problem(name, f"{number:,}: state at least 1 and at most {most:,}"))
    if not 0 <= seed <= MOST_SEED:
        text = f"{seed:,}: state at least 0 and at most {MOST_SEED:,}"
        problems.append(Problem("--seed", text))
    if problems:
        raise ScenarioError(problems, "command")
    sweep = Plan(base, varied, seed=seed)
    first, parts = _check_values(sweep)
    goals = read_goals(objectives, constraints, first)
    given = _given(base)
    point = None if given is None else _given_point(sweep, given)
    return TunePlan(sweep, goals, runs, batch, seed, given, point, first, parts)


def _given(base: Base) -> Scenario | None:
    """Return the scenario as given, if the virtual clock runs it."""
    try:
        scenario = base.scenario()
        job_for(scenario, base.source)
    except ScenarioError:
        return None
    return scenario


def _given_point(plan: Plan, given: Scenario) -> Point | None:
    """Return the point at which the scenario is as given; None if some key has another value."""
    whole, point = given.canonical(), []
    for varied in plan.varied:
        for value in varied.values:
            try:
                changed = plan.base.scenario([(varied.path, value)])
            except ScenarioError:
                continue
            if changed.canonical() == whole:
                point.append(value)
                break
        else:
            return None
    return tuple(point)


def _check_values(plan: Plan) -> tuple[Scenario, int]:
    """Try every value of every key; return a scenario that is not refused, and parts of the kernel.

    A value is refused if it is in all of a few combinations with others, each of another place in
    their lists; a combination alone that is refused costs the search no run.
    """
    problems: list[Problem] = []
    good: Scenario | None = None
    parts = 0
    for place, varied in enumerate(plan.varied):
        for value in varied.values:
            found = _try_value(plan, place, value)
            if isinstance(found, ScenarioError):
                told = f"{varied.key}={show_value(value)}"
                problems += [
                    Problem(f"--vary {told}", f"{one.place}: {one.message}")
                    for one in found.problems
                ]
            else:
                good = good or found.scenario
                parts |= parts_of(found)
    if problems or good is None:
        raise ScenarioError(problems[:_MOST_SHOWN], plan.base.source)
    return good, parts


def _try_value(plan: Plan, place: int, value: Any) -> Job | ScenarioError:
    """Return a job with a value of one key, or why the first one is refused."""
    refusal: ScenarioError | None = None
    most = max(len(varied.values) for varied in plan.varied)
    count = min(_COMPANIES, most)
    for number in range(count):
        point = _company(plan.varied, number * most // count, place, value)
        try:
            return job_for(plan.scenario(point), plan.base.source)
        except ScenarioError as error:
            refusal = refusal or error
    return refusal or ScenarioError([Problem("--vary", "no value")])


def _company(varied: Sequence[Varied], number: int, place: int, value: Any) -> Point:
    """Return a point with one value given and the others of a place in their lists."""
    others = [one.values[number % len(one.values)] for one in varied]
    return (*others[:place], value, *others[place + 1 :])
