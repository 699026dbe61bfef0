"""The log of the results of windows, emptied as it fills."""

from typing import Any

import numpy as np

from flowcontrol.job.time_table import WINDOW_COLUMNS
from flowcontrol.job.windowed_task import Result
from flowcontrol.virtual.cells import dtype
from flowcontrol.virtual.memory import Memory
from flowcontrol.virtual.window_fields import KernelResult, KernelWindow

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
