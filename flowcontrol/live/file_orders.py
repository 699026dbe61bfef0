"""What executors are to do with the rows of a stage's batch, results of windows included.

The reader sends each task its order along with the rows to read. The orders of a batch's rounds are
one: executors write a file an edge, whatever it holds.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import accumulate
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy import typing as npt

from flowcontrol.errors import RunError
from flowcontrol.layout.graph import JobEdge, JobVertex
from flowcontrol.layout.job import Job
from flowcontrol.layout.replay import RowKeys
from flowcontrol.ledger.exchange import OutputTable
from flowcontrol.live.folder import RunPaths
from flowcontrol.live.rows import GROUP_BYTES, ROUND, EdgeOrder, SubtaskOrder, write_rows
from flowcontrol.live.sink import staged_orders, staged_prefix
from flowcontrol.live.stage_rows import SubtaskRound, Take, WindowWork, writers_of
from flowcontrol.records import ROWS_OF_REQUESTS
from flowcontrol.results.windows import (
    EMITTED,
    Aggregated,
    declared,
    further_columns,
    late_name,
    table_name,
    window_table,
)
from flowcontrol.scenario.stage_models import Stage
from flowcontrol.trace.round_state import Result

# --- What a stage with windows sends on and writes: results, which the driver's rules have made.
#
# Keys and values of records are in their stamps, so the rules know a result whole. Tasks on
# executors take the rows that went into windows, count them, and say when the sources emitted
# them.


ROWS_OF_A_FILE = 1 << 20


def window_folder(plan: JobVertex) -> str:
    """Return the folder of the results of a stage's windows."""
    stated = plan.stage.output
    return table_name(plan.name) if stated is None else stated.path


def _whole(table: Path, number: int, done: SubtaskRound, rows: npt.NDArray[np.int64]) -> EdgeOrder:
    """Order rows into one file of a table; a round that is run again writes it again."""
    name = f"{done.plan.name}-{done.index}-{number}.parquet"
    return EdgeOrder(str(table), "", (0,), (0,), rows * 0, rows, ROWS_OF_A_FILE, name, True)


class WindowResults:
    """Writes what the windows of a stage put out.

    ``table``, ``late``: its results, and the rows that came too late for every window.
    """

    def __init__(
        self,
        job: Job,
        plan: JobVertex,
        paths: RunPaths,
        run_id: str,
        rows: RowKeys,
        taken: pa.Schema,
    ) -> None:
        window = job.scenario.window_of(plan.name)
        assert window is not None
        self._job, self._plan, self._keys = job, plan, rows
        folder = window_folder(plan)
        schema = declared(window, rows.columns_of(plan.name)).arrow_schema()
        self.table = OutputTable(paths.output(folder), schema, f"{run_id}/{plan.name}")
        place = paths.output(late_name(folder))
        self.late = OutputTable(place, taken, f"{run_id}/{plan.name}/late")

    def packed(
        self, number: int, done: SubtaskRound, orders: Sequence[EdgeOrder]
    ) -> list[dict[str, Any] | None]:
        """Write the files of a subtask's results in a round.

        ``orders``: where they go, by output edge and chained sink.

        Returns the file of each of them, and at last that of the table; None for no rows.
        """
        work = _work(done)
        if not work.results:
            return [None] * (len(orders) + 1)
        table = self._table(work.results)
        sent = table.drop_columns([EMITTED]).append_column(ROUND, pa.array(work.born, pa.int64()))
        every = np.arange(len(table), dtype=np.int64)
        place = _whole(self.table.path, number, done, every)
        return [*(write_rows(sent, order) for order in orders), write_rows(table, place)]

    def _table(self, results: Sequence[Result]) -> pa.Table:
        """Return results as rows of the table."""
        columns = np.array([(*own, *further) for *own, further in results], np.int64).T
        own = dict(zip(Result._fields[:-1], columns, strict=False))
        named = (own[name] for name in ("start", "end", "key", "records", "round"))
        first = Aggregated(*(own[name] for name in Aggregated._fields))
        values = (first, *further_columns(columns[len(own) :]))
        return window_table(self._job, self._plan.name, *named, values=values, rows=self._keys)


def _work(done: SubtaskRound) -> WindowWork:
    if done.window is None:
        raise RunError(f"stage {done.plan.name} has no window")
    return done.window


# --- What executors are to do with the rows of a stage's batch: worked out from its rules.


Ints = npt.NDArray[np.int64]


def answers(job: Job, stored: Sequence[Take]) -> pa.Table:
    """Return the columns of rows that a destination has stored, a row each."""
    each = np.array([(one.due, one.heard, one.attempts) for one in stored], np.int64).reshape(-1, 3)
    due, heard, attempts = np.repeat(each, [one.records for one in stored], axis=0).T
    due_s, heard_s = ((rounds + 1) * (job.round_us / 1e6) for rounds in (due, heard))
    columns = [pa.array(due_s), pa.array(heard_s, mask=heard < 0), pa.array(attempts)]
    return pa.table(columns, ROWS_OF_REQUESTS.arrow_schema())


class StageOrders:
    """The orders of one stage."""

    def __init__(self, job: Job, plan: JobVertex, paths: RunPaths, run_id: str) -> None:
        self._job, self._plan, self._paths = job, plan, paths
        self._run_id = run_id

    def order(self, number: int, done: SubtaskRound) -> SubtaskOrder:
        """Return the order of a subtask, which has run a round, in a batch that ends with one."""
        plan = self._plan
        if plan.stage.window is not None:
            table = self._paths.output(late_name(window_folder(plan)))
            late = np.array([taken - done.first - 1 for taken in _work(done).late], np.int64)
            return SubtaskOrder(done.records, (_whole(table, number, done, late),))
        return SubtaskOrder(done.records, tuple(self.ways(number, done)))

    def ways(self, number: int, done: SubtaskRound) -> Iterator[EdgeOrder]:
        """Yield where the rows of a subtask go: over each edge, and into the table of each sink."""
        for place, link in enumerate(self._plan.outputs):
            yield self._edge(number, done, place, link)
        for member, parents in zip(writers_of(self._plan), done.sinks, strict=True):
            yield from self._table(number, done, member.stage, parents)

    def _table(
        self, number: int, done: SubtaskRound, sink: Stage, parents: Ints
    ) -> Iterator[EdgeOrder]:
        assert sink.output is not None
        table = self._paths.output(sink.output.path)
        beside = None if sink.requests is None else answers(self._job, done.answered or ())
        if sink.guarantee == "exactly-once":
            prefix = staged_prefix(self._run_id, sink.name)
            yield from staged_orders(table, prefix, number, done, parents, beside)
            return
        yield EdgeOrder(
            root=str(table),
            folder="",
            receivers=(done.index,),
            first=(done.first,),
            routes=parents * 0,
            parents=parents,
            group_rows=ROWS_OF_A_FILE,
            is_table=True,
            is_most_once=sink.guarantee == "at-most-once",
            beside=beside,
        )

    def _edge(self, number: int, done: SubtaskRound, place: int, link: JobEdge) -> EdgeOrder:
        """Return how the rows of a subtask go out over an edge."""
        own = done.edges[place]
        return EdgeOrder(
            root=str(self._paths.exchange(link)),
            folder=f"batch_id={number}/sender={done.index}",
            receivers=tuple(channel.receiver for channel in link.outgoing(done.index)),
            first=own.first,
            routes=own.routes,
            parents=own.parents,
            group_rows=max(1, GROUP_BYTES // link.record_bytes),
        )


def joined(orders: Sequence[SubtaskOrder]) -> SubtaskOrder:
    """Return the order of all rows of a subtask in a batch.

    ``orders``: those of its rounds, in order, at least one.

    Returns their rows one after the other; on each channel, their records likewise.
    """
    first, *others = orders
    if not others:
        return first
    rows = [order.rows for order in orders]
    edges = tuple(
        _joined(rows, [order.edges[place] for order in orders]) for place in range(len(first.edges))
    )
    return replace(first, rows=sum(rows), edges=edges)


def _joined(rows: Sequence[int], edges: Sequence[EdgeOrder]) -> EdgeOrder:
    """Return the order of an edge; ``rows`` are taken up in each round."""
    before = accumulate(rows[:-1], initial=0)
    parents = [edge.parents + count for edge, count in zip(edges, before, strict=True)]
    return replace(
        edges[0],
        routes=np.concatenate([edge.routes for edge in edges]),
        parents=np.concatenate(parents),
        beside=None if edges[0].beside is None else pa.concat_tables(edge.beside for edge in edges),
    )
