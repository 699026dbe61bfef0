"""The rows that a subtask takes up, on an executor: made, replayed, or off the exchange log."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from flowcontrol.ledger.exchange import Span
from flowcontrol.streaming.rowschema import ROUND, SUBTASK, made_schema

__all__ = ["made_rows", "replayed_rows", "span_rows"]


def made_rows(subtask: int, source: str, first: int, count: int, number: int) -> pa.RecordBatch:
    """Return ``count`` made rows of a source's subtask, emitted in round ``number``."""
    schema = made_schema()
    columns = [
        pa.array([source] * count, schema.field("source").type),
        _constant(subtask, count),
        pa.array(np.arange(first, first + count, dtype=np.int64)),
        _constant(number, count),
        _constant(subtask, count),
    ]
    return pa.RecordBatch.from_arrays(columns, names=[*schema.names, ROUND, SUBTASK])


def replayed_rows(
    span: Span, subtask: int, number: int, columns: Sequence[str]
) -> Iterator[pa.RecordBatch]:
    """Yield rows of the input, emitted in round ``number``."""
    for batch in _read(span, columns):
        table = pa.Table.from_batches([batch])
        table = table.append_column(ROUND, _constant(number, batch.num_rows))
        yield from table.append_column(SUBTASK, _constant(subtask, batch.num_rows)).to_batches()


def span_rows(
    spans: Sequence[Span], subtask: int, columns: Sequence[str]
) -> Iterator[pa.RecordBatch]:
    """Yield rows off the exchange log, span by span."""
    for span in spans:
        for batch in _read(span, columns):
            table = pa.Table.from_batches([batch])
            yield from table.append_column(SUBTASK, _constant(subtask, batch.num_rows)).to_batches()


def _read(span: Span, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a span; only the row groups that it touches are read."""
    with pq.ParquetFile(span.path) as file:
        start, end, row = span.first_row, span.first_row + span.rows, 0
        for group in range(file.num_row_groups):
            rows = file.metadata.row_group(group).num_rows
            low, high = max(start, row), min(end, row + rows)
            if low < high:
                table = file.read_row_group(group, columns=list(columns))
                yield from table.slice(low - row, high - low).to_batches()
            row += rows


def _constant(value: int, count: int) -> pa.Array:
    return pa.array(np.full(count, value, dtype=np.int64))
