"""The loop of a search: ask for a batch, have it run, tell what became of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from flowcontrol.experiments.sweep.metric import Metric
from flowcontrol.experiments.sweep.plan import Point
from flowcontrol.experiments.tune.known import Known
from flowcontrol.experiments.tune.plan import TunePlan
from flowcontrol.experiments.tune.search import Search

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

    Returns all points in the order in which they were asked for. A refused one is no run.
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
