"""Values of aggregated columns as whole numbers, for rules that know no others.

A decimal is a whole number of a power of ten, so that a sum does not depend on the order in which
records come, and 0.1 ten times is 1. The power is the least in which every value is whole, if sums
of all rows then fit into 63 bits; else values are rounded to the finest that does.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from flowcontrol.arrays import Floats, Ints, pa
from flowcontrol.protocol.event_time import MAX_TIME, MIN_TIME
from flowcontrol.protocol.windows.contents import NO_VALUE

MOST_SUM: Final = float(1 << 62)
"""What the sum of all rows stays below, in units."""
MOST_DECIMALS: Final = 17
"""Digits behind the point that a double may need near 1; smaller ones are rounded there."""


@dataclass(frozen=True)
class WindowValues:
    """The values of a column that a window aggregates.

    Attributes
    ----------
    of_ids : ndarray of int64, shape (ids,)
        By id, in units; ``NO_VALUE``: it has none.
    decimals : int
        A unit is 10**-decimals.
    is_whole : bool
        Whether the column is of whole numbers, as results then are.
    """

    of_ids: Ints
    decimals: int = 0
    is_whole: bool = True

    def numbers(self, units: Ints) -> npt.NDArray[Any]:
        """Return units as values of the column: whole numbers, or doubles."""
        return units if self.is_whole else scaled(units, self.decimals)

    def means(self, units: Ints, wraps: Ints, counts: Ints) -> Floats:
        """Return the means of sums in units that have wrapped 64 bits so often, of so many values.

        Notes
        -----
        The sums of whole numbers as doubles, as Spark's ``avg`` adds up a long.
        """
        sums = units.astype(np.float64) if self.is_whole else scaled(units, self.decimals)
        return (sums + scaled(wraps, self.decimals) * 2.0**64) / np.maximum(counts, 1)


@dataclass(frozen=True)
class WindowColumns:
    """The columns that a window aggregates, as its rules want them.

    Attributes
    ----------
    by_name : mapping of str to WindowValues
        By column, in the order in which the window names them; empty: it counts records alone.
    """

    by_name: Mapping[str, WindowValues] = field(default_factory=dict)

    @property
    def first(self) -> Ints:
        """The value of each id in the first column, shape (ids,); shape (0,): there is none."""
        return next((own.of_ids for own in self.by_name.values()), np.zeros(0, np.int64))

    @property
    def further(self) -> int:
        """How many columns there are beside the first."""
        return max(0, len(self.by_name) - 1)

    @cached_property
    def table(self) -> Ints:
        """The values of each id in these, an id behind the other: shape (ids * further,)."""
        if self.further == 0:
            return np.zeros(0, np.int64)
        _, *others = self.by_name.values()
        return np.stack([own.of_ids for own in others], axis=1).ravel()


NO_COLUMNS: Final = WindowColumns()
"""Of a window that counts records alone."""


def values_of(columns: Sequence[tuple[int, pa.ChunkedArray, Ints]], total: int) -> WindowValues:
    """Return the values of a column, of all sources that have it.

    Parameters
    ----------
    columns : sequence of (int, pyarrow.ChunkedArray, ndarray of int64)
        First id of a source, the value of each of its ids, and how many rows have that.
    total : int
        Ids of all sources.

    Notes
    -----
    A missing value and a NaN are none, as in SQL and in pandas. Whole numbers stay what they are,
    and their sums stop at the ends of 64 bits; their means do not.
    """
    is_whole = all(pa.types.is_integer(values.type) for _, values, _ in columns)
    rows = sum(int(counts.sum()) for *_, counts in columns)
    found = np.full(total, NO_VALUE, np.int64)
    doubles = np.full(total, np.nan)
    for first, values, _ in columns:
        own = slice(first, first + len(values))
        if is_whole:
            found[own] = values.cast(pa.int64()).fill_null(NO_VALUE).to_numpy()
        else:
            doubles[own] = values.cast(pa.float64(), safe=False).fill_null(np.nan).to_numpy()
    if is_whole:
        return WindowValues(found)
    has_value = np.isfinite(doubles)
    decimals = decimals_of(doubles[has_value], rows)
    found[has_value] = units_of(doubles[has_value], decimals)
    return WindowValues(found, decimals, is_whole=False)


def decimals_of(values: Floats, rows: int) -> int:
    """Return how many digits behind the point the units of some values have; below 0: before it.

    Parameters
    ----------
    values : ndarray of float64
        Finite.
    rows : int
        How many of them are added up at most.
    """
    most, finest = float(np.abs(values).max(initial=0)), MOST_DECIMALS
    if most > 0:
        room = np.log10(MOST_SUM) - np.log10(most) - np.log10(max(1, rows))
        finest = min(finest, int(np.floor(room)))
    for decimals in range(finest):
        if np.array_equal(scaled(units_of(values, decimals), decimals), values):
            return decimals
    return finest


def units_of(values: Floats, decimals: int) -> Ints:
    """Return values in units of 10**-decimals, rounded."""
    power = 10.0 ** abs(decimals)
    return np.rint(values * power if decimals >= 0 else values / power).astype(np.int64)


def sums_within(units: Ints, wraps: Ints) -> Ints:
    """Return sums that have wrapped 64 bits so often, or the ends that they are beyond."""
    beyond = np.where(wraps > 0, MAX_TIME, MIN_TIME)
    return np.where(wraps == 0, units, beyond)


def scaled(units: Ints, decimals: int) -> Floats:
    """Return units of 10**-decimals as values."""
    power = 10.0 ** abs(decimals)
    found = units.astype(np.float64)
    return found / power if decimals >= 0 else found * power
