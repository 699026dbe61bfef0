"""The log of the results of windows, emptied as it fills."""

from __future__ import annotations

from typing import Any

import numpy as np

from flowcontrol.arrays import pa
from flowcontrol.job.job import Job
from flowcontrol.job.row_keys import NO_KEYS, RowKeys
from flowcontrol.job.window_state import Result
from flowcontrol.job.window_table import (
    Aggregated,
    further_columns,
    table_name,
    window_stages,
    window_table,
)
from flowcontrol.protocol.state import columns
from flowcontrol.protocol.windows.keeping import FURTHER
from flowcontrol.virtual.memory import Memory
from flowcontrol.virtual.window_fields import KernelResult


class WindowResults:
    """Collects what windows put out.

    Parameters
    ----------
    memory : Memory
        Of a run.
    """

    def __init__(self, memory: Memory) -> None:
        self._memory = memory
        self._parts: list[Any] = []

    def drain(self) -> None:
        """Empty the log, keeping what it says."""
        head = self._memory.head
        if head.results_count > 0:
            self._parts.append(self._memory.results[: head.results_count].copy())
            head.results_count = 0

    def take(self) -> Any:
        """Return all results since they were taken before, in order, as a structured array."""
        self.drain()
        found, self._parts = np.concatenate([self._memory.results[:0], *self._parts]), []
        return found

    def tables(self, job: Job, rows: RowKeys = NO_KEYS) -> dict[str, pa.Table]:
        """Return the results since they were taken before as tables, one a stage with windows.

        Parameters
        ----------
        job : Job
            The scenario, laid out.
        rows : RowKeys, optional
            Which keys and values replayed rows have; by default there are none.
        """
        stages, found = window_stages(job), dict[str, "pa.Table"]()
        if not stages:
            return found
        log = self.take()
        for stage in stages:
            first, count = self._memory.places.tasks[stage], job.stage(stage).stage.parallelism
            own = log[(log["task"] >= first) & (log["task"] < first + count)]
            named = (own[name] for name in ("start", "end", "key", "count", "round"))
            of_first = Aggregated(*(own[name] for name in Aggregated._fields))
            values = (of_first, *further_columns(own[FURTHER].T))
            found[table_name(stage)] = window_table(job, stage, *named, values=values, rows=rows)
        return found


def results_by_task(found: Any) -> dict[int, tuple[Result, ...]]:
    """Return results by number of the task, with room for the columns of any."""
    own: dict[int, list[Result]] = {}
    rows = found[list(columns(KernelResult))].tolist()
    for (task, *values), further in zip(rows, found[FURTHER].tolist(), strict=True):
        own.setdefault(task, []).append(Result(*values)._replace(further=tuple(further)))
    return {task: tuple(results) for task, results in own.items()}
