"""The values of the varied keys as a sampler sees them: places on a scale, or names.

Numbers, and texts that are sizes or durations in Flink's syntax, have an order; a sampler may then
learn that the middle is like its neighbours. Anything else is a choice without order.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from flowcontrol.experiments.sweep.plan import Point
from flowcontrol.experiments.sweep.varied import Varied
from flowcontrol.scenario.units import read_duration_us, read_memory

if TYPE_CHECKING:
    from optuna.distributions import BaseDistribution

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
