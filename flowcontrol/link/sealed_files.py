"""Parquet files of which every byte is checked when it is read.

A row group is a piece of a message. The file's footer holds the digests of all pieces, and the
commit that names the file holds the size and digest of the footer: a reader checks exactly the
bytes that it reads, headers included, and reads them once.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from flowcontrol.errors import LinkError
from flowcontrol.ledger.log import check_file, digest

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
