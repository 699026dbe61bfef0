"""What a batch puts out at its end, one group at a time, and what it evicts.

:func:`begin_answer` begins, :func:`next_answer` goes on until it returns 0. All that is left to do
is in the state, so anything may pass between two groups but a row of the next batch.
"""

from flowcontrol.protocol.spark_time.states import TaskBatch
from flowcontrol.protocol.spark_time.watermarks import APPEND, COMPLETE, UPDATE, is_over
from flowcontrol.protocol.windows.entries import remove
from flowcontrol.protocol.windows.firing import RESTING, put_out
from flowcontrol.protocol.windows.states import Windows, WindowStore
from flowcontrol.protocol.windows.timers import schedule

CHANGED = 4
"""Phase: what the batch has changed goes out."""
ALL = 5
"""Phase: everything goes out."""
EVICTING = 6
"""Phase: what is over leaves; in append mode it goes out."""


def begin_answer(store: WindowStore, batch: TaskBatch, watermark: int) -> None:
    """End a batch: have what its output mode asks for go out.

    Parameters
    ----------
    store : WindowStore
        Of the groups.
    batch : TaskBatch
        The batch.
    watermark : int
        Its own, ms, by which it evicts; the next batch drops late rows by it.
    """
    store.watermark = watermark
    batch.rows = 0
    batch.cursor = 0
    store.phase = EVICTING
    if batch.mode == UPDATE:
        store.phase = CHANGED
    elif batch.mode == COMPLETE:
        store.phase = ALL


def next_answer(windows: Windows, batch: TaskBatch) -> int:
    """Go on until a group goes out: 1, and the store has it; 0: nothing is left to do."""
    store = windows.store
    if store.phase == CHANGED and _next_changed(windows) == 1:
        return 1
    if store.phase == ALL and _next_of_all(windows, batch) == 1:
        return 1
    if store.phase == EVICTING and _evict(windows, batch) == 1:
        return 1
    return 0


# ---- what these are made of


def _next_changed(windows: Windows) -> int:
    """Put out the first group that the batch has changed: 0 if there is none left."""
    heap = windows.clock_heap
    if heap[0] == 0:
        windows.store.phase = EVICTING
        return 0
    place = heap[1]
    windows.entries[place - 1].clock_timers = 0
    schedule(windows, place)
    put_out(windows, place)
    return 1


def _next_of_all(windows: Windows, batch: TaskBatch) -> int:
    """Put out the next group of all: 0 if there is none left.

    An entry that is free or has a late group holds no rows.
    """
    while batch.cursor < windows.store.used:
        batch.cursor += 1
        if windows.entries[batch.cursor - 1].count > 0:
            put_out(windows, batch.cursor)
            return 1
    windows.store.phase = EVICTING
    return 0


def _evict(windows: Windows, batch: TaskBatch) -> int:
    """Remove what is over, up to a group that goes out: 0 if none does.

    In complete mode only late groups are in the heap.
    """
    store, heap = windows.store, windows.event_heap
    while heap[0] > 0:
        place = heap[1]
        entry = windows.entries[place - 1]
        if is_over(entry.end, store.watermark) == 0:
            break
        is_late = 1 if entry.key < 0 else 0
        batch.late -= is_late
        goes_out = 1 if batch.mode == APPEND and is_late == 0 else 0
        if goes_out == 1:
            put_out(windows, place)
        remove(windows, place)
        if goes_out == 1:
            return 1
    store.phase = RESTING
    return 0
