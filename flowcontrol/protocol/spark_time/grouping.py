"""Rows of a batch into the groups of an aggregation, one by one.

Groups are entries of a table of windows (:mod:`flowcontrol.protocol.windows.entries`). Those with
a watermark are in its heap of event time, from which the answer takes what is over. In update mode
those that the batch has changed are in the heap of the clock, which Spark's windows do not follow.
A group that comes too late has an entry too until the batch ends, under a number below 0, as it
counts once however many rows it has.

Source: Spark 4.2's ``StateStoreSaveExec`` and ``SessionWindowStateStoreRestoreExec``; section 7 of
checkpoints-and-time.
"""

from collections.abc import Sequence

from flowcontrol.protocol.event_time.bounds import earlier, later
from flowcontrol.protocol.spark_time.states import TaskBatch
from flowcontrol.protocol.spark_time.watermarks import (
    UPDATE,
    WatermarkOperator,
    drops_late,
    evicts,
    is_over,
    observe,
)
from flowcontrol.protocol.windows.assigners import SESSIONS, is_in_pane, start_of
from flowcontrol.protocol.windows.contents import NO_VALUE, put_in
from flowcontrol.protocol.windows.entries import add, find
from flowcontrol.protocol.windows.firing import FULL, TAKEN
from flowcontrol.protocol.windows.further import put_further_in
from flowcontrol.protocol.windows.sessions import join
from flowcontrol.protocol.windows.states import NONE, Windows
from flowcontrol.protocol.windows.timers import END, schedule


def take_row(
    windows: Windows,
    batch: TaskBatch,
    operators: Sequence[WatermarkOperator],
    number: int,
    key: int,
    ms: int,
    value: int,
) -> int:
    """Take a row up: the ``withWatermark`` of its input sees it, and it goes into its groups.

    Parameters
    ----------
    windows : Windows
        The groups.
    batch : TaskBatch
        The batch that takes it up.
    operators : sequence of WatermarkOperator
        One of each input.
    number : int
        Which input it comes from.
    key : int
        Of the row, from 0.
    ms : int
        Its event time.
    value : int
        What is aggregated; NO_VALUE: the row has none. Its values of further columns are those of
        ``store.element_id``.

    Returns
    -------
    int
        TAKEN, also if all its groups are late; FULL: nothing has changed, for they may not find
        room.
    """
    settings, store = windows.settings, windows.store
    if store.open + settings.overlap > len(windows.entries):
        return FULL
    batch.rows += 1
    if batch.has_watermark == 1:
        observe(operators[number], ms)
    if settings.kind == SESSIONS:
        if settings.gap > 0:
            mark = -1 - (key * len(operators) + number)
            _put(windows, batch, key, mark, ms, later(ms, settings.gap), value)
        return TAKEN
    start = start_of(ms, settings.offset, settings.slide)
    while is_in_pane(settings, ms, start) == 1:
        _put(windows, batch, key, -1 - key, start, later(start, settings.size), value)
        following = earlier(start, settings.slide)
        if following == start:  # the beginning of time
            break
        start = following
    return TAKEN


def _put(
    windows: Windows, batch: TaskBatch, key: int, mark: int, start: int, end: int, value: int
) -> None:
    """Put a row into one of its groups, or count that as late; ``mark`` is the number of such."""
    is_session = 1 if windows.settings.kind == SESSIONS else 0
    may_drop = batch.has_watermark * drops_late(batch.mode, is_session)
    if may_drop == 1 and is_over(end, windows.store.watermark) == 1:
        _drop(windows, batch, mark, start, end)
        return
    place = join(windows, key, start, end) if is_session == 1 else find(windows, key, start)
    if place == NONE:
        place = add(windows, key, start, end)
    entry = windows.entries[place - 1]
    put_in(entry, value, 0 if value == NO_VALUE else 1)
    put_further_in(windows, place)
    if batch.has_watermark == 1 and evicts(batch.mode) == 1:
        entry.event_timers = END
    if batch.mode == UPDATE:
        entry.clock_timers = END
    schedule(windows, place)


def _drop(windows: Windows, batch: TaskBatch, mark: int, start: int, end: int) -> None:
    """Count a group that comes too late, once a batch.

    Notes
    -----
    Spark drops behind the partial aggregation: rows of a window and key are one group there; of
    sessions, those of one input, key and time.
    """
    if find(windows, mark, start) != NONE:
        return
    place = add(windows, mark, start, end)
    windows.entries[place - 1].event_timers = END
    schedule(windows, place)
    batch.late += 1
    windows.store.late += 1
