"""The state of tasks at their checkpoints, and the losses with tasks that fail.

A cut of a task has the counters that mean something beyond an attempt: how far a source is, what
its operators remember, how many records went to each channel. Buffers, credit and barriers are not
part of it: channels begin anew. What was in flight follows: written by the sender before its
barrier, less what the receiver had processed at its own.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from flowcontrol.kernel.ages import push_mark, push_run
from flowcontrol.kernel.machines import CONNECTION_CELLS, tcp_connection
from flowcontrol.kernel.views import kernel_window, out_row, task_row, wake, windows_of
from flowcontrol.memory import fields as f
from flowcontrol.memory.memory import Memory
from flowcontrol.memory.places import Ints
from flowcontrol.protocol.event_time import mark_bytes
from flowcontrol.protocol.windows.firing import ENTRY, FURTHER, put_entries
from flowcontrol.state.declared import cell, width
from flowcontrol.state.tasks import MIN_TIME
from flowcontrol.state.windows import ColumnValues
from flowcontrol.systems.tcp import NOBODY, TcpConnection, TcpMessage

# --- What tasks held when they took their checkpoints: the state from which an attempt begins.


class Cuts:
    """The cuts of all tasks by checkpoint: the cells that each has kept.

    A task that had finished before a checkpoint took no part in it: its last state counts.
    """

    def __init__(self) -> None:
        self._taken: dict[int, dict[int, Ints]] = {}
        self._finished: dict[int, Ints] = {}

    def note(self, checkpoint: int, task: int, cut: Ints) -> None:
        """Keep what a task held when it took a checkpoint."""
        self._taken.setdefault(checkpoint, {})[task] = cut

    def finish(self, task: int, cut: Ints) -> None:
        """Keep what a task held when it finished."""
        self._finished[task] = cut

    def of(self, checkpoint: int, task: int) -> Ints | None:
        """Return what a task restores from a completed checkpoint; None: it begins anew."""
        if checkpoint < 0:
            return None
        taken = self._taken.setdefault(checkpoint, {})
        if task not in taken and task in self._finished:
            taken[task] = self._finished[task]  # a later attempt may finish elsewhere
        return taken.get(task)

    def has(self, checkpoint: int, task: int) -> bool:
        """Tell whether it is known what a task held when it took a checkpoint."""
        return task in self._taken.get(checkpoint, {})

    def forget(self, before: int) -> None:
        """Forget the checkpoints with ids below ``before``."""
        for checkpoint in [one for one in self._taken if one < before]:
            del self._taken[checkpoint]

    def forget_finished(self, tasks: Iterable[int]) -> None:
        """Forget that tasks have finished: they were restarted."""
        for task in tasks:
            self._finished.pop(task, None)


# --- What checkpoints of a job with event time hold besides counts: taken from logs, and put back


class CutLogs:
    """The elements in flight and the windows of the checkpoints that may still be restored.

    ``memory``: of a run, before the first round.
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
        """Put what was in flight into a channel that begins anew."""
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


# --- What connections without credits carry to and from tasks that fail


def lose_messages(memory: Memory, tasks: list[int]) -> None:
    """Have nobody take what is under way to tasks, or from tasks, that fail.

    A connection of which all channels are gone is closed, and made anew. Another one goes on, and
    its receiver drops what comes for a channel that is not there any more.

    ``memory``: between two rounds.
    """
    head, outs = memory.head, memory.outs
    gone = np.isin(outs["sender"], tasks) | np.isin(outs["receiver"], tasks)
    for number in np.flatnonzero(memory.tasks["kind"] == f.CONNECTION).tolist():
        row = memory.tasks[number]
        at, own = int(row["phases"]), gone[outs["connection"] == number]
        wire = tcp_connection(head, at)
        if own.all():
            first = at + cell(TcpConnection, "kernel_bytes") + 1
            memory.cells[first : at + width(TcpConnection)] = 0
            wire.is_writable = wire.auto_read = 1
        elif own.any():
            ring = memory.table(at + CONNECTION_CELLS, int(row["phase_count"]), TcpMessage)
            for place in range(wire.delivered, wire.written):
                message = ring[place % len(ring)]
                if message["channel"] != NOBODY and gone[message["channel"]]:
                    message["channel"] = NOBODY
            wake(head, number, head.round)
