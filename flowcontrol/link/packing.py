"""What executors do for a sender: route rows to channels, cut them into pieces, write files.

A task holds rows up to :data:`HOLD_BYTES`, lays them out by channel, each channel's rows in the
order in which they came, and writes one Parquet file of which every row group is a piece of one
message. What comes back to the driver is names, sizes and counts, never rows.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from flowcontrol.ledger.link_index import PackedRows
from flowcontrol.ledger.link_log import folder_of
from flowcontrol.ledger.storage import writing
from flowcontrol.link.key_hash import channels_of
from flowcontrol.link.schema import CHANNEL
from flowcontrol.link.sealed_files import SealedWriter, codecs
from flowcontrol.spark.versions import freeze_loaded

if TYPE_CHECKING:
    from flowcontrol.ledger.storage import Storage

RESULT = "result"
"""The one column of what comes back: a JSON text a file."""

HOLD_BYTES = 64 << 20
"""Rows that a task holds before it writes a file: what a source batch of any size costs."""

PIECES = 4
"""Pieces that a message is cut into, so that it is at least three quarters full where several
tasks, or files, have rows for it."""

SMALLEST_PIECE = 64 << 10
"""Bytes of a piece, unless a message is smaller: a row group costs some hundred bytes."""


class PackRows:
    """The function that ``mapInArrow`` runs over the rows of a source batch.

    - ``buffer_bytes``: size of a message, bytes.
    - ``names``: of the columns, where the rows come under others.
    - ``channels``: channels to spread rows over, by their ``key`` if they have one. By default a
      column says which channel a row belongs to.
    - ``key``: columns that are hashed here, as Spark does where it adds that column.
    - ``event_time_column``: column whose latest value is noted of every piece.
    """

    def __init__(
        self,
        storage: Storage,
        sender: int,
        buffer_bytes: int,
        hold_bytes: int = HOLD_BYTES,
        names: Sequence[str] | None = None,
        channels: int | None = None,
        key: Sequence[str] | None = None,
    ) -> None:
        self.storage, self.sender, self.hold_bytes = storage, sender, hold_bytes
        self.names, self.channels, self.key = names, channels, key
        self.event_time_column: str | None = None
        self.piece_bytes = min(buffer_bytes, max(buffer_bytes // PIECES, SMALLEST_PIECE))

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Write the rows of one task; yield a report per file."""
        for report in self.reports(batches):
            yield pa.RecordBatch.from_pydict({RESULT: [report]})

    def reports(self, batches: Iterator[pa.RecordBatch]) -> Iterator[str]:
        """Write the rows of one task; yield a report per file, JSON."""
        from pyspark import TaskContext

        context = TaskContext.get()
        task = 0 if context is None else context.partitionId()
        held, nbytes, number = list[pa.RecordBatch](), 0, 0
        for batch in batches:
            if batch.num_rows == 0:
                continue
            held.append(batch)
            nbytes += batch.nbytes
            if nbytes >= self.hold_bytes:
                yield self._file(held, task, number)
                held, nbytes, number = [], 0, number + 1
        if held:
            yield self._file(held, task, number)
        freeze_loaded()

    def _file(self, held: list[pa.RecordBatch], task: int, number: int) -> str:
        table = pa.Table.from_batches(held)
        if self.names is not None:
            routed = [] if self.channels is not None else [CHANNEL]
            table = table.rename_columns([*self.names, *routed])
        return json.dumps({"task": task, "number": number, **self.write(table)})

    def write(self, table: pa.Table) -> dict[str, Any]:
        """Write one file; return its report."""
        rows, found, starts = self._routed(table)
        sizes = np.cumsum(row_bytes(rows))
        ends = [*starts[1:], len(rows)]
        path = f"{folder_of(self.sender)}/{uuid.uuid4().hex}.parquet"
        entries, firsts = [], list[int]()
        with writing(self.storage, path), self.storage.open_output(path) as sink:
            writer = SealedWriter(sink, rows.schema, codecs(rows))
            for channel, start, end in zip(found, starts, ends, strict=True):
                pieces = self._cut(sizes, start, end)
                for count, _ in pieces:
                    firsts.append(start)
                    writer.write(rows.slice(start, count))
                    start += count
                entries.append([channel, pieces])
            footer = writer.close()
            nbytes = sink.tell()
        return {
            "path": path,
            "bytes": nbytes,
            "rows": len(rows),
            "channels": entries,
            "footer": footer,
            "latest": self._latest(rows, firsts),
        }

    def _routed(self, table: pa.Table) -> tuple[pa.Table, list[int], list[int]]:
        """Return rows by channel, those channels, and where each one's begin."""
        if self.channels is None:
            return by_channel(table)
        if self.key is None:
            return spread(table, self.channels)
        channels = channels_of([table.column(name) for name in self.key], self.channels)
        return by_channel(table.append_column(CHANNEL, pa.array(channels)))

    def _latest(self, rows: pa.Table, firsts: Sequence[int]) -> list[int | None]:
        """Return the latest event time of every piece; nothing if the link has no event time."""
        if self.event_time_column is None:
            return []
        return latest_times(rows.column(self.event_time_column), firsts)

    def _cut(self, sizes: np.ndarray[Any, Any], start: int, end: int) -> list[list[int]]:
        """Cut the rows of a channel into pieces: rows and bytes of each."""
        pieces = []
        while start < end:
            before = int(sizes[start - 1]) if start else 0
            stop = int(np.searchsorted(sizes[:end], before + self.piece_bytes, "right"))
            stop = max(stop, start + 1)
            pieces.append([stop - start, int(sizes[stop - 1]) - before])
            start = stop
        return pieces


UNITS_A_MS = {"ms": 1, "us": 1000, "ns": 1_000_000}
"""How many of Arrow's units of a timestamp are a ms."""


def latest_times(column: pa.ChunkedArray, firsts: Sequence[int]) -> list[int | None]:
    """Return the latest event time of each of some runs of rows, ms since 1970.

    - ``column``: timestamps, dates, or whole ms; null: the row has none.
    - ``firsts``: first row of each run, rising; each ends where the next one begins.

    Returns None where no row has one.
    """
    kind = column.type
    days = pa.types.is_date32(kind)
    whole = (column.cast(pa.int32()) if days else column).cast(pa.int64())
    least = np.iinfo(np.int64).min
    values = (whole.fill_null(least) if whole.null_count else whole).to_numpy()
    found = np.maximum.reduceat(values, firsts).tolist()
    return [None if value == least else _in_ms(value, kind) for value in found]


def _in_ms(value: int, kind: pa.DataType) -> int:
    """Return a time in whole ms, rounded down as Spark and Flink do."""
    if pa.types.is_date32(kind):
        return value * 86_400_000
    if pa.types.is_timestamp(kind):
        return value * 1000 if kind.unit == "s" else value // UNITS_A_MS[kind.unit]
    return value


def by_channel(table: pa.Table) -> tuple[pa.Table, list[int], list[int]]:
    """Return rows in the order of their channels, those channels, and where each one's begin."""
    channels = table.column(CHANNEL).to_numpy()
    rows = table.drop_columns([CHANNEL]).combine_chunks()
    if len(channels) > 1 and channels.min() != channels.max():
        # numpy sorts short integers by radix: a third of the time.
        order = np.argsort(channels.astype(np.min_scalar_type(channels.max())), kind="stable")
        rows, channels = rows.take(pa.array(order)), channels[order]
    found, starts = np.unique(channels, return_index=True)
    return rows, found.tolist(), starts.tolist()


def spread(table: pa.Table, channels: int) -> tuple[pa.Table, list[int], list[int]]:
    """Return rows, channels that share them as evenly as can be, and where each one's begin.

    Rows stay where they are: to deal them out in turn would copy all of them.
    """
    bounds = [len(table) * channel // channels for channel in range(channels + 1)]
    ranges = [(c, bounds[c]) for c in range(channels) if bounds[c] < bounds[c + 1]]
    return table.combine_chunks(), [c for c, _ in ranges], [start for _, start in ranges]


def row_bytes(table: pa.Table) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Return the size of every row in Arrow's memory, bytes.

    Exact for columns of fixed width, text and bytes (4 bytes of offset each); rows of nested
    columns share their column's size evenly.
    """
    total = np.zeros(len(table), dtype=np.int64)
    spread = 0.0
    for column in table.columns:
        kind = column.type
        if pa.types.is_string(kind) or pa.types.is_binary(kind) or pa.types.is_large_string(kind):
            lengths = pc.fill_null(pc.binary_length(column), 0)
            total += lengths.to_numpy().astype(np.int64) + 4
        elif pa.types.is_primitive(kind) or pa.types.is_decimal(kind):
            spread += kind.bit_width / 8
        else:
            spread += column.nbytes / max(1, len(table))
    total += max(1, round(spread))
    return total


def packed_rows(reports: list[str]) -> list[PackedRows]:
    """Return the files that tasks have reported, in the order in which rows are to be read."""
    found = sorted((json.loads(text) for text in reports), key=lambda r: (r["task"], r["number"]))
    return [
        PackedRows(
            report["path"],
            report["bytes"],
            report["rows"],
            [(c, [(rows, nbytes) for rows, nbytes in pieces]) for c, pieces in report["channels"]],
            (report["footer"][0], report["footer"][1]),
            report["latest"],
        )
        for report in found
    ]
