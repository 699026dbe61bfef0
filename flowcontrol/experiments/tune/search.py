"""Which points to run: Optuna's tree-structured Parzen estimator, asked and told in batches.

What is asked depends on the seed and on what was told before, in order, and on nothing else: not on
how many workers run the points, nor on which of them were run before an interruption.
"""

from __future__ import annotations

import json
import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Final

from flowcontrol.errors import RunError, ScenarioError
from flowcontrol.experiments.sweep.metric import Metric
from flowcontrol.experiments.sweep.plan import Point
from flowcontrol.experiments.tune.goals import Goals
from flowcontrol.experiments.tune.plan import Places, Space, TunePlan
from flowcontrol.version import how_to_install

if TYPE_CHECKING:
    from optuna import Study
    from optuna.trial import Trial


# --- What is known of a point before it is run, so that hopeless ones are not.


class Known:
    """Figures that a scenario alone decides, and the best so far of the only objective.

    ``nearest``: of the points that were looked at the one that breaks the known limits by least.
    """

    def __init__(self, plan: TunePlan) -> None:
        self._plan, goals = plan, plan.goals
        self._limits = [one for one in goals.constraints if not one.measure.figure.needs_run]
        alone = goals.objectives[0] if len(goals.objectives) == 1 else None
        self._objective = alone if alone and not alone.measure.figure.needs_run else None
        self._best: float | None = None
        self._costs: dict[str, tuple[float, float] | None] = {}
        self._least = math.inf
        self.nearest: Point | None = None

    def learn(self, outcome: Outcome) -> None:
        """Take note of what became of a point."""
        if self._objective is None or outcome.reason:
            return
        constraints = self._plan.goals.constraints
        value = outcome.value(self._objective.measure)
        if value is None or any(one.miss(outcome.value(one.measure)) for one in constraints):
            return
        cost = self._objective.sign * value
        self._best = cost if self._best is None else min(self._best, cost)

    def is_worth(self, point: Point) -> bool:
        """Whether a point may be better than what was run. Anything may before one is feasible."""
        if self._objective is None and not self._limits:
            return True
        key = json.dumps(point)
        if key not in self._costs:
            self._costs[key] = self._look(point)
        found = self._costs[key]
        if found is None:  # it is refused, which is to be seen
            return True
        miss, cost = found
        return miss == 0 and (self._best is None or cost < self._best)

    def _look(self, point: Point) -> tuple[float, float] | None:
        """Return the miss of the limits and the cost of a point; None if it is refused."""
        try:
            scenario = self._plan.sweep.scenario(point)
            misses = [one.miss(one.measure.value(scenario, {})) for one in self._limits]
            one = self._objective
            cost = 0.0 if one is None else one.sign * (one.measure.value(scenario, {}) or 0.0)
        except ScenarioError:
            return None
        miss = max(misses, default=0.0)
        if miss < self._least:
            self._least, self.nearest = miss, point
        return miss, cost


# --- Ask for points.


_STARTUP: Final = 20
"""Points drawn at random before the estimator decides."""

_LOOKS: Final = 3_000
"""Points that are looked at for one that is worth a run; a look takes some 4 ms the first time."""

_WORSE: Final = 1e18
"""Stands for a figure that a run does not have; less is better."""


@dataclass(frozen=True)
class Asked:
    """A point that is to be run."""

    point: Point  # Value of each varied key
    _trial: Trial


class Search:
    """A search of a space.

    ``is_worth``: whether a point may be better than what was told; others are left out while there
    are such.

    Raises RunError if Optuna is not installed.
    """

    def __init__(
        self, space: Space, goals: Goals, seed: int, is_worth: Callable[[Point], bool]
    ) -> None:
        self._space, self._goals, self._is_worth = space, goals, is_worth
        self._random = random.Random(seed)
        self._study = _study(len(goals.objectives), seed)
        self._asked: set[Places] = set()
        self._repeats = 0

    def begin_at(self, point: Point) -> None:
        """Have a point asked for first."""
        self._study.enqueue_trial(self._space.places(point))

    def ask(self, count: int) -> list[Asked]:
        """Return the next points, each for the first time; fewer where no more are left.

        ``count``: how many at most.
        """
        found = (self._next() for _ in range(count))
        return [one for one in found if one is not None]

    def tell(
        self, asked: Asked, values: tuple[float | None, ...], misses: tuple[float, ...]
    ) -> None:
        """Tell what became of a point.

        ``misses``: by how much each constraint is missed, relative; 0 where it holds. A last one
        more where the point itself is refused, or an objective has no value.
        """
        for number, miss in enumerate(misses):
            asked._trial.set_constraint(str(number), miss)
        pairs = zip(self._goals.objectives, values, strict=True)
        self._study.tell(
            asked._trial, [_WORSE if value is None else one.sign * value for one, value in pairs]
        )

    def _next(self) -> Asked | None:
        """Return a new point that is worth a run; None if there is none.

        An estimator that is sure of the best proposes it again and again. Then the nearest point
        that is new and worth it is taken, and every other time the nearest to one that is drawn.
        """
        from optuna.trial import TrialState

        trial = self._study.ask(self._space.distributions)
        key = self._key(trial.params)
        if self._is_wanted(key):
            self._asked.add(key)
            return Asked(self._space.point(trial.params), trial)
        self._study.tell(trial, state=TrialState.FAIL)
        self._repeats += 1
        nearest = self._nearest(key if self._repeats % 2 else self._drawn())
        if nearest is None:
            return None
        self._asked.add(nearest)
        places = self._space.named(nearest)
        self._study.enqueue_trial(places)
        return Asked(self._space.point(places), self._study.ask(self._space.distributions))

    def _key(self, places: dict[str, Any]) -> Places:
        return tuple(places[one.column] for one in self._space.varied)

    def _is_wanted(self, key: Places) -> bool:
        return key not in self._asked and self._is_worth(self._space.at(key))

    def _drawn(self) -> Places:
        """Return a point that is drawn from all."""
        return tuple(self._random.randrange(len(scale)) for scale in self._space.scales)

    def _nearest(self, start: Places) -> Places | None:
        """Return the wanted point with the fewest steps to another; None if there is none.

        A step goes to a neighbouring value of one key, or to any where they have no order. Of
        equally near ones one is drawn. After many looks any new point will do.
        """
        seen, ring, looks = {start}, [start], 0
        while ring:
            new = [key for key in ring if key not in self._asked]
            looks += len(new)
            wanted = new if looks > _LOOKS else [key for key in new if self._is_wanted(key)]
            if wanted:
                return self._random.choice(wanted)
            steps = [step for key in ring for step in self._space.neighbours(key)]
            ring = [step for step in dict.fromkeys(steps) if step not in seen]
            seen.update(ring)
        return None


def check_optuna() -> None:
    """Raise RunError if Optuna is not installed."""
    if find_spec("optuna") is None:
        raise RunError(f"a search needs Optuna: {how_to_install('tune')}")


def _study(objectives: int, seed: int) -> Study:
    check_optuna()
    import optuna

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    sampler = optuna.samplers.TPESampler(n_startup_trials=_STARTUP, seed=seed)
    return optuna.create_study(directions=["minimize"] * objectives, sampler=sampler)


# --- The loop of a search: ask for a batch, have it run, tell what became of it.


_REFUSED: Final = 100.0
"""Relative miss that stands for a point that is refused, or for an objective without a value."""

_PATIENCE: Final = 20
"""Batches of nothing but refused points after which a search ends."""


@dataclass(frozen=True)
class Outcome:
    """What became of a point."""

    point: Point  # Value of each varied key
    variant: str  # The variant's id; empty if it was refused
    values: dict[str, Any]  # Figures by name; empty if it was refused
    bottleneck: str = ""  # What limited it; empty for nothing
    reason: str = ""  # Why it was refused; empty if it was run

    def value(self, measure: Metric) -> float | None:
        """Return a figure; None if it has none."""
        found: float | None = self.values.get(measure.name)
        return found


RunPoints = Callable[[Sequence[Point], int], Sequence[Outcome]]
"""Has points run, at most so many, and returns what became of each, in the same order; those after
the last one that is run are left out."""


def explore(plan: TunePlan, run: RunPoints) -> list[Outcome]:
    """Search until enough points were run, or none are left.

    What the scenario alone decides (memory, slots) needs no run: a point that breaks a limit of
    such a figure, or is no better in the only objective than the best so far, is left out. Where
    all points are, the search ends: nothing better is left.

    Batches are asked for whole, so a search of more runs begins with the same points. The first one
    is the scenario as given, if it is among them: a search finds nothing worse.

    Returns all points in the order in which they were asked for. A refused point is not run.
    """
    known = Known(plan)
    search = Search(plan.space, plan.goals, plan.seed, known.is_worth)
    if plan.given_point is not None:
        search.begin_at(plan.given_point)
    found: list[Outcome] = []
    left, idle = plan.runs, 0
    while left > 0 and idle < _PATIENCE:
        asked = search.ask(plan.batch)
        if not asked:
            break
        outcomes = run([one.point for one in asked], left)
        for one, outcome in zip(asked, outcomes, strict=False):
            search.tell(one, *_told(plan, outcome))
            known.learn(outcome)
        found += outcomes
        ran = sum(not outcome.reason for outcome in outcomes)
        left -= ran
        idle = 0 if ran else idle + 1
    if not found and known.nearest is not None:  # so that it can be said by how much it misses
        found += run([known.nearest], 1)
    return found


def _told(plan: TunePlan, outcome: Outcome) -> tuple[tuple[float | None, ...], tuple[float, ...]]:
    """Return the values of a point's objectives and its misses."""
    goals = plan.goals
    values = tuple(outcome.value(one.measure) for one in goals.objectives)
    is_whole = all(value is not None for value in values)
    misses = [one.miss(outcome.value(one.measure)) for one in goals.constraints]
    return values, (*misses, 0.0 if is_whole else _REFUSED)
