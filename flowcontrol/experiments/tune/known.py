"""What is known of a point before it is run, so that hopeless ones are not."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING

from flowcontrol.errors import ScenarioError
from flowcontrol.experiments.sweep.plan import Point

if TYPE_CHECKING:
    from flowcontrol.experiments.tune.explore import Outcome
    from flowcontrol.experiments.tune.plan import TunePlan


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
