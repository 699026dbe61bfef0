"""A window operator: elements in, one result at a time out (``WindowOperator``).

Each of :func:`on_element`, :func:`on_watermark` and :func:`on_clock` begins something.
:func:`next_result` goes on with it until it returns 0: whenever it returns 1, the result is in the
store's fields ``result_*``. Between two results anything may pass, for all that is left to do is in
the state. At 0 the next element, watermark or time may come, and the watermark goes on.
"""

from flowcontrol.protocol.event_time.bounds import MAX_TIME, earlier
from flowcontrol.protocol.windows.assigners import (
    GLOBAL,
    PANES,
    SESSIONS,
    cleanup_ms,
    end_of,
    first_start,
    is_element_late,
    is_in_pane,
    is_window_late,
    last_ms,
)
from flowcontrol.protocol.windows.contents import purge, put_in
from flowcontrol.protocol.windows.entries import add, find, remove
from flowcontrol.protocol.windows.further import purge_further, put_further_in, put_further_out
from flowcontrol.protocol.windows.sessions import join, oldest_touching
from flowcontrol.protocol.windows.states import NONE, WindowEntry, Windows
from flowcontrol.protocol.windows.timers import CLEANUP, QUIET, due_at, schedule
from flowcontrol.protocol.windows.triggers import (
    fires_at_clock,
    fires_at_event_time,
    fires_on_element,
)

RESTING = 0
"""Phase: nothing is left to do."""
ELEMENT = 1
"""Phase: an element goes into its windows."""
EVENT_TIMERS = 2
"""Phase: timers up to the watermark fire."""
CLOCK_TIMERS = 3
"""Phase: timers up to the clock fire."""

BETWEEN = 0
"""Of an element: it is in no window, and not late."""
TAKEN = 1
"""Of an element: it goes into its windows."""
LATE = 2
"""Of an element: it is too late for all of its windows."""
FULL = 3
"""Of an element: nothing has changed, for its windows may not find room."""


def on_element(windows: Windows, key: int, ms: int, value: int, now: int) -> int:
    """Take an element.

    Parameters
    ----------
    windows : Windows
        The operator.
    key : int
        Of the element.
    ms : int
        Its timestamp, milliseconds; does not count where windows follow the clock.
    value : int
        What is aggregated. Its values of further columns are those of ``store.element_id``.
    now : int
        Processing time, milliseconds. Timers that are due by then wait for :func:`on_clock`.

    Returns
    -------
    int
        TAKEN: :func:`next_result` puts it into its windows, one after the other, and returns 1
        whenever one fires. LATE, BETWEEN: it is in none. FULL: more entries are needed.

    Notes
    -----
    ``WindowOperator.processElement``. Of sliding windows the last one that begins comes first, so
    once a window is late, the others are too. Sessions merge before the late rule.
    """
    settings, store = windows.settings, windows.store
    if store.open + settings.overlap > len(windows.entries):
        return FULL
    at = now if settings.kind != GLOBAL and settings.is_event_time == 0 else ms
    start = first_start(settings, at)
    end = end_of(settings, start)
    is_in = 1 - is_window_late(settings, store, end)
    if settings.kind == PANES and is_in == 1:
        is_in = is_in_pane(settings, at, start)
    elif settings.kind == SESSIONS and is_in == 0:
        is_in = 1 if oldest_touching(windows, key, start, end) != NONE else 0
    if is_in == 0:
        if is_element_late(settings, store, at) == 0:
            return BETWEEN
        store.late += 1
        return LATE
    store.element_key = key
    store.element_ms = at
    store.element_value = value
    store.element_has_value = 1
    store.element_now = now
    store.element_start = start
    store.phase = ELEMENT
    return TAKEN


def on_watermark(windows: Windows, watermark: int) -> int:
    """Take a watermark: 1 if timers are due, so that there may be results, 0 if not.

    One below the last one is ignored (a valve gives none). It costs nothing if nothing is due.
    """
    store = windows.store
    if watermark < store.watermark:
        return 0
    store.watermark = watermark
    heap = windows.event_heap
    if heap[0] == 0 or windows.entries[heap[1] - 1].event_due > store.watermark:
        return 0
    store.phase = EVENT_TIMERS
    return 1


def on_clock(windows: Windows, now: int) -> int:
    """Take a processing time: 1 if timers are due, so that there may be results, 0 if not."""
    store = windows.store
    if now < store.clock:
        return 0
    store.clock = now
    heap = windows.clock_heap
    if heap[0] == 0 or windows.entries[heap[1] - 1].clock_due > store.clock:
        return 0
    store.phase = CLOCK_TIMERS
    return 1


def next_result(windows: Windows) -> int:
    """Go on until there is a result: 1, and the store has it; 0: nothing is left to do."""
    store = windows.store
    while store.phase != RESTING:
        if store.phase == ELEMENT:
            found = _fill_next(windows)
        elif store.phase == EVENT_TIMERS:
            found = _fire_next_event(windows)
        else:
            found = _fire_next_clock(windows)
        if found == 1:
            return 1
    return 0


# ---- what these are made of


def _fill_next(windows: Windows) -> int:
    """Put the element into the next of its windows: 1 if that gives a result."""
    settings, store = windows.settings, windows.store
    key, start = store.element_key, store.element_start
    end = end_of(settings, start)
    if settings.kind == PANES:
        is_in = is_in_pane(settings, store.element_ms, start)
        if is_in == 0 or is_window_late(settings, store, end) == 1:
            store.phase = RESTING
            return 0
        store.element_start = earlier(start, settings.slide)
        if store.element_start == start:  # the beginning of time
            store.phase = RESTING
    else:
        store.phase = RESTING
    is_session = settings.kind == SESSIONS
    place = join(windows, key, start, end) if is_session else find(windows, key, start)
    if place == NONE:
        place = add(windows, key, start, end)
    entry = windows.entries[place - 1]
    put_in(entry, store.element_value, store.element_has_value)
    put_further_in(windows, place)
    found = 0
    if fires_on_element(settings, store, entry) == 1:
        found = _fire(windows, place)
    _register_cleanup(windows, entry)
    _settle_entry(windows, place)
    return found


def _fire_next_event(windows: Windows) -> int:
    """Let the first timer of event time fire, if the watermark has passed it."""
    settings, store, heap = windows.settings, windows.store, windows.event_heap
    if heap[0] == 0 or windows.entries[heap[1] - 1].event_due > store.watermark:
        store.phase = RESTING
        return 0
    place, found = heap[1], 0
    entry = windows.entries[place - 1]
    at = entry.event_due
    due = due_at(settings, entry, entry.event_timers, at)
    entry.event_timers &= ~due
    if due != QUIET and fires_at_event_time(settings, store, entry, at) == 1:
        found = _fire(windows, place)
    if settings.is_event_time == 1 and at == cleanup_ms(settings, entry.end):
        remove(windows, place)
    else:
        _settle_entry(windows, place)
    return found


def _fire_next_clock(windows: Windows) -> int:
    """Let the first timer of processing time fire, if the clock has passed it."""
    settings, store, heap = windows.settings, windows.store, windows.clock_heap
    if heap[0] == 0 or windows.entries[heap[1] - 1].clock_due > store.clock:
        store.phase = RESTING
        return 0
    place, found = heap[1], 0
    entry = windows.entries[place - 1]
    at = entry.clock_due
    due = due_at(settings, entry, entry.clock_timers, at)
    entry.clock_timers &= ~due
    if due != QUIET and fires_at_clock(settings, store, entry, at) == 1:
        found = _fire(windows, place)
    is_cleanup = at == cleanup_ms(settings, entry.end) and settings.kind != GLOBAL
    if settings.is_event_time == 0 and is_cleanup:
        remove(windows, place)
    else:
        _settle_entry(windows, place)
    return found


def _fire(windows: Windows, place: int) -> int:
    """Make a window's contents the result, if there are any: 1 if so; empty it if it purges."""
    entry = windows.entries[place - 1]
    if entry.count == 0:
        return 0
    put_out(windows, place)
    if windows.settings.is_purging == 1:
        purge(entry)
        purge_further(windows, place)
    return 1


def put_out(windows: Windows, place: int) -> None:
    """Make what a window holds the newest result."""
    entry, store = windows.entries[place - 1], windows.store
    store.fired += 1
    store.result_key = entry.key
    store.result_start = entry.start
    store.result_end = entry.end
    store.result_ms = last_ms(windows.settings, entry.end)
    store.result_count = entry.count
    store.result_valued = entry.valued
    store.result_sum = entry.sum
    store.result_min = entry.min
    store.result_max = entry.max
    store.result_wraps = entry.wraps
    put_further_out(windows, place)


def _register_cleanup(windows: Windows, entry: WindowEntry) -> None:
    """Give a window the timer that removes it, unless that is at the end of time."""
    settings = windows.settings
    if settings.kind == GLOBAL or cleanup_ms(settings, entry.end) == MAX_TIME:
        return
    if settings.is_event_time == 1:
        entry.event_timers = entry.event_timers & ~QUIET | CLEANUP
    else:
        entry.clock_timers = entry.clock_timers & ~QUIET | CLEANUP


def _settle_entry(windows: Windows, place: int) -> None:
    """Note a window's timers; remove a global one that has nothing to keep."""
    entry = windows.entries[place - 1]
    schedule(windows, place)
    timers = entry.event_timers | entry.clock_timers
    remembers = entry.count + entry.trigger_count + entry.has_next + entry.has_timeout + timers
    if windows.settings.kind == GLOBAL and remembers == 0:
        remove(windows, place)
