"""What a search found: who satisfies the constraints, the front, the chosen one, the nearest."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from flowcontrol.errors import ScenarioError
from flowcontrol.experiments.sweep.metric import Metric
from flowcontrol.experiments.tune.goals import (
    MEMORY,
    Goals,
    known_before,
    latency_of,
    throughput_of,
)
from flowcontrol.experiments.tune.search import Outcome
from flowcontrol.layout.plan import network_memory
from flowcontrol.scenario import Scenario


@dataclass(frozen=True)
class Axis:
    """A figure of the picture."""

    measure: Metric  # Which
    sign: int  # Factor with which less is better: 1 or -1

    def cost(self, outcome: Outcome) -> float:
        """Return the figure of a point such that less is better; infinite if it has none."""
        value = outcome.value(self.measure)
        return math.inf if value is None else self.sign * value


def axes_of(goals: Goals, scenario: Scenario) -> tuple[Axis, Axis]:
    """Return the two figures of the picture: what is better is better in one of them.

    Two objectives; or one and the figure of the first constraint on another; without one, the
    latency of the first sink, or, beside a latency, memory.
    """
    found = [Axis(one.measure, one.sign) for one in goals.objectives]
    found += [Axis(one.measure, 1 if one.is_most else -1) for one in goals.constraints]
    others = [latency_of(scenario), throughput_of(scenario)]
    try:
        network_memory(scenario)
        others.insert(1, known_before()[MEMORY])
    except ScenarioError:  # a system without network buffers
        pass
    found += [Axis(one, -1 if one.is_higher_better else 1) for one in others]
    second = next(axis for axis in found if axis.measure != found[0].measure)
    return found[0], second


@dataclass(frozen=True)
class Verdict:
    """The points of a search, judged."""

    goals: Goals  # What is good
    axes: tuple[Axis, Axis]  # The two figures of the picture
    outcomes: tuple[Outcome, ...]  # All points, in the order in which they were asked for

    @cached_property
    def ran(self) -> tuple[Outcome, ...]:
        """Points that were run."""
        return tuple(one for one in self.outcomes if not one.reason)

    def miss(self, outcome: Outcome) -> float | None:
        """Return the largest relative miss of a point; None if it was refused."""
        if outcome.reason:
            return None
        return max(
            (one.miss(outcome.value(one.measure)) for one in self.goals.constraints), default=0.0
        )

    def is_feasible(self, outcome: Outcome) -> bool:
        """Whether a point was run, has its objectives, and satisfies every constraint."""
        has_all = all(outcome.value(one.measure) is not None for one in self.goals.objectives)
        return has_all and self.miss(outcome) == 0

    @cached_property
    def feasible(self) -> tuple[Outcome, ...]:
        """Feasible points, best first: by the first figure of the picture, then by the second."""
        found = [one for one in self.ran if self.is_feasible(one)]
        return tuple(sorted(found, key=self._costs))

    @cached_property
    def front(self) -> tuple[Outcome, ...]:
        """Feasible points that no other is as good as in both figures and better in one.

        Of points that are equal in both the first one that was run.
        """
        found: list[Outcome] = []
        lowest = math.inf
        for outcome in self.feasible:
            second = self.axes[1].cost(outcome)
            if second < lowest or not found:
                found.append(outcome)
                lowest = second
        return tuple(found)

    @cached_property
    def best(self) -> Outcome | None:
        """The chosen point; None if none is feasible.

        Of one objective the best, of equals the one that is better in the second figure. Of two the
        point of the front nearest to the best of both, each in parts of its range on the front.
        """
        if not self.front:
            return None
        if len(self.goals.objectives) == 1:
            return self.front[0]
        return min(self.front, key=self._distance)

    @cached_property
    def nearest(self) -> Outcome | None:
        """The run that misses the constraints by least; None if nothing was run."""
        return min(self.ran, key=lambda one: self.miss(one) or 0.0, default=None)

    def _costs(self, outcome: Outcome) -> tuple[float, float]:
        return self.axes[0].cost(outcome), self.axes[1].cost(outcome)

    def _distance(self, outcome: Outcome) -> float:
        parts = []
        for axis in self.axes:
            costs = [axis.cost(one) for one in self.front]
            width = max(costs) - min(costs)
            parts.append((axis.cost(outcome) - min(costs)) / width if width else 0.0)
        return math.hypot(*parts)


def kept_measures(goals: Goals, axes: Sequence[Axis], scenario: Scenario) -> tuple[Metric, ...]:
    """Return the figures of the table: objectives, constraints, picture, and the throughput."""
    found = [*goals.measures, *(axis.measure for axis in axes), throughput_of(scenario)]
    return tuple(dict.fromkeys(found))
