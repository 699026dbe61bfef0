"""The input of the pipeline: every row by its number, so that a verifier can say what must come."""

from __future__ import annotations

import os
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

ROWS_PER_FILE = 80

SCHEMA = pa.schema([("number", pa.int64()), ("key", pa.int64()), ("text", pa.string())])
DDL = "number long, key long, text string"

HUGE_EVERY = 97
"""Some rows are larger than all buffers of a channel (8 KiB each, three of them)."""


def key_of(number: int) -> int:
    """Return a row's key: a third of all rows have the same one, so its channel has a backlog."""
    return 0 if number % 3 == 0 else 1 + number * 7919 % 41


def text_of(number: int) -> str:
    """Return a row's text: its length and all of its content follow from the number."""
    length = 30_000 if number % HUGE_EVERY == HUGE_EVERY - 1 else 50 + number * 131 % 900
    return (f"{number} " * (length // 2))[:length]


def write_file(folder: Path, index: int) -> int:
    """Write the next file of the source at once; return how many rows there are now."""
    numbers = range(index * ROWS_PER_FILE, (index + 1) * ROWS_PER_FILE)
    columns = [list(numbers), [key_of(n) for n in numbers], [text_of(n) for n in numbers]]
    hidden, path = folder / f".{index:06d}.parquet", folder / f"{index:06d}.parquet"
    pq.write_table(pa.table(columns, schema=SCHEMA), hidden)
    # Spark takes files by their time of change: a second each, so that the order is ours.
    os.utime(hidden, (1_750_000_000 + index,) * 2)
    hidden.rename(path)
    return (index + 1) * ROWS_PER_FILE
