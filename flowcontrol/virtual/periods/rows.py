"""Rows of samples that repeat others: the same levels, and counts that have grown by a period's."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from flowcontrol.virtual.places import Ints
from flowcontrol.virtual.tables import Columns, Tables

Place = tuple[int, int, int]
"""Where a sample is in its period: phase of the sample before, its own, rounds between the two."""


@dataclass
class _Sample:
    """A sample that was taken: its columns, by table, and how they grow in a period."""

    columns: dict[str, Columns]
    cumulative: Ints
    periods: int
    growth: dict[str, dict[str, Ints]] | None = None
    growth_of_cumulative: Ints | None = None


class Rows:
    """Adds samples of a period to the tables; from the third one on at a place they are copies.

    Parameters
    ----------
    tables : Tables
        Collects them.
    """

    def __init__(self, tables: Tables) -> None:
        self._tables, self._samples = tables, dict[Place, _Sample]()

    def are_known(self, place: Place) -> bool:
        """Tell whether a sample needs no state: two at its place were taken."""
        return place in self._samples and self._samples[place].growth is not None

    def take(self, place: Place, periods: int, t_s: float) -> None:
        """Take a sample of the present state, in the ``periods``-th period."""
        tables = self._tables
        tables.add(t_s, place[2])
        sample = _Sample(tables.latest_columns(), tables.cumulative, periods)
        before = self._samples.setdefault(place, sample)
        apart = periods - before.periods
        if apart > 0 and before.growth is None:
            before.growth = {
                name: {
                    column: _per_period(values, before.columns[name][column], apart)
                    for column, values in columns.items()
                    if _counts(values)
                }
                for name, columns in sample.columns.items()
            }
            growth = _per_period(sample.cumulative, before.cumulative, apart)
            before.growth_of_cumulative = growth

    def copy(self, place: Place, periods: int, t_s: float) -> None:
        """Add the sample of a place that is known, in the ``periods``-th period."""
        sample = self._samples[place]
        assert sample.growth is not None and sample.growth_of_cumulative is not None
        later = periods - sample.periods
        columns = {
            name: {
                column: values + later * sample.growth[name][column]
                if column in sample.growth[name]
                else values
                for column, values in own.items()
            }
            | {"t_s": np.full(len(own["t_s"]), t_s)}
            for name, own in sample.columns.items()
        }
        cumulative = sample.cumulative + later * sample.growth_of_cumulative
        self._tables.add_columns(columns, cumulative)


def _counts(values: Any) -> bool:
    """Tell whether a column has whole numbers that may grow; texts and lists do not."""
    return isinstance(values, np.ndarray) and values.dtype == np.int64


def _per_period(values: Ints, before: Ints, periods: int) -> Ints:
    growth, left = np.divmod(values - before, periods)
    assert not left.any(), "a period did not repeat the one before"
    found: Ints = growth
    return found
