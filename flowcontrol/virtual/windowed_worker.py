"""A subtask of the kernel, as :mod:`flowcontrol.operators.windowing` sees it."""

from collections.abc import Sequence
from typing import Any

from flowcontrol.operators.window_states import WindowTask
from flowcontrol.operators.windowing import (
    NEVER_MS,
    fire_next,
    hear_valve,
    look_at_clock,
    may_end_batches,
    next_timer_ms,
    take_element,
)
from flowcontrol.protocol.event_time.stamps import id_of
from flowcontrol.protocol.spark_time.watermarks import WatermarkOperator
from flowcontrol.protocol.state import width
from flowcontrol.protocol.windows.entries import find
from flowcontrol.protocol.windows.keys import key_of
from flowcontrol.protocol.windows.states import NONE, ColumnValues, WindowEntry, Windows
from flowcontrol.virtual.cells import row, rows_of, state_of
from flowcontrol.virtual.cut_log_fields import KeptWindow
from flowcontrol.virtual.fields import KernelPartition
from flowcontrol.virtual.header import FLAG_KEPT_WINDOWS, FLAG_RESULTS, FLAG_WINDOWS, KernelMemory
from flowcontrol.virtual.journal import FIRED, LATE, note_move
from flowcontrol.virtual.parts import JOURNAL, WINDOWS
from flowcontrol.virtual.registry import part_of
from flowcontrol.virtual.timed_worker import TimedKernelWorker
from flowcontrol.virtual.wheel import wake
from flowcontrol.virtual.window_fields import KernelKeys, KernelResult, KernelWindow

kernel_window = state_of(KernelWindow)
kernel_keys = state_of(KernelKeys)
key_rows = rows_of(KernelKeys)
window_entries = rows_of(WindowEntry)
column_values = rows_of(ColumnValues)
kernel_result = state_of(KernelResult)
watermark_operators = rows_of(WatermarkOperator)
kept_window = state_of(KeptWindow)

RESULT_CELLS = width(KernelResult)
VALUES_CELLS = width(ColumnValues)
KEPT_WINDOW_CELLS = width(KeptWindow)
ENTRY_CELLS = width(WindowEntry)
ENTRY_AT = KEPT_WINDOW_CELLS - ENTRY_CELLS
"""Where the window is in an entry of the log: behind all else but its further columns."""


class WindowedKernelWorker(TimedKernelWorker):
    """What a task holds of windows; a base of a task of the kernel: a ``WindowedWorker``."""

    def window_task(self) -> WindowTask:
        """Return what it holds of its windows besides them."""
        return kernel_window(self.m, self.task.window).own

    def windows(self) -> Windows:
        """Return its windows."""
        return windows_of(self.m, kernel_window(self.m, self.task.window))

    def watermark_operators(self) -> Sequence[WatermarkOperator]:
        """Return what it has seen of each of its inputs."""
        held = kernel_window(self.m, self.task.window)
        return watermark_operators(self.m, held.operators, held.operator_count)

    def first_ids(self, gate: int) -> Any:
        """Return the first id of each key of the records of a gate."""
        held = kernel_window(self.m, self.task.window)
        keys = key_rows(self.m, held.keys, self.task.gates)[gate]
        return row(self.m, keys.firsts, keys.first_count)

    def keys_of_ids(self, gate: int) -> Any:
        """Return the key of each id of the records of a gate; empty: they are made."""
        held = kernel_window(self.m, self.task.window)
        keys = key_rows(self.m, held.keys, self.task.gates)[gate]
        return row(self.m, keys.numbers, keys.number_count)

    def values_of_ids(self) -> Any:
        """Return the value of each id in the first column; empty: records are counted alone."""
        held = kernel_window(self.m, self.task.window)
        return row(self.m, held.values, held.value_count)

    def make_room(self) -> None:
        """Have the run begin again with room for more windows."""
        self.m.flags |= FLAG_WINDOWS

    def note_result(self) -> None:
        """Log the result that the windows' store has."""
        log_result(self.m, self)

    def take_element(self, may_write: int) -> None:
        """Put the record that has been taken up into its windows, and put out what that causes."""
        take_into_windows(self.m, self, may_write)

    def fire_next(self, may_write: int) -> int:
        """Go on with a burst of results: 0 if it is over."""
        return go_on_firing(self.m, self, may_write)

    def hear_valve(self, done: int) -> None:
        """Take what the valve has given out."""
        hear_watermark(self.m, self, done)


def windows_of(m: KernelMemory, held: KernelWindow) -> Windows:
    """Return windows as the rules see them."""
    return Windows(
        held.settings,
        held.store,
        window_entries(m, held.entries, held.capacity),
        row(m, held.buckets, held.bucket_count),
        row(m, held.event_heap, held.capacity + 1),
        row(m, held.clock_heap, held.capacity + 1),
        column_values(m, held.further, (held.capacity + 1) * held.settings.further),
        row(m, held.table, held.table_count),
    )


@part_of(WINDOWS)
def take_into_windows(m: KernelMemory, worker: Any, may_write: int) -> None:
    """Put the record that a task has taken up into its windows."""
    late = late_so_far(m, worker)
    take_element(worker, worker.task, may_write)
    if late_so_far(m, worker) > late:
        note_move(m, worker.number, LATE, 0, 0, worker.task.taken)


@part_of(JOURNAL)
def late_so_far(m: KernelMemory, worker: Any) -> int:
    """Return how many records came too late for every window."""
    return kernel_window(m, worker.task.window).store.late


@part_of(WINDOWS)
def go_on_firing(m: KernelMemory, worker: Any, may_write: int) -> int:
    """Have a task go on with a burst: 0 if it is over."""
    return fire_next(worker, worker.task, may_write)


@part_of(WINDOWS)
def hear_watermark(m: KernelMemory, worker: Any, done: int) -> None:
    """Have a task take what its valve has given out."""
    hear_valve(worker, worker.task, done)


@part_of(WINDOWS)
def look_at_timers(m: KernelMemory, worker: Any, start: int, end: int) -> None:
    """Have a task look at its timers of processing time."""
    look_at_clock(worker, worker.task, start, end)


@part_of(WINDOWS)
def waits_for_batches(m: KernelMemory, worker: Any) -> int:
    """Tell whether a task may not end yet, as batches have to answer what it took up: 1 if so."""
    return 1 - may_end_batches(worker.window_task(), worker.task)


@part_of(WINDOWS)
def plan_timers(m: KernelMemory, worker: Any) -> None:
    """Have a task looked at when its next timer of processing time is due."""
    task = worker.task
    due_ms = next_timer_ms(worker)
    if task.is_firing == 1 or task.open_inputs == 0 or due_ms >= NEVER_MS:
        return
    if due_ms < m.rounds * m.round_us // 1000 + 1:
        wake(m, worker.number, max(m.now + 1, (due_ms * 1000 + m.round_us - 1) // m.round_us))


@part_of(WINDOWS)
def log_result(m: KernelMemory, worker: Any) -> None:
    """Log the newest result of a task."""
    number = m.results_count
    if number == m.results_most:
        m.flags |= FLAG_RESULTS
        return
    held = kernel_window(m, worker.task.window)
    store, at = held.store, m.results + number * (RESULT_CELLS + m.further * VALUES_CELLS)
    entry = kernel_result(m, at)
    entry.task = worker.number
    entry.key = store.result_key
    entry.start = store.result_start
    entry.end = store.result_end
    entry.count = store.result_count
    entry.valued = store.result_valued
    entry.sum = store.result_sum
    entry.min = store.result_min
    entry.max = store.result_max
    entry.wraps = store.result_wraps
    entry.round = m.now
    copy_further(m, held, NONE, at + RESULT_CELLS)
    m.results_count = number + 1
    note_move(m, worker.number, FIRED, worker.task.emitted, 0, worker.task.taken)


@part_of(WINDOWS)
def copy_further(m: KernelMemory, held: KernelWindow, place: int, to: int) -> None:
    """Copy what a window, or the newest result, has of further columns into a log."""
    cells = held.settings.further * VALUES_CELLS
    for i in range(cells):
        m[to + i] = m[held.further + place * cells + i]


@part_of(WINDOWS)
def log_windows(m: KernelMemory, worker: Any, checkpoint: int) -> None:
    """Log the open windows of a task that takes a checkpoint, of a job that may fail."""
    if worker.task.has_window == 0:
        return
    held, windows = kernel_window(m, worker.task.window), worker.windows()
    for place in range(1, held.store.used + 1):
        entry = windows.entries[place - 1]
        if find(windows, entry.key, entry.start) != place:
            continue  # it is free
        number = m.kept_windows_count
        if number == m.kept_windows_most:
            m.flags |= FLAG_KEPT_WINDOWS
            return
        at = m.kept_windows + number * (KEPT_WINDOW_CELLS + m.further * VALUES_CELLS)
        kept = kept_window(m, at)
        kept.task = worker.number
        kept.checkpoint = checkpoint
        for i in range(ENTRY_CELLS):
            m[at + ENTRY_AT + i] = m[held.entries + (place - 1) * ENTRY_CELLS + i]
        copy_further(m, held, place, at + KEPT_WINDOW_CELLS)
        m.kept_windows_count = number + 1


@part_of(WINDOWS)
def channel_of_stamp(m: KernelMemory, writer: KernelPartition, stamp: int) -> int:
    """Return the channel of a record that is routed by its key."""
    keys = kernel_keys(m, writer.keys)
    return m[keys.owners + key_of(id_of(stamp), keys.keys, row(m, keys.firsts, keys.first_count))]
