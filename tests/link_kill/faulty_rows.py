"""Rows of the fault harness: every value of a row follows from its sender and its number."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from typing import Any

import pyarrow as pa

CHANNELS = 4

BASE = pa.schema(
    [("source", pa.string()), ("number", pa.int64()), ("key", pa.int64()), ("text", pa.string())]
)

HUGE_EVERY = 101
"""Some rows are larger than all buffers of a channel."""


def mixed(*values: object) -> int:
    """Return a number that follows from some values and looks like none of them."""
    return zlib.crc32("/".join(map(str, values)).encode())


def key_of(source: str, number: int) -> int:
    """Return a row's key; a quarter of the rows share one, so that one channel has a backlog."""
    return 0 if number % 4 == 0 else mixed(source, number) % 29


def channel_of(source: str, number: int) -> int:
    """Return a row's channel."""
    return key_of(source, number) % CHANNELS


def text_of(source: str, number: int) -> str:
    """Return a row's text."""
    length = 9_000 if number % HUGE_EVERY == HUGE_EVERY - 1 else 20 + mixed(number, source) % 500
    return (f"{source}{number} " * (length // 3))[:length]


def more_of(column: str, source: str, number: int) -> int:
    """Return a row's value of a column that was added."""
    return mixed(column, source, number)


def rows_of(source: str, start: int, end: int, columns: Sequence[str]) -> pa.Table:
    """Return rows with the columns that a sender has at that time."""
    numbers = range(start, end)
    found: dict[str, list[Any]] = {
        "source": [source] * len(numbers),
        "number": list(numbers),
        "key": [key_of(source, n) for n in numbers],
        "text": [text_of(source, n) for n in numbers],
    }
    found |= {column: [more_of(column, source, n) for n in numbers] for column in columns}
    return pa.table(found, schema=schema_with(columns))


def schema_with(columns: Sequence[str]) -> pa.Schema:
    """Return the schema with columns that were added."""
    return pa.schema([*BASE, *(pa.field(column, pa.int64()) for column in columns)])
