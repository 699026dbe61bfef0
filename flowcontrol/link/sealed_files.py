"""Parquet files of which every byte is checked when it is read.

A row group is a piece of a message. The file's footer holds the digests of all pieces, and the
commit that names the file holds the size and digest of the footer: a reader checks exactly the
bytes that it reads, headers included, and reads them once.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql.datasource import InputPartition

from flowcontrol.errors import DamagedError, LinkError
from flowcontrol.ledger.log import check_file, digest
from flowcontrol.spark.versions import freeze_loaded

if TYPE_CHECKING:
    from flowcontrol.ledger.storage import Storage


PIECES = b"flowcontrol.pieces"
"""Key in a file's footer: size and digest of each row group's bytes, JSON."""

FORMAT: dict[str, Any] = {"use_dictionary": False, "write_statistics": False}
"""Rows are read once, whole, and soon: trying dictionaries took a third of the time that a file of
100-byte rows took to write, and nothing searches the files."""

CODEC = "lz4"

SAMPLE_BYTES = 64 << 10
"""Of each column, to see whether it can be compressed."""

WORTH = 0.9
"""Part of its size that a column must shrink to: trying to compress random text of 76 bytes took
two fifths of the time that a file of 100-byte rows took to write."""


def codecs(table: pa.Table) -> str | dict[str, str]:
    """Return the codec of each column: none where a sample of text or bytes does not shrink.

    As Parquet's writer takes it; one for all if there are nested columns, whose parts it would want
    one by one.
    """
    if any(pa.types.is_nested(kind) for kind in table.schema.types):
        return CODEC
    return {name: _codec(table.column(name)) for name in table.column_names}


def _codec(column: pa.ChunkedArray) -> str:
    is_bytes = pa.types.is_string(column.type) or pa.types.is_binary(column.type)
    if not is_bytes or column.num_chunks != 1:
        return CODEC
    [chunk] = column.chunks
    content = chunk.buffers()[2]
    if content is None or content.size < SAMPLE_BYTES:
        return CODEC
    sample = content.slice(0, SAMPLE_BYTES)
    return CODEC if pa.compress(sample, CODEC).size < WORTH * SAMPLE_BYTES else "none"


class _Sink:
    """A file for Parquet to write to, which counts and digests what goes through."""

    def __init__(self, file: pa.NativeFile) -> None:
        self._file = file
        self._nbytes = self._digest = 0
        self.closed = False

    def write(self, content: Any) -> int:
        self._digest = digest(content, self._digest)
        self._nbytes += len(content)
        self._file.write(content)
        return len(content)

    def cut(self) -> tuple[int, int]:
        """Return size and digest of what was written since the last cut."""
        found = self._nbytes, self._digest
        self._nbytes = self._digest = 0
        return found

    def tell(self) -> int:
        return int(self._file.tell())

    def flush(self) -> None:
        self._file.flush()

    def close(self) -> None:
        """Leave the file to its owner."""
        self.closed = True


class SealedWriter:
    """Writes a file piece by piece.

    - ``file``: open for writing; it stays open.
    - ``compression``: codec, or that of each column: see :func:`codecs`.
    """

    def __init__(
        self, file: pa.NativeFile, schema: pa.Schema, compression: str | dict[str, str] = CODEC
    ) -> None:
        self._sink = _Sink(file)
        self._writer = pq.ParquetWriter(self._sink, schema, compression=compression, **FORMAT)
        self._pieces: list[tuple[int, int]] = []

    def write(self, table: pa.Table) -> None:
        """Write a piece: a row group of its own."""
        self._writer.write_table(table, row_group_size=len(table))
        self._pieces.append(self._sink.cut())

    def close(self) -> tuple[int, int]:
        """Write the footer; return its size and digest."""
        self._writer.add_key_value_metadata({PIECES.decode(): json.dumps(self._pieces)})
        self._writer.close()
        return self._sink.cut()


class _Window:
    """A file of which one checked piece is there: Parquet reads it at the piece's own place."""

    def __init__(self, nbytes: int) -> None:
        self._nbytes, self._at, self._start = nbytes, 0, 0
        self._piece = pa.py_buffer(b"")
        self.closed = False

    def show(self, start: int, piece: pa.Buffer) -> None:
        self._start, self._piece = start, piece

    def seek(self, offset: int, whence: int = 0) -> int:
        self._at = offset + (0, self._at, self._nbytes)[whence]
        return self._at

    def tell(self) -> int:
        return self._at

    def read_buffer(self, nbytes: int) -> pa.Buffer:
        low = self._at - self._start
        if not 0 <= low <= low + nbytes <= self._piece.size:
            raise OSError(f"bytes {self._at} to {self._at + nbytes} are outside the piece")
        self._at += nbytes
        return self._piece.slice(low, nbytes)

    def read(self, nbytes: int) -> bytes:
        return bytes(self.read_buffer(nbytes))

    def close(self) -> None:
        self.closed = True


class SealedFile:
    """Reads pieces of a file.

    Raises DamagedError if the file's end is not what was written.
    """

    def __init__(
        self,
        storage: Storage,
        path: str,
        source: pa.NativeFile,
        nbytes: int,
        footer: tuple[int, int],
    ) -> None:
        self._storage, self._path, self._source = storage, path, source
        end = self._bytes(nbytes - footer[0], footer[0] + 1)  # a file that has grown as well
        check_file(storage, f"{path}, its footer", end, footer)
        self._metadata = pq.read_metadata(pa.BufferReader(end))
        self._pieces = json.loads(self._metadata.metadata[PIECES])
        self._window = _Window(nbytes)
        self._file = pq.ParquetFile(pa.PythonFile(self._window, mode="r"), metadata=self._metadata)

    def _bytes(self, start: int, nbytes: int) -> pa.Buffer:
        self._source.seek(max(0, start))
        return self._source.read_buffer(nbytes)

    def read(self, first: int, rows: int) -> Iterator[pa.Table]:
        """Yield rows of the file; only the pieces that hold them are read.

        Raises DamagedError if a piece is not what was written. Raises LinkError if the file has
        fewer rows.
        """
        end, row, start = first + rows, 0, 0
        for group, (nbytes, written) in enumerate(self._pieces):
            count = self._metadata.row_group(group).num_rows
            low, high = max(first, row), min(end, row + count)
            if low < high:
                piece = self._bytes(start, nbytes)
                check_file(self._storage, f"{self._path}, piece {group}", piece, (nbytes, written))
                self._window.show(start, piece)
                table = self._file.read_row_group(group, use_threads=False)
                yield table.slice(low - row, high - low)
            row, start = row + count, start + nbytes
        if row < end:
            raise LinkError(f"it holds {row} rows, the rows up to {end} are wanted")


# --- The rows of a receiver's micro-batch on an executor: ranges of files of the exchange log.


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
