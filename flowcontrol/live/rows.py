"""The rows of a subtask in a batch: taken from where they are, and packed for the next stage."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import pyarrow as pa
from numpy import typing as npt
from pyarrow import parquet as pq
from pyspark.sql.datasource import InputPartition

from flowcontrol.errors import Problem, RunError, ScenarioError
from flowcontrol.layout.replay import NO_KEYS, RowKeys
from flowcontrol.ledger.exchange import PARTIAL, Span
from flowcontrol.ledger.storage import damage_named
from flowcontrol.records import ROWS_OF_REQUESTS
from flowcontrol.results.windows import result_schema
from flowcontrol.spark.versions import freeze_loaded

if TYPE_CHECKING:
    from flowcontrol.layout.graph import JobVertex
    from flowcontrol.layout.job import Job
    from flowcontrol.scenario.stage_models import Stage


# --- The rows that a subtask processes: made, replayed, or from the exchange log; their columns


Rounds = npt.NDArray[np.int64]


class TakePartition(InputPartition):
    """Rows that one subtask processes in a batch.

    - ``spans``: their places, in the order in which they are processed. Empty for made rows.
    - ``rounds``: of such rows, from which round their latency counts, that in which they are made,
      or came to a log: runs of a round, and how many.
    - ``order``: what is to be done with them.
    """

    def __init__(
        self,
        subtask: int,
        spans: list[Span],
        made: tuple[str, int, int] | None = None,
        rounds: Sequence[tuple[int, int]] = (),
        again: int = 0,
    ) -> None:
        super().__init__(subtask)
        self.subtask, self.spans, self.made, self.rounds = subtask, spans, made, rounds
        self.again = again
        self.order: SubtaskOrder | None = None

    def stamps(self) -> pa.Array:
        """Return the round from which the latency of each made or replayed row counts."""
        numbers, counts = zip(*self.rounds, strict=True)
        stamps = np.repeat(np.array(numbers, np.int64), counts)
        stamps[: self.again] = marked(stamps[: self.again])
        return pa.array(stamps)


def joined(parts: Sequence[TakePartition]) -> TakePartition:
    """Return the rows that a subtask processes in several rounds, one behind the other.

    ``parts``: those of each round, in order, at least one.
    """
    first, *others = parts
    if not others:
        return first
    spans = list[Span]()
    for span in (span for part in parts for span in part.spans):
        if spans and spans[-1].is_before(span):
            spans[-1] = replace(spans[-1], rows=spans[-1].rows + span.rows)
        else:
            spans.append(span)
    made = first.made
    if made is not None:
        made = *made[:2], sum(part.made[2] for part in parts if part.made is not None)
    rounds = [run for part in parts for run in part.rounds]
    return TakePartition(first.subtask, spans, made, rounds, sum(part.again for part in parts))


def rows_of(partition: TakePartition, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a partition, hidden columns last."""
    subtask, stored = partition.subtask, [name for name in columns if name != SUBTASK]
    if partition.made is not None and not partition.spans:
        yield _made_rows(subtask, *partition.made, partition.stamps())
    elif partition.made is not None:
        plain, stamps = [name for name in columns if name not in HIDDEN], partition.stamps()
        for batch in _read(partition.spans, plain):
            stamped = batch.append_column(ROUND, stamps[: batch.num_rows])
            stamps = stamps[batch.num_rows :]
            yield stamped.append_column(SUBTASK, _constant(subtask, batch.num_rows))
    else:
        for batch in _read(partition.spans, stored):
            yield batch.append_column(SUBTASK, _constant(subtask, batch.num_rows))
    freeze_loaded()


def _made_rows(
    subtask: int, source: str, first: int, count: int, stamps: pa.Array
) -> pa.RecordBatch:
    """Return ``count`` made rows of a source's subtask, with the rounds of their emission."""
    schema = made_schema()
    columns = [
        pa.array([source] * count, schema.field("source").type),
        _constant(subtask, count),
        pa.array(np.arange(first, first + count, dtype=np.int64)),
        stamps,
        _constant(subtask, count),
    ]
    return pa.RecordBatch.from_arrays(columns, names=[*schema.names, ROUND, SUBTASK])


def _read(spans: Sequence[Span], columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """Yield the rows of spans; each row group that they touch is read once."""
    with ExitStack() as opened:
        files: dict[str, pq.ParquetFile] = {}
        groups: dict[tuple[str, int], pa.Table] = {}
        for span in spans:
            if span.path not in files:
                place = Path(span.path)
                with damage_named(place.parent, place.name):
                    files[span.path] = opened.enter_context(pq.ParquetFile(span.path))
            file, start, end, row = files[span.path], span.first_row, span.first_row + span.rows, 0
            for group in range(file.num_row_groups):
                rows = file.metadata.row_group(group).num_rows
                low, high = max(start, row), min(end, row + rows)
                if low < high:
                    key = span.path, group
                    if key not in groups:
                        groups[key] = file.read_row_group(
                            group, columns=list(columns), use_threads=False
                        )
                    for batch in groups[key].slice(low - row, high - low).to_batches():
                        yield _dated(span, batch)
                row += rows


def _dated(span: Span, batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return rows with the round of emission that a span says, if it says one."""
    if span.emitted is None:
        return batch
    place = batch.schema.get_field_index(ROUND)
    return batch.set_column(place, ROUND, _constant(span.emitted, batch.num_rows))


def _constant(value: int, count: int) -> pa.Array:
    return pa.array(np.full(count, value, dtype=np.int64))


ROUND = "_round"
"""Hidden column: round of emission at the source; marked if an earlier attempt emitted it too."""

SUBTASK = "_subtask"
"""Hidden column: subtask that takes the row up. It travels to the executors, not into files."""

HIDDEN = (ROUND, SUBTASK)

RESULT = "result"
"""The one column of what comes back: a JSON text a subtask."""

N = TypeVar("N", int, Rounds)


def marked(number: N) -> N:
    """Return a round of emission with the mark that the record was emitted before, or without it.

    A round with the mark is below 0.
    """
    return -1 - number


def made_schema() -> pa.Schema:
    """Return the columns of a made row: which source, which subtask of it, and its number."""
    import pyarrow as pa

    return pa.schema(
        [("source", pa.string()), ("source_subtask", pa.int64()), ("number", pa.int64())]
    )


def exchange_schema(rows: pa.Schema) -> pa.Schema:
    """Return the columns of an exchange file: the row's own, and the round of emission."""
    import pyarrow as pa

    return rows.append(pa.field(ROUND, pa.int64()))


def row_schemas(
    job: Job, replayed: dict[str, pa.Schema], rows: RowKeys = NO_KEYS
) -> dict[str, pa.Schema]:
    """Return the columns of the rows that each stage takes up (a source: emits).

    ``replayed``: columns of the rows of each replaying source.

    Raises ScenarioError if the inputs of a stage have different columns.
    """
    schemas: dict[str, pa.Schema] = {}
    for plan in job.stages:
        if plan.is_source:
            schemas[plan.name] = replayed.get(plan.name, made_schema())
            continue
        first, *others = [job.stage(link.edge.sender).name for link in plan.inputs]
        sent = {name: sent_schema(job, name, schemas[name], rows) for name in (first, *others)}
        for other in others:
            _check_equal(plan, first, sent[first], other, sent[other])
        schemas[plan.name] = sent[first]
        written_schema(plan.stage, sent[first])
    return schemas


def written_schema(sink: Stage, sent: pa.Schema) -> pa.Schema:
    """Return the columns of the table that a sink writes.

    ``sent``: of the rows that it takes up, or of the results of its windows.

    Raises ScenarioError if they have a column that the table has besides.
    """
    if sink.requests is None or sink.output is None:
        return sent
    own, taken = ROWS_OF_REQUESTS.arrow_schema(), {name.lower(): name for name in sent.names}
    for name in own.names:
        if name in taken:
            text = (
                f"its rows have a column {taken[name]}, and the table of a sink with requests has "
                "one itself: rename it in the input, or remove output"
            )
            raise ScenarioError([Problem(f"stages.{sink.name}.output", text)])
    return pa.schema([*sent, *own])


def sent_schema(job: Job, stage: str, taken: pa.Schema, rows: RowKeys = NO_KEYS) -> pa.Schema:
    """Return the columns of the rows that a stage sends on.

    ``stage``: which stage; of a chain, the first one, behind which all send the same.
    """
    window = job.scenario.window_of(stage)
    return taken if window is None else result_schema(window, rows.columns_of(stage))


def _check_equal(plan: JobVertex, one: str, left: pa.Schema, two: str, right: pa.Schema) -> None:
    if left.equals(right):
        return
    problem = Problem(
        f"stages.{plan.name}",
        f"its inputs have different columns: {one} has {', '.join(left.names)}; {two} has "
        f"{', '.join(right.names)}; feed it from sources with equal columns",
    )
    raise ScenarioError([problem])


# --- What an executor does with the rows of one subtask in a batch: pack them, or count them.
#
# Rows arrive in the order in which the task processes them. For each output edge they are
# laid out by receiver, each channel's rows in that order, and written as one Parquet file
# with row groups cut by bytes. What comes back to the driver is names, sizes and counts,
# never rows.


GROUP_BYTES = 1 << 20
"""Bytes of a row group, counted as the scenario counts them: a channel of many buffers is read
a part at a time."""


@dataclass(frozen=True)
class EdgeOrder:
    """How the rows of a subtask go out over one edge in a round."""

    root: str  # The exchange log; for a sink's output, its table
    folder: str  # Folder of the file below the root; empty for the root itself
    receivers: tuple[int, ...]  # Receiver of each subpartition
    first: tuple[int, ...]  # Number of the first record on each channel
    # Per output record: its subpartition, and the input row that it is made of.
    routes: np.ndarray[Any, np.dtype[np.int64]]
    parents: np.ndarray[Any, np.dtype[np.int64]]
    group_rows: int  # Most rows of a row group
    # Name of the file: a round that is run again writes it again. Empty: one that no other has.
    name: str = ""
    is_table: bool = False  # It is a table's: hidden columns are dropped
    # Rows that an earlier attempt has emitted are left out: what a sink wrote of them is visible,
    # what was on its way is lost.
    is_most_once: bool = False
    beside: pa.Table | None = None  # Further columns of the rows that come in


@dataclass(frozen=True)
class SubtaskOrder:
    """What a subtask has to do: how many rows must come, and where they go."""

    rows: int  # Rows that it processes
    # Per output edge; then of each sink that writes a table, that table, once for each transaction
    # that rows of the round belong to.
    edges: tuple[EdgeOrder, ...]


def work_of(order: SubtaskOrder, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Do what the task of a partition does with its rows, those of one subtask.

    ``batches``: the rows, in the order in which they are processed.

    Yields what the task reports, in one row; nothing of no rows.
    """
    held = [batch for batch in batches if batch.num_rows]
    if not held:
        return
    table = pa.Table.from_batches(held)
    subtask = table.column(SUBTASK)[0].as_py()
    if len(table) != order.rows:
        raise RunError(
            f"subtask {subtask} processes {order.rows} rows, but {len(table)} came: the "
            "exchange log and the ledger disagree"
        )
    report: dict[str, Any] = {"subtask": subtask, "rows": len(table)}
    table = table.drop_columns([SUBTASK])
    report["files"] = [write_rows(table, edge) for edge in order.edges]
    yield pa.RecordBatch.from_pydict({RESULT: [json.dumps(report)]})
    freeze_loaded()


def _fresh(edge: EdgeOrder, table: pa.Table) -> EdgeOrder:
    """Return the order of a sink's file without the rows that were emitted before."""
    is_fresh = table.column(ROUND).to_numpy()[edge.parents] >= 0
    return replace(edge, routes=edge.routes[is_fresh], parents=edge.parents[is_fresh])


def write_rows(table: pa.Table, edge: EdgeOrder) -> dict[str, Any] | None:
    """Write one edge's file; return what the driver commits, or None for no rows.

    ``edge``: which of them go where.
    """
    if edge.is_most_once:
        edge = _fresh(edge, table)
    if edge.is_table:
        table = table.select([name for name in table.column_names if name != ROUND])
    if edge.beside is not None:
        for field in edge.beside.schema:
            table = table.append_column(field, edge.beside.column(field.name))
    if len(edge.routes) == 0:
        return None
    by_channel = np.argsort(edge.routes, kind="stable")
    laid = table.take(pa.array(edge.parents[by_channel]))
    counts = np.bincount(edge.routes, minlength=len(edge.receivers))
    name = str(Path(edge.folder) / (edge.name or f"{uuid.uuid4().hex}.parquet"))
    unlike = f"{name}.{uuid.uuid4().hex}{PARTIAL}"
    path = Path(edge.root) / (unlike if edge.name else name)
    path.parent.mkdir(parents=True, exist_ok=True)
    index, row = [], 0
    with pq.ParquetWriter(path, laid.schema, compression="lz4") as writer:
        for channel, count in enumerate(counts.tolist()):
            if count:
                writer.write_table(laid.slice(row, count), row_group_size=edge.group_rows)
                index.append((edge.receivers[channel], edge.first[channel], row, count))
                row += count
    if edge.name:  # a process that was thought dead may write the same file
        path = path.replace(Path(edge.root) / name)
    return {"path": name, "bytes": path.stat().st_size, "rows": row, "index": index}
