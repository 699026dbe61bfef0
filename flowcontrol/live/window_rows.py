"""What a stage with windows sends on and writes: results, which the driver's rules have made.

Keys and values of records are in their stamps, so the rules know a result whole. Tasks on executors
take the rows that went into windows, count them, and say when the sources emitted them.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from flowcontrol.errors import RunError
from flowcontrol.job import Job, JobVertex
from flowcontrol.job.row_keys import RowKeys
from flowcontrol.job.window_state import Result
from flowcontrol.job.window_table import (
    EMITTED,
    Aggregated,
    declared,
    further_columns,
    late_name,
    table_name,
    window_table,
)
from flowcontrol.ledger.exchange import OutputTable
from flowcontrol.live.folder import RunPaths
from flowcontrol.live.pack import EdgeOrder, SubtaskOrder, write_rows
from flowcontrol.live.take import ROUND
from flowcontrol.live.work import SubtaskRound, WindowWork

ROWS_OF_A_FILE = 1 << 20


def window_folder(plan: JobVertex) -> str:
    """Return the folder of the results of a stage's windows."""
    stated = plan.stage.output
    return table_name(plan.name) if stated is None else stated.path


def window_order(late: Path, number: int, done: SubtaskRound) -> SubtaskOrder:
    """Return what an executor does with the rows that a subtask with windows took up in a round.

    Parameters
    ----------
    late : Path
        Table of the rows that come too late.
    number : int
        The round.
    done : SubtaskRound
        What the subtask did in it.
    """
    work = _work(done)
    found = np.array([taken - done.first - 1 for taken in work.late], np.int64)
    return SubtaskOrder(done.records, (_whole(late, number, done, found),))


def _whole(table: Path, number: int, done: SubtaskRound, rows: npt.NDArray[np.int64]) -> EdgeOrder:
    """Order rows into one file of a table; a round that is run again writes it again."""
    name = f"{done.plan.name}-{done.index}-{number}.parquet"
    return EdgeOrder(str(table), "", (0,), (0,), rows * 0, rows, ROWS_OF_A_FILE, name, True)


class WindowResults:
    """Writes what the windows of a stage put out.

    Parameters
    ----------
    job : Job
        The scenario, laid out.
    plan : JobVertex
        A stage with a window.
    paths : RunPaths
        The run's folder.
    run_id : str
        Makes the application id unique to this run.
    rows : RowKeys
        Which keys and values replayed rows have.
    taken : pyarrow.Schema
        Columns of the rows that it takes up.

    Attributes
    ----------
    table, late : OutputTable
        Its results, and the rows that came too late for every window.
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

        Parameters
        ----------
        number : int
            The round.
        done : SubtaskRound
            What the subtask did in it.
        orders : sequence of EdgeOrder
            Where they go, by output edge and chained sink.

        Returns
        -------
        list of (dict or None)
            The file of each of them, and at last that of the table; None for no rows.
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
