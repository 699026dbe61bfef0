"""The log of the results of windows, emptied as it fills."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from flowcontrol.job.job import Job
from flowcontrol.job.row_keys import NO_KEYS, RowKeys
from flowcontrol.job.time_table import WINDOW_COLUMNS
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
from flowcontrol.virtual.fields import ABSENT
from flowcontrol.virtual.memory import Memory
from flowcontrol.virtual.window_fields import KernelResult, KernelWindow

if TYPE_CHECKING:
    import pyarrow as pa

_LEVELS = [WINDOW_COLUMNS.index(name) for name in ("open_windows", "window_state_bytes")]
"""Columns that are levels; the others count."""


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


class WindowsHeld:
    """Reads what the table ``time`` has of windows.

    Parameters
    ----------
    memory : Memory
        Of a run, before the first round.
    """

    def __init__(self, memory: Memory) -> None:
        self._memory = memory
        self._carried: Any = np.zeros_like(self._held())

    def read(self) -> Any:
        """Return a row a task, 0 of one without windows, and no windows of one that is stopped."""
        found = self._held() + self._carried
        tasks = self._memory.tasks
        found[np.ix_(tasks["status"][tasks["time"] > 0] == ABSENT, _LEVELS)] = 0
        return found

    def hold(self) -> Callable[[], None]:
        """Return what is to be called when tasks have begun anew: counters of results go on."""
        before = self._held()

        def go_on() -> None:
            gone = before - self._held()
            gone[:, _LEVELS] = 0
            self._carried += gone

        return go_on

    def _held(self) -> Any:
        tasks = self._memory.tasks[self._memory.tasks["time"] > 0]
        found = np.zeros((len(tasks), len(WINDOW_COLUMNS)), np.int64)
        has_window = tasks["window"] > 0
        held = self._memory.states(tasks["window"][has_window], KernelWindow)
        store, own = held["store"], held["own"]
        kept = store["open"] - own["batch"]["late"]
        found[has_window] = np.column_stack(
            [store["late"], kept, kept * own["bytes_per_key"], store["fired"]]
        )
        return found


def results_by_task(found: Any) -> dict[int, tuple[Result, ...]]:
    """Return results by number of the task, with room for the columns of any."""
    own: dict[int, list[Result]] = {}
    rows = found[list(columns(KernelResult))].tolist()
    for (task, *values), further in zip(rows, found[FURTHER].tolist(), strict=True):
        own.setdefault(task, []).append(Result(*values)._replace(further=tuple(further)))
    return {task: tuple(results) for task, results in own.items()}
