"""The plan of a search: the scenario, the varied keys and all their points, what is good."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

from flowcontrol.errors import Problem, ScenarioError
from flowcontrol.experiments.base import job_for
from flowcontrol.experiments.sweep.metric import Metric
from flowcontrol.experiments.sweep.plan import Plan, Point, Vary, read_varied
from flowcontrol.experiments.sweep.varied import Varied, show_value
from flowcontrol.experiments.tune.goals import Goals, known_before, read_goals
from flowcontrol.layout.job import Job
from flowcontrol.memory.parts import parts_of
from flowcontrol.records import Column, Table
from flowcontrol.scenario import Scenario
from flowcontrol.scenario.given import Base
from flowcontrol.scenario.syntax import read_duration_us, read_memory

if TYPE_CHECKING:
    from optuna.distributions import BaseDistribution


# --- The values of the varied keys as a sampler sees them: places on a scale, or names.
#
# Numbers, and texts that are sizes or durations in Flink's syntax, have an order; a sampler may
# then learn that the middle is like its neighbours. Anything else is a choice without order.


Places = tuple[int, ...]
"""A point as the places of its values, in the order of the keys."""


@dataclass(frozen=True)
class Space:
    """All points of a search."""

    varied: tuple[Varied, ...]  # The keys, at least one

    @cached_property
    def scales(self) -> tuple[tuple[Any, ...], ...]:
        """Values of each key: in rising order where they have one."""
        return tuple(tuple(in_order(one.values) or one.values) for one in self.varied)

    @cached_property
    def _is_ordered(self) -> tuple[bool, ...]:
        return tuple(in_order(one.values) is not None for one in self.varied)

    @cached_property
    def distributions(self) -> dict[str, BaseDistribution]:
        """Places of the values of each key for Optuna, by column; one value is no choice."""
        from optuna.distributions import CategoricalDistribution, IntDistribution

        found: dict[str, BaseDistribution] = {}
        for one, is_ordered, scale in zip(self.varied, self._is_ordered, self.scales, strict=True):
            last = len(scale) - 1
            found[one.column] = (
                IntDistribution(0, last) if is_ordered else CategoricalDistribution(range(last + 1))
            )
        return found

    @property
    def size(self) -> int:
        """How many points there are."""
        return math.prod(len(scale) for scale in self.scales)

    def named(self, places: Places) -> dict[str, int]:
        """Return places by column."""
        return {one.column: place for one, place in zip(self.varied, places, strict=True)}

    def neighbours(self, places: Places) -> Iterator[Places]:
        """Yield the points that differ in one key: by a step of its order, or in any way."""
        for at, (is_ordered, scale) in enumerate(zip(self._is_ordered, self.scales, strict=True)):
            last, here = len(scale), places[at]
            steps = (here - 1, here + 1) if is_ordered else range(last)
            for step in steps:
                if 0 <= step < last and step != here:
                    yield (*places[:at], step, *places[at + 1 :])

    def point(self, places: dict[str, Any]) -> Point:
        """Return the point of places by column."""
        return self.at(tuple(places[one.column] for one in self.varied))

    def at(self, places: Places) -> Point:
        """Return the point of places."""
        return tuple(scale[place] for scale, place in zip(self.scales, places, strict=True))

    def places(self, point: Point) -> dict[str, int]:
        """Return the places of a point."""
        rows = zip(self.varied, self.scales, point, strict=True)
        return {one.column: scale.index(value) for one, scale, value in rows}


def in_order(values: Sequence[Any]) -> list[Any] | None:
    """Return values in rising order; None if they have none."""
    readers: tuple[Callable[[Any], float], ...] = (_number, read_memory, read_duration_us)
    for read in readers:
        try:
            return sorted(values, key=read)
        except ValueError:
            continue
    return None


def _number(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise ValueError(f"{value!r} is not a number")
    return value


# --- The plan of a search: the scenario, the varied keys, what is good, and how much is run.


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


# --- The columns of the table ``tuning``: a row a point, in the order of the search.


_BEFORE: Final = (
    Column("run", "int64", "", "Number of the point, from 1, in the order of the search."),
    Column("variant", "string", "", "Its variant in the table `results`; empty if it was refused."),
)
_AFTER: Final = (
    Column("state", "string", "", "run, or refused: the point is not a valid scenario."),
    Column("reason", "string", "", "Why it was refused; empty for others."),
    Column("feasible", "bool", "", "Whether it was run and satisfies every constraint."),
    Column(
        "missed_by",
        "float64",
        "",
        "Largest relative miss of a constraint, in parts of its limit; 0 if all hold, 10 if the "
        "run has no such figure, null for a refused point.",
        nullable=True,
    ),
    Column(
        "on_front",
        "bool",
        "",
        "Whether it is feasible and no other feasible point is as good in both figures of the "
        "picture and better in one; the first of equal ones.",
    ),
    Column("is_best", "bool", "", "Whether it is the chosen one."),
    Column(
        "bottleneck",
        "string",
        "",
        "Bottleneck of the run: a stage, or an edge with too few buffers; empty if nothing "
        "limited for long.",
    ),
)

FIXED: Final = tuple(column.name for column in (*_BEFORE, *_AFTER))
"""Names of the columns that every table has."""


def reserved() -> tuple[str, ...]:
    """Return the names that no column of a varied key gets."""
    return (*FIXED, *known_before())


def tuning_table(varied: Sequence[Varied], measures: Sequence[Metric]) -> Table:
    """Return the declaration of the table of a search."""
    keys = [one.result_column() for one in varied]
    figures = [one.column for one in measures]
    return Table("tuning", "One point of a search.", (*_BEFORE, *keys, *figures, *_AFTER))
