"""The rows of a receiver's micro-batch on an executor: ranges of files of the exchange log."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql.datasource import InputPartition

from flowcontrol.errors import LinkError
from flowcontrol.streaming.take import settle

if TYPE_CHECKING:
    from flowcontrol.ledger.storage import Storage

__all__ = ["LinkPartition", "read_rows", "share_out"]

YIELD_BYTES = 256 << 10
"""Least size of the Arrow batches that Spark is given, but for the last: what is larger is handed
on as it was read, without a copy."""


class LinkPartition(InputPartition):
    """Rows that one task of a micro-batch reads.

    Parameters
    ----------
    number : int
        Which.
    extents : list of (str, int, int)
        File, first row and rows, in the order in which they are read.
    """

    def __init__(self, number: int, extents: list[tuple[str, int, int]]) -> None:
        super().__init__(number)
        self.number, self.extents = number, extents


def share_out(
    channels: Sequence[tuple[int, list[tuple[str, int, int]]]], partitions: int
) -> list[LinkPartition]:
    """Share channels out to partitions of about equal size, a channel whole and in order.

    Parameters
    ----------
    channels : sequence of (int, list of extents)
        Size in bytes and extents of each channel that has rows in the batch.
    partitions : int
        At most so many.
    """
    loads = [0] * max(1, min(partitions, len(channels)))
    extents: list[list[tuple[str, int, int]]] = [[] for _ in loads]
    for nbytes, own in sorted(channels, key=lambda channel: -channel[0]):
        lightest = loads.index(min(loads))
        loads[lightest] += nbytes
        extents[lightest] += own
    return [LinkPartition(i, own) for i, own in enumerate(extents) if own]


def read_rows(
    storage: Storage, partition: LinkPartition, schema: pa.Schema
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a partition with the columns of a schema.

    Raises
    ------
    LinkError
        If a file is missing or damaged.
    """
    held, nbytes = list[pa.Table](), 0
    for path, first, rows in partition.extents:
        for table in _read(storage, path, first, rows, schema):
            held.append(table)
            nbytes += table.nbytes
            if nbytes >= YIELD_BYTES:
                yield from _joined(held)
                held, nbytes = [], 0
    if held:
        yield from _joined(held)
    settle()


def _read(
    storage: Storage, path: str, first: int, rows: int, schema: pa.Schema
) -> Iterator[pa.Table]:
    """Yield rows of a file; only the row groups that hold them are read."""
    try:
        with storage.open_input(path) as source, pq.ParquetFile(source) as file:
            end, row = first + rows, 0
            for group in range(file.num_row_groups):
                count = file.metadata.row_group(group).num_rows
                low, high = max(first, row), min(end, row + count)
                if low < high:
                    table = file.read_row_group(group, use_threads=False)
                    yield _fit(table.slice(low - row, high - low), schema)
                row += count
            if row < end:
                raise LinkError(f"it holds {row} rows, the rows up to {end} are wanted")
    except FileNotFoundError as error:
        raise LinkError(
            f"{storage}/{path} is missing although a commit names it: it was deleted by hand or by "
            "VACUUM; restore it, or start the receiver with a new checkpoint and "
            ".option('reset', True)"
        ) from error
    except (pa.ArrowException, OSError, LinkError) as error:
        raise LinkError(f"{storage}/{path} cannot be read: {error}") from error


def _fit(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """Give a table the columns of a schema: those of a later schema are null in older files."""
    if table.schema.equals(schema):
        return table
    columns = [
        table.column(field.name).cast(field.type)
        if field.name in table.column_names
        else pa.nulls(len(table), field.type)
        for field in schema
    ]
    return pa.table(columns, schema=schema)


def _joined(held: list[pa.Table]) -> Iterator[pa.RecordBatch]:
    yield from pa.concat_tables(held).combine_chunks().to_batches()
