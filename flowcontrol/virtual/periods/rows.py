"""Samples that repeat others: the same levels, and counts that have grown by a period's."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from flowcontrol.virtual.places import Ints
from flowcontrol.virtual.tables import Sample, Tables

Place = tuple[int, int, int]
"""Where a sample is in its period: phase of the sample before, its own, rounds between the two."""


@dataclass
class _Known:
    """A sample that was taken, the period it is of, and how its cells grow in a period."""

    sample: Sample
    periods: int
    growth: Ints | None = None


class Rows:
    """Adds samples of a period to the tables; from the third one on at a place they are copies.

    Parameters
    ----------
    tables : Tables
        Collects them.
    """

    def __init__(self, tables: Tables) -> None:
        self._tables, self._known = tables, dict[Place, _Known]()

    def are_known(self, place: Place) -> bool:
        """Tell whether a sample needs no state: two at its place were taken."""
        return place in self._known and self._known[place].growth is not None

    def take(self, place: Place, periods: int, t_s: float) -> None:
        """Take a sample of the present state, in the ``periods``-th period."""
        sample = self._tables.sample(t_s, place[2])
        self._tables.add_sample(sample)
        known = self._known.setdefault(place, _Known(sample, periods))
        apart = periods - known.periods
        if apart > 0 and known.growth is None:
            known.growth, left = np.divmod(sample.cells - known.sample.cells, apart)
            assert not left.any(), "a period did not repeat the one before"

    def copy(self, place: Place, periods: int, t_s: float) -> None:
        """Add the sample of a place that is known, in the ``periods``-th period."""
        known = self._known[place]
        assert known.growth is not None
        cells = known.sample.cells + (periods - known.periods) * known.growth
        self._tables.take_ages()  # those of the period are in the sample
        self._tables.add_sample(replace(known.sample, t_s=t_s, cells=cells))
