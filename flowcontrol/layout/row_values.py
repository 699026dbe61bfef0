"""Columns of replayed rows as whole numbers: times, keys, and what is aggregated.

A decimal is a whole number of a power of ten, so that a sum does not depend on the order in which
records come, and 0.1 ten times is 1. The power is the least in which every value is whole, if sums
of all rows then fit into 63 bits; else values are rounded to the finest that does.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final

import numpy as np
from numpy import typing as npt

from flowcontrol.arrays import Floats, Ints, pa, pc
from flowcontrol.protocol.windows.contents import NO_VALUE
from flowcontrol.state.tasks import MAX_TIME, MIN_TIME

# --- Columns of replayed rows as numbers and texts: times in milliseconds, keys, what does not
# fit


LEAST: Final = NO_VALUE + 1
"""The least whole number that a window can aggregate,"""
MOST: Final = MAX_TIME
"""and the greatest."""

NO_KEY: Final = "null"
"""Text of a missing key."""

_A_MS: Final = {"us": 1000, "ns": 1_000_000}
"""Units of a millisecond, of timestamps that have finer ones."""
_DAY_MS: Final = 86_400_000


def is_time(kind: pa.DataType) -> bool:
    """Tell whether values of a type are moments: timestamps or dates."""
    return bool(pa.types.is_timestamp(kind) or pa.types.is_date(kind))


def key_texts(keys: pa.Array) -> pa.Array:
    """Return keys as texts, by which they are routed and shown.

    A missing key is the text ``null``; a moment is written in microseconds, whichever unit the
    input has it in.
    """
    if pa.types.is_timestamp(keys.type):
        keys = keys.cast(pa.timestamp("us", None if keys.type.tz is None else "UTC"))
    return keys.cast(pa.string()).fill_null(NO_KEY)


def milliseconds(moments: pa.Array) -> Ints:
    """Return moments as Unix milliseconds, rounded down; those without a zone are UTC.

    Those that 64 bits cannot hold are the end of these.
    """
    kind = moments.type
    if pa.types.is_date32(kind):
        return _whole(moments.cast(pa.int32())).astype(np.int64) * _DAY_MS
    values = _whole(moments.cast(pa.int64()))
    if pa.types.is_date64(kind) or kind.unit == "ms":
        return values
    if kind.unit == "s":
        most = np.iinfo(np.int64).max // 1000
        return np.clip(values, -most, most) * 1000
    return values // _A_MS[kind.unit]


def _whole(values: pa.Array) -> Ints:
    return np.asarray(values.to_numpy(zero_copy_only=False))


def first_null(column: pa.Array) -> int | None:
    """Return the first row without a value; None: each has one."""
    if column.null_count == 0:
        return None
    return int(np.flatnonzero(column.is_null().to_numpy(zero_copy_only=False))[0])


def as_moments(column: pa.Array) -> pa.Array | None:
    """Return a column as moments; None: some value is none. A missing value stays one.

    A CSV file's column is of texts as soon as one of its rows is.
    """
    if is_time(column.type):
        return column
    return _cast(column, pa.timestamp("us", "UTC"), pa.timestamp("us"))


def as_numbers(column: pa.Array) -> pa.Array | None:
    """Return a column as 64-bit integers or doubles likewise; an infinite one is none.

    Decimals are doubles. Whole numbers lie between :data:`LEAST` and :data:`MOST`.
    """
    if pa.types.is_integer(column.type):
        try:
            whole = column.cast(pa.int64())
        except pa.ArrowInvalid:
            return None
        return None if pc.any(pc.less(whole, LEAST)).as_py() else whole
    kinds = (pa.types.is_null, pa.types.is_floating, pa.types.is_decimal)
    if any(is_kind(column.type) for is_kind in kinds):
        found = column.cast(pa.float64())
    else:
        found = _cast(column, pa.float64())
    return None if found is None or pc.any(pc.is_inf(found)).as_py() else found


def first_misfit(column: pa.Array, convert: Callable[[pa.Array], pa.Array | None]) -> int:
    """Return the first row of a column that cannot be converted, in which one cannot."""
    first, count = 0, len(column)
    while count > 1:
        half = count // 2
        if convert(column.slice(first, half)) is None:
            count = half
        else:
            first, count = first + half, count - half
    return first


def _cast(column: pa.Array, *kinds: pa.DataType) -> pa.Array | None:
    """Return texts as the first of some types that all of them fit."""
    from pyarrow.csv import ConvertOptions

    if not pa.types.is_string(column.type):
        return None
    missing = pa.array(ConvertOptions().null_values, pa.string())
    texts = pc.if_else(pc.is_in(column, missing), pa.scalar(None, pa.string()), column)
    for kind in kinds:
        try:
            return texts.cast(kind)
        except pa.ArrowInvalid:
            continue
    return None


# --- Values of aggregated columns as whole numbers, for rules that know no others.


MOST_SUM: Final = float(1 << 62)
"""What the sum of all rows stays below, in units."""
MOST_DECIMALS: Final = 17
"""Digits behind the point that a double may need near 1; smaller ones are rounded there."""


@dataclass(frozen=True)
class WindowValues:
    """The values of a column that a window aggregates."""

    of_ids: Ints  # By id, in units; ``NO_VALUE``: it has none (shape (ids,))
    decimals: int = 0  # A unit is 10**-decimals
    is_whole: bool = True  # Whether the column is of whole numbers, as results then are

    def numbers(self, units: Ints) -> npt.NDArray[Any]:
        """Return units as values of the column: whole numbers, or doubles."""
        return units if self.is_whole else scaled(units, self.decimals)

    def means(self, units: Ints, wraps: Ints, counts: Ints) -> Floats:
        """Return the means of sums in units that have wrapped 64 bits so often, of so many values.

        The sums of whole numbers as doubles, as Spark's ``avg`` adds up a long.
        """
        sums = units.astype(np.float64) if self.is_whole else scaled(units, self.decimals)
        return (sums + scaled(wraps, self.decimals) * 2.0**64) / np.maximum(counts, 1)


@dataclass(frozen=True)
class WindowColumns:
    """The columns that a window aggregates, as its rules want them."""

    # By column, in the order in which the window names them; empty: it counts records alone.
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

    A missing value and a NaN are none, as in SQL and in pandas. Whole numbers stay what they are,
    and their sums stop at the ends of 64 bits; their means do not.

    ``columns``: first id of a source, the value of each of its ids, and how many rows have that.
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

    ``rows``: how many of them are added up at most.
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
