"""The rows that a subtask processes, on an executor: made, replayed, or from the exchange log."""

from __future__ import annotations

import gc
from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql.datasource import InputPartition

from flowcontrol.ledger.exchange import Span
from flowcontrol.live.rowschema import HIDDEN, ROUND, SUBTASK, made_schema

LOADED_AFTER = 3
"""Tasks after which a worker has loaded all that it ever will."""

_tasks_run = 0


class TakePartition(InputPartition):
    """Rows that one subtask processes in a round.

    Parameters
    ----------
    subtask : int
        Which.
    spans : list of Span
        Their places, in the order in which they are processed. Empty for made rows.
    made : tuple of (str, int, int, int), optional
        Of made or replayed rows: source, first number, how many, round.
    """

    def __init__(
        self, subtask: int, spans: list[Span], made: tuple[str, int, int, int] | None = None
    ) -> None:
        super().__init__(subtask)
        self.subtask, self.spans, self.made = subtask, spans, made


def rows_of(partition: TakePartition, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a partition, hidden columns last.

    Parameters
    ----------
    partition : TakePartition
        What to read or make.
    columns : sequence of str
        Of the rows, hidden ones included.
    """
    subtask, stored = partition.subtask, [name for name in columns if name != SUBTASK]
    if partition.made is not None and not partition.spans:
        yield _made_rows(subtask, *partition.made)
    elif partition.made is not None:
        plain = [name for name in columns if name not in HIDDEN]
        for batch in _read(partition.spans[0], plain):
            stamped = batch.append_column(ROUND, _constant(partition.made[3], batch.num_rows))
            yield stamped.append_column(SUBTASK, _constant(subtask, batch.num_rows))
    else:
        for span in partition.spans:
            for batch in _read(span, stored):
                yield batch.append_column(SUBTASK, _constant(subtask, batch.num_rows))
    freeze_loaded()


def freeze_loaded() -> None:
    """Freeze the objects that a worker has loaded, so that the garbage collector skips them.

    Spark's Python worker collects garbage after every task. With the modules of pandas and pyarrow
    loaded that took some 20 ms a task, nine tenths of a worker's CPU time.
    """
    global _tasks_run
    if _tasks_run < LOADED_AFTER:
        _tasks_run += 1
        gc.freeze()


def _made_rows(subtask: int, source: str, first: int, count: int, number: int) -> pa.RecordBatch:
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


def _read(span: Span, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a span; only the row groups that it touches are read."""
    with pq.ParquetFile(span.path) as file:
        start, end, row = span.first_row, span.first_row + span.rows, 0
        for group in range(file.num_row_groups):
            rows = file.metadata.row_group(group).num_rows
            low, high = max(start, row), min(end, row + rows)
            if low < high:
                table = file.read_row_group(group, columns=list(columns), use_threads=False)
                yield from table.slice(low - row, high - low).to_batches()
            row += rows


def _constant(value: int, count: int) -> pa.Array:
    return pa.array(np.full(count, value, dtype=np.int64))
