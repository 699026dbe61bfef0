"""Which points to run: Optuna's tree-structured Parzen estimator, asked and told in batches.

What is asked depends on the seed and on what was told before, in order, and on nothing else: not on
how many workers run the points, nor on which of them were run before an interruption.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Final

from flowcontrol.errors import RunError
from flowcontrol.experiments.sweep.plan import Point
from flowcontrol.experiments.tune.goals import Goals
from flowcontrol.experiments.tune.space import Places, Space
from flowcontrol.install import how_to_install

if TYPE_CHECKING:
    from optuna import Study
    from optuna.trial import Trial

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
