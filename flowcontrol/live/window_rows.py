"""What a stage with windows sends on and writes: results, which the driver's rules have made.

Keys and values of records are in their stamps, so the rules know a result whole. Tasks on executors
take the rows that went into windows, count them, and say when the sources emitted them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from flowcontrol.errors import RunError
from flowcontrol.job import Job, JobVertex, Subtask, Work
from flowcontrol.job.window_table import EMITTED, declared, table_name, window_table
from flowcontrol.job.windowed_task import Result, WindowRows
from flowcontrol.ledger.exchange import OutputTable
from flowcontrol.live.folder import RunPaths
from flowcontrol.live.pack import EdgeOrder, SubtaskOrder, write_rows
from flowcontrol.live.take import ROUND

ROWS_OF_A_FILE = 1 << 20


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

    Attributes
    ----------
    table : OutputTable
        Its results.
    """

    def __init__(self, job: Job, plan: JobVertex, paths: RunPaths, run_id: str) -> None:
        window = job.scenario.window_of(plan.name)
        assert window is not None
        self._job, self._plan = job, plan
        stated = plan.stage.output
        folder = paths.output(table_name(plan.name) if stated is None else stated.path)
        schema = declared(window).arrow_schema()
        self.table = OutputTable(folder, schema, f"{run_id}/{plan.name}")

    def order(self, subtask: Subtask, work: Work) -> SubtaskOrder:
        """Return what an executor does with the rows that a subtask took up."""
        asked = [number - work.first - 1 for number in _rows(subtask).sources]
        return SubtaskOrder(
            work.records, (), True, asks=tuple(i for i in (*asked, work.records - 1) if i >= 0)
        )

    def packed(
        self,
        number: int,
        subtask: Subtask,
        orders: Sequence[EdgeOrder],
        report: Mapping[str, Any] | None,
    ) -> list[dict[str, Any] | None]:
        """Write the files of a subtask's results in a round.

        Parameters
        ----------
        number : int
            The round.
        subtask : Subtask
            After it.
        orders : sequence of EdgeOrder
            Where they go, by output edge.
        report : mapping, optional
            What the executor says; None: the subtask took nothing up.

        Returns
        -------
        list of (dict or None)
            The file of each edge, and at last that of the table; None for no rows.
        """
        rows = _rows(subtask)
        asked = list([] if report is None else report["asked"])
        first = subtask.work.first
        born = [asked.pop(0) if taken > first else rows.born for taken in rows.sources]
        if asked:
            rows.born = asked.pop()
        if not rows.results:
            return [None] * (len(orders) + 1)
        table = self._table(rows.results)
        sent = table.drop_columns([EMITTED]).append_column(ROUND, pa.array(born, pa.int64()))
        every = np.arange(len(table), dtype=np.int64)
        own = f"{self._plan.name}-{subtask.index}-{number}.parquet"
        place = EdgeOrder(
            str(self.table.path), "", (0,), (0,), every * 0, every, ROWS_OF_A_FILE, own
        )
        return [*(write_rows(sent, order) for order in orders), write_rows(table, place)]

    def _table(self, results: Sequence[Result]) -> pa.Table:
        """Return results as rows of the table."""
        keys, starts, ends, counts, rounds = np.array(
            [(one.key, one.start, one.end, one.records, one.round) for one in results], np.int64
        ).T
        return window_table(self._job, self._plan.name, starts, ends, keys, counts, rounds)


def _rows(subtask: Subtask) -> WindowRows:
    if subtask.window is None:
        raise RunError(f"stage {subtask.plan.name} has no window")
    return subtask.window
