"""What the kernel logs of windows: their results, and those that a checkpoint holds."""

from typing import Any

from flowcontrol.protocol.state import width
from flowcontrol.protocol.windows.entries import find
from flowcontrol.protocol.windows.states import NONE, ColumnValues, WindowEntry
from flowcontrol.virtual.cells import state_of
from flowcontrol.virtual.cut_log_fields import KeptWindow
from flowcontrol.virtual.header import FLAG_KEPT_WINDOWS, FLAG_RESULTS, KernelMemory
from flowcontrol.virtual.journal import FIRED, note_move
from flowcontrol.virtual.parts import WINDOWS
from flowcontrol.virtual.registry import part_of
from flowcontrol.virtual.task_views import kernel_window
from flowcontrol.virtual.window_fields import KernelResult, KernelWindow

kernel_result = state_of(KernelResult)
kept_window = state_of(KeptWindow)

RESULT_CELLS = width(KernelResult)
VALUES_CELLS = width(ColumnValues)
KEPT_WINDOW_CELLS = width(KeptWindow)
ENTRY_CELLS = width(WindowEntry)
ENTRY_AT = KEPT_WINDOW_CELLS - ENTRY_CELLS
"""Where the window is in an entry of the log: behind all else but its further columns."""


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
