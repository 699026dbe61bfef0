"""The rows of a receiver's micro-batch on an executor: ranges of files of the exchange log."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa
from pyspark.sql.datasource import InputPartition

from flowcontrol.errors import DamagedError, LinkError
from flowcontrol.link.sealed_files import SealedFile
from flowcontrol.spark.workers import freeze_loaded

if TYPE_CHECKING:
    from flowcontrol.ledger.storage import Storage

YIELD_BYTES = 256 << 10
"""Least size of the Arrow batches that Spark is given, but for the last: what is larger is handed
on as it was read, without a copy."""


class FileRows(NamedTuple):
    """Rows of one file, in order, with what is needed to verify them."""

    path: str  # Relative to the exchange log
    first_row: int
    rows: int
    nbytes: int  # Size of the file
    footer: tuple[int, int]  # Size and digest of the file's end


class LinkPartition(InputPartition):
    """Rows that one task of a micro-batch reads.

    ``extents``: the rows' files, in the order in which they are read.
    """

    def __init__(self, number: int, rows: int, extents: list[FileRows]) -> None:
        super().__init__(number)
        self.number, self.rows, self.extents = number, rows, extents


def share_out(
    channels: Sequence[tuple[int, list[FileRows]]], partitions: int
) -> list[LinkPartition]:
    """Distribute channels over partitions of about equal size, each channel whole and in order."""
    loads = [0] * max(1, min(partitions, len(channels)))
    extents: list[list[FileRows]] = [[] for _ in loads]
    for rows, own in sorted(channels, key=lambda channel: -channel[0]):
        lightest = loads.index(min(loads))
        loads[lightest] += rows
        extents[lightest] += own
    return [
        LinkPartition(i, rows, own)
        for i, (rows, own) in enumerate(zip(loads, extents, strict=True))
        if rows
    ]


def read_rows(
    storage: Storage, partition: LinkPartition, schema: pa.Schema
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a partition with the columns of a schema.

    Raises LinkError if a file is missing or damaged, or the files do not hold as many rows as the
    batch's offsets say; then nothing was yielded.
    """
    listed = sum(extent.rows for extent in partition.extents)
    if listed != partition.rows:
        raise LinkError(
            f"{storage}: the offsets of the batch say {partition.rows} rows for its task "
            f"{partition.number}, the log lists {listed}: nothing was read; start the query again"
        )
    held, nbytes = list[pa.Table](), 0
    for extent in partition.extents:
        for table in _read(storage, extent, schema):
            held.append(table)
            nbytes += table.nbytes
            if nbytes >= YIELD_BYTES:
                yield from _joined(held)
                held, nbytes = [], 0
    if held:
        yield from _joined(held)
    freeze_loaded()


def _read(storage: Storage, extent: FileRows, schema: pa.Schema) -> Iterator[pa.Table]:
    """Yield rows of a file, checked; only the row groups that hold them are read."""
    path, first, rows, nbytes, footer = extent
    try:
        with storage.open_input(path) as source:
            for table in SealedFile(storage, path, source, nbytes, footer).read(first, rows):
                yield _fit(table, schema)
    except FileNotFoundError as error:
        raise LinkError(
            f"{storage}/{path} is missing although a commit names it: it was deleted by hand or by "
            "VACUUM; restore it, or start the receiver with a new checkpoint and "
            ".option('reset', True)"
        ) from error
    except DamagedError:
        raise
    except (pa.ArrowException, OSError, LinkError) as error:
        raise LinkError(f"{storage}/{path} cannot be read: {error}") from error


def _fit(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """Give a table the columns of a schema: those of a later schema are null in older files."""
    if table.schema.equals(schema):
        return table.replace_schema_metadata(None)
    columns = [
        table.column(field.name).cast(field.type)
        if field.name in table.column_names
        else pa.nulls(len(table), field.type)
        for field in schema
    ]
    return pa.table(columns, schema=schema)


def _joined(held: list[pa.Table]) -> Iterator[pa.RecordBatch]:
    yield from pa.concat_tables(held).combine_chunks().to_batches()
