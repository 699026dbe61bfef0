"""Rows in place of Arrow tables and Parquet files: what the product calls of pyarrow."""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Sequence
from types import SimpleNamespace
from typing import Any

import pyarrow as pa

from flowcontrol.errors import LinkError
from flowcontrol.ledger.log import check_file


class Content(bytes):
    """Bytes as Arrow's buffers have them."""

    @property
    def size(self) -> int:
        return len(self)


class _Column(list[Any]):
    def __getitem__(self, place: Any) -> Any:
        return _Value(list.__getitem__(self, place))


class _Value:
    def __init__(self, value: Any) -> None:
        self._value = value

    def as_py(self) -> Any:
        return self._value


class Table:
    """A table of rows, each a dict or whatever stands for a row."""

    nbytes = 1 << 20
    """Each is handed on by itself."""

    def __init__(self, rows: Sequence[Any]) -> None:
        self.rows = rows

    @classmethod
    def from_pylist(cls, rows: Sequence[Any], schema: Any = None) -> Table:
        return cls(rows)

    @property
    def schema(self) -> Table:
        return self

    def equals(self, other: Any) -> bool:
        return True

    def replace_schema_metadata(self, _: Any) -> Table:
        return self

    combine_chunks = __copy__ = lambda self: self

    def to_batches(self) -> list[Table]:
        return [self]

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, name: str) -> _Column:
        return _Column(row[name] for row in self.rows)

    def filter(self, mask: Sequence[bool]) -> Table:
        return Table([row for row, stays in zip(self.rows, mask, strict=True) if stays])

    def to_pylist(self) -> list[Any]:
        return list(self.rows)


def dumped(rows: Sequence[Any]) -> Content:
    """Return the content of a file with these rows."""
    return Content(pickle.dumps(rows, 5))


def concat(tables: Sequence[Table]) -> Table:
    return Table([row for table in tables for row in table.rows])


class _Stream:
    def getvalue(self) -> Content:
        return self.content

    content = Content()


def _write(table: Table, stream: _Stream, **_: Any) -> None:
    stream.content = dumped(table.rows)


class _File:
    def __init__(self, content: bytes) -> None:
        self._content = content

    def read(self) -> Table:
        return Table(pickle.loads(self._content))


ARROW = SimpleNamespace(
    Table=Table,
    BufferOutputStream=_Stream,
    BufferReader=lambda content: content,
    concat_tables=concat,
    ArrowException=pa.ArrowException,
)
PARQUET = SimpleNamespace(write_table=_write, ParquetFile=_File)
COMPUTE = SimpleNamespace(
    equal=lambda column, value: [one == value for one in column],
    greater=lambda column, value: [one > value for one in column],
)


class SealedFile:
    """Rows of a data file: it is its own footer."""

    def __init__(
        self, storage: Any, path: str, source: Any, nbytes: int, footer: tuple[int, int]
    ) -> None:
        check_file(storage, path, source.content, footer)
        self._rows = pickle.loads(source.content)

    def read(self, first: int, rows: int) -> Iterator[Table]:
        if first + rows > len(self._rows):
            raise LinkError(f"it holds {len(self._rows)} rows, {first + rows} are wanted")
        yield Table(self._rows[first : first + rows])
