"""What checkpoints of a job with event time hold besides counts: taken from logs, and put back."""

from __future__ import annotations

from typing import Any

import numpy as np

from flowcontrol.protocol.event_time.bounds import MIN_TIME
from flowcontrol.protocol.event_time.marks import mark_bytes
from flowcontrol.protocol.state import width
from flowcontrol.protocol.windows.keeping import ENTRY, FURTHER, put_entries
from flowcontrol.protocol.windows.states import ColumnValues
from flowcontrol.virtual.ages import push_mark, push_run
from flowcontrol.virtual.memory import Memory
from flowcontrol.virtual.task_views import kernel_window, windows_of
from flowcontrol.virtual.views import out_row, task_row


class CutLogs:
    """The elements in flight and the windows of the checkpoints that may still be restored.

    Parameters
    ----------
    memory : Memory
        Of a run, before the first round.
    """

    def __init__(self, memory: Memory) -> None:
        self._memory = memory
        self._elements, self._windows = memory.kept[:0].copy(), memory.kept_windows[:0].copy()
        self._fresh: tuple[list[Any], list[Any]] = [], []

    def drain(self) -> None:
        """Empty the logs, keeping what they say."""
        memory, head = self._memory, self._memory.head
        if head.kept_count > 0:
            fresh = memory.kept[: head.kept_count].copy()
            self._elements, head.kept_count = np.concatenate([self._elements, fresh]), 0
            self._fresh[0].append(fresh)
        if head.kept_windows_count > 0:
            fresh = memory.kept_windows[: head.kept_windows_count].copy()
            self._windows, head.kept_windows_count = np.concatenate([self._windows, fresh]), 0
            self._fresh[1].append(fresh)

    def take_fresh(self) -> list[list[list[int]]]:
        """Return the cells of the elements and of the windows logged since they were taken last."""
        self.drain()
        found = [[row for part in parts for row in _cells_of(part)] for parts in self._fresh]
        self._fresh = [], []
        return found

    def put_back(self, elements: list[list[int]], windows: list[list[int]]) -> None:
        """Know what was logged before this process was there."""
        if elements:
            self._elements = np.concatenate([self._elements, _entries(elements, self._elements)])
        if windows:
            self._windows = np.concatenate([self._windows, _entries(windows, self._windows)])

    def forget(self, before: int) -> None:
        """Empty the logs, and forget the checkpoints with ids below ``before``."""
        self.drain()
        self._elements = self._elements[self._elements["checkpoint"] >= before]
        self._windows = self._windows[self._windows["checkpoint"] >= before]

    def put_windows(self, task: int, checkpoint: int) -> None:
        """Give a task that begins anew the windows of its cut; its watermark begins anew."""
        head = self._memory.head
        row = task_row(head, task)
        if row.window == 0:
            return
        log, windows = self._windows, windows_of(head, kernel_window(head, row.window))
        own = log[(log["task"] == task) & (log["checkpoint"] == checkpoint)]
        own = own[np.argsort(own["entry"]["order"])]
        further = own[FURTHER].reshape(len(own), head.further, width(ColumnValues))
        put_entries(
            windows,
            [
                {**{name: int(entry[name]) for name in ENTRY}, FURTHER: held}
                for entry, held in zip(
                    own["entry"], further[:, : windows.settings.further].tolist(), strict=True
                )
            ],
        )
        windows.store.watermark = MIN_TIME

    def put_elements(
        self, channel: int, checkpoint: int, counts: tuple[int, int], emitted: int
    ) -> int:
        """Put what was in flight into a channel that begins anew.

        Parameters
        ----------
        channel : int
            The channel.
        checkpoint : int
            The checkpoint that is restored.
        counts : (int, int)
            Records and marks that it holds in flight, which are the first ones of the log.
        emitted : int
            Round from which the age of the records counts.

        Returns
        -------
        int
            Bytes of the marks.
        """
        head: Any = self._memory.head
        (records, marks), nbytes = counts, 0
        if records + marks == 0:
            return 0
        runs, log = out_row(head, channel).runs, self._elements
        own = log[(log["channel"] == channel) & (log["checkpoint"] == checkpoint)]
        for _, _, count, stamp, kind in own.tolist():
            if records + marks == 0:
                break
            if kind > 0:
                marks -= 1
                nbytes += mark_bytes(kind)
                push_mark(head, runs, kind, stamp)
            else:
                part = min(count, records)
                records -= part
                push_run(head, runs, emitted, part, stamp)
        assert records == marks == 0, "the log has what the counts say"
        return nbytes


def _cells_of(entries: Any) -> list[list[int]]:
    cells: list[list[int]] = entries.view(np.int64).reshape(len(entries), -1).tolist()
    return cells


def _entries(cells: list[list[int]], like: Any) -> Any:
    return np.array(cells, np.int64).ravel().view(like.dtype)
