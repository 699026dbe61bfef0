"""The log of the results of windows, emptied as it fills."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from flowcontrol.job.job import Job
from flowcontrol.job.row_keys import NO_KEYS, RowKeys
from flowcontrol.job.time_table import WINDOW_COLUMNS
from flowcontrol.job.window_table import Aggregated, table_name, window_stages, window_table
from flowcontrol.job.windowed_task import Result
from flowcontrol.virtual.cells import dtype
from flowcontrol.virtual.memory import Memory
from flowcontrol.virtual.window_fields import KernelResult, KernelWindow

if TYPE_CHECKING:
    import pyarrow as pa

_EMPTY = np.zeros(0, dtype(KernelResult))


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
        found, self._parts = np.concatenate([_EMPTY, *self._parts]), []
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
            columns = (own[name] for name in ("start", "end", "key", "count", "round"))
            values = Aggregated(*(own[name] for name in ("valued", "sum", "min", "max")))
            found[table_name(stage)] = window_table(job, stage, *columns, values=values, rows=rows)
        return found


def windows_held(memory: Memory) -> Any:
    """Return what the table ``time`` has of windows: a row a task, 0 of one without windows."""
    tasks = memory.tasks[memory.tasks["time"] > 0]
    found = np.zeros((len(tasks), len(WINDOW_COLUMNS)), np.int64)
    has_window = tasks["window"] > 0
    held = memory.states(tasks["window"][has_window], KernelWindow)
    store, own = held["store"], held["own"]
    found[has_window] = np.column_stack(
        [store["late"], store["open"], store["open"] * own["bytes_per_key"], store["fired"]]
    )
    return found


def results_by_task(found: Any) -> dict[int, tuple[Result, ...]]:
    """Return results by number of the task."""
    own: dict[int, list[Result]] = {}
    for task, *values in found.tolist():
        own.setdefault(task, []).append(Result(*values))
    return {task: tuple(results) for task, results in own.items()}
