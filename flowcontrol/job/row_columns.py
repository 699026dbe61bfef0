"""Columns of replayed rows as numbers and texts: times in milliseconds, keys, what does not fit."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np

from flowcontrol.arrays import Ints, pa, pc
from flowcontrol.protocol.event_time import MAX_TIME
from flowcontrol.protocol.windows.contents import NO_VALUE

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

    Notes
    -----
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

    Notes
    -----
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
