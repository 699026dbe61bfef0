"""Windows with Spark's time: one watermark per query, and results at the end of a batch."""

from collections.abc import Sequence
from dataclasses import dataclass

from flowcontrol.protocol.windows.contents import (
    NO_VALUE,
    SESSIONS,
    is_in_pane,
    put_further_in,
    put_in,
    start_of,
)
from flowcontrol.protocol.windows.firing import (
    FULL,
    RESTING,
    TAKEN,
    add,
    find,
    join,
    put_out,
    remove,
)
from flowcontrol.protocol.windows.triggers import END, schedule
from flowcontrol.state.tasks import TaskBatch, earlier, later
from flowcontrol.state.windows import NONE, Windows, WindowStore

# --- Rules of the watermark of a structured stream, each a function of integers.
#
# Times are whole milliseconds. Every `withWatermark` operator has a watermark of its own, the
# query has one: their minimum or maximum. It is worked out at the end of a batch and used
# from the next one on, so a batch knows two: its own and that of the batch before.
#
# Source: Spark 4.2's `WatermarkTracker`, `WatermarkPropagator` and `statefulOperators`;
# section 7 of checkpoints-and-time.


MINIMUM = 0
"""Policy: the slowest operator's watermark (``spark.sql.streaming.multipleWatermarkPolicy``)."""
MAXIMUM = 1
"""Policy: the fastest operator's watermark."""

APPEND = 0
"""Output mode: a group once, when its window is over."""
UPDATE = 1
"""Output mode: the groups that a batch changed."""
COMPLETE = 2
"""Output mode: all groups, in every batch."""


@dataclass(slots=True)
class WatermarkOperator:
    """A ``withWatermark`` operator (``EventTimeWatermarkExec``)."""

    delay: int = 0
    """What it stays behind the latest event time, ms; constant."""
    watermark: int = 0
    """Its own watermark, ms; 0 before it has seen a row."""


@dataclass(slots=True)
class QueryWatermark:
    """The watermark of a query, and what it was."""

    policy: int = MINIMUM
    """MINIMUM or MAXIMUM; constant."""
    current: int = 0
    """That of the batch that is next or running, ms."""
    used: int = 0
    """That of the last batch, ms; 0 before the first."""
    has_plan: int = 0
    """1: a batch has run since the query started; without one no batch without data follows."""


def observe(operator: WatermarkOperator, latest: int) -> None:
    """Take in the latest event time of a batch that has rows for this operator.

    Spark may keep a watermark below 0 here; the query's is never below 0, so 0 does as well.

    ``latest``: milliseconds. Late rows count too.
    """
    operator.watermark = max(operator.watermark, latest - operator.delay)


def end_batch(query: QueryWatermark, operators: Sequence[WatermarkOperator]) -> None:
    """Work out the watermark of the next batch, when a batch is done.

    ``operators``: all of them, also those without a row so far; at least one.
    """
    query.used = query.current
    query.has_plan = 1
    chosen = operators[0].watermark
    for i in range(len(operators)):
        if query.policy == MAXIMUM:
            chosen = max(chosen, operators[i].watermark)
        else:
            chosen = min(chosen, operators[i].watermark)
    query.current = max(query.current, chosen)


def is_over(end: int, watermark: int) -> int:
    """Tell whether a window lies behind a watermark: 1 if so.

    The one predicate for both: with :func:`flowcontrol.spec.spark_aggregation.late_watermark` for
    rows that come too late, with the batch's own watermark for what is evicted.
    """
    return 1 if end <= watermark else 0


def drops_late(mode: int, is_session: int) -> int:
    """Tell whether rows of windows that are over are dropped: 1 if so.

    In complete mode all groups are kept, so nothing is late; but sessions drop late rows before
    they ask for the mode (``SessionWindowStateStoreRestoreExec``).
    """
    return 1 if mode != COMPLETE or is_session == 1 else 0


def evicts(mode: int) -> int:
    """Tell whether groups whose windows are over are removed: 1 if so."""
    return 0 if mode == COMPLETE else 1


def needs_no_data_batch(query: QueryWatermark, mode: int) -> int:
    """Tell whether a batch follows though no data came: 1 if so.

    ``mode``: only a batch that evicts has anything to do without data (``shouldRunAnotherBatch``).
    """
    return 1 if query.has_plan == 1 and evicts(mode) == 1 and query.current > query.used else 0


# --- Rows of a batch into the groups of an aggregation, one by one.
#
# Groups are entries of a table of windows (flowcontrol.protocol.windows.firing). Those with a
# watermark are in its heap of event time, from which the answer takes what is over. In update
# mode those that the batch has changed are in the heap of the clock, which Spark's windows do
# not follow. A group that comes too late has an entry too until the batch ends, under a
# number below 0, as it counts once however many rows it has.
#
# Source: Spark 4.2's `StateStoreSaveExec` and `SessionWindowStateStoreRestoreExec`; section 7
# of checkpoints-and-time.


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

    - ``operators``: one of each input.
    - ``key``: of the row, from 0.
    - ``value``: what is aggregated; NO_VALUE: the row has none. Its values of further columns are
      those of ``store.element_id``.

    Returns TAKEN, also if all its groups are late; FULL: nothing has changed, for they may not find
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


# --- What a batch puts out at its end, one group at a time, and what it evicts.
#
# begin_answer begins, next_answer goes on until it returns 0. All that is left to do is in
# the state, so anything may pass between two groups but a row of the next batch.


CHANGED = 4
"""Phase: what the batch has changed goes out."""
ALL = 5
"""Phase: everything goes out."""
EVICTING = 6
"""Phase: what is over leaves; in append mode it goes out."""


def begin_answer(store: WindowStore, batch: TaskBatch, watermark: int) -> None:
    """End a batch: have what its output mode asks for go out.

    ``watermark``: its own, ms, by which it evicts; the next batch drops late rows by it.
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
