"""Windows at work: entered, merged and fired.

Each of :func:`on_element`, :func:`on_watermark` and :func:`on_clock` begins something.
:func:`next_result` goes on with it until it returns 0: whenever it returns 1, the result is in the
store's fields ``result_*``. Between two results anything may pass, for all that is left to do is in
the state. At 0 the next element, watermark or time may come, and the watermark goes on.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from flowcontrol.protocol.windows.contents import (
    GLOBAL,
    PANES,
    SESSIONS,
    absorb,
    absorb_further,
    cleanup_ms,
    end_of,
    first_start,
    is_element_late,
    is_in_pane,
    is_window_late,
    last_ms,
    purge,
    purge_further,
    put_further_in,
    put_further_out,
    put_in,
)
from flowcontrol.protocol.windows.triggers import (
    CLEANUP,
    QUIET,
    due_at,
    fires_at_clock,
    fires_at_event_time,
    fires_on_element,
    remember_both,
    schedule,
    set_timers_of_merged,
)
from flowcontrol.state.declared import columns
from flowcontrol.state.tasks import MAX_TIME, earlier
from flowcontrol.state.windows import NONE, ColumnValues, WindowEntry, Windows, WindowSettings

# --- The table of windows: a pool of entries, found by key and start in chained buckets


SPREAD = 7919
"""By how many buckets two windows of a key are apart that follow each other: odd, so that each
number of a window has a bucket of its own."""


def bucket_of(settings: WindowSettings, key: int, start: int, buckets: int) -> int:
    """Return the bucket of a window.

    - ``settings``: of the operator. Windows of sessions are found by their key alone.
    - ``buckets``: a power of two, at most 2**32.
    """
    mask = buckets - 1
    if settings.kind != PANES:
        return key & mask
    return ((key & mask) + (start // settings.slide & mask) * SPREAD) & mask


def first_in_bucket(windows: Windows, key: int, start: int) -> int:
    """Return the place of the first entry in a window's bucket; NONE: the bucket is empty."""
    return windows.buckets[bucket_of(windows.settings, key, start, len(windows.buckets))]


def find(windows: Windows, key: int, start: int) -> int:
    """Return the place of a window; NONE: there is no such window."""
    place = first_in_bucket(windows, key, start)
    while place != NONE:
        entry = windows.entries[place - 1]
        if entry.key == key and entry.start == start:
            return place
        place = entry.chain
    return NONE


def add(windows: Windows, key: int, start: int, end: int) -> int:
    """Begin a window; return its place. There must be a free entry."""
    store = windows.store
    if store.free != NONE:
        place = store.free
        store.free = windows.entries[place - 1].chain
    else:
        store.used += 1
        place = store.used
    entry = windows.entries[place - 1]
    entry.key = key
    entry.start = start
    entry.end = end
    entry.order = store.order
    bucket = bucket_of(windows.settings, key, start, len(windows.buckets))
    entry.chain = windows.buckets[bucket]
    windows.buckets[bucket] = place
    store.order += 1
    store.open += 1
    return place


def remove(windows: Windows, place: int) -> None:
    """Remove a window, with its timers; its entry is as new, and free."""
    store, entries = windows.store, windows.entries
    entry = entries[place - 1]
    bucket = bucket_of(windows.settings, entry.key, entry.start, len(windows.buckets))
    if windows.buckets[bucket] == place:
        windows.buckets[bucket] = entry.chain
    else:
        before = entries[windows.buckets[bucket] - 1]
        while before.chain != place:
            before = entries[before.chain - 1]
        before.chain = entry.chain
    entry.event_timers = 0
    entry.clock_timers = 0
    schedule(windows, place)
    purge(entry)
    purge_further(windows, place)
    entry.trigger_count = 0
    entry.has_next = 0
    entry.has_timeout = 0
    entry.chain = store.free
    store.free = place
    store.open -= 1


# --- Sessions: windows of a key that touch become one (`MergingWindowSet`)


def oldest_touching(windows: Windows, key: int, start: int, end: int) -> int:
    """Return the place of a key's session that touches a window, the oldest; NONE: none does."""
    found = NONE
    place = first_in_bucket(windows, key, start)
    while place != NONE:
        entry = windows.entries[place - 1]
        is_older = found == NONE or entry.order < windows.entries[found - 1].order
        if is_older and _touches(entry, key, start, end) == 1:
            found = place
        place = entry.chain
    return found


def join(windows: Windows, key: int, start: int, end: int) -> int:
    """Merge a window with the sessions that it touches.

    A window inside of a session merges nothing, so that session's timers stay. Sessions do not
    touch each other, so one that touches what became of the others touches the new window.

    Returns the place of its session, NONE if it touches none. That is the oldest session that it
    touches; the others are removed.
    """
    kept = oldest_touching(windows, key, start, end)
    if kept == NONE:
        return NONE
    entry = windows.entries[kept - 1]
    if entry.start <= start and end <= entry.end:
        return kept
    low, high = min(start, entry.start), max(end, entry.end)
    place = first_in_bucket(windows, key, start)
    while place != NONE:
        other = windows.entries[place - 1]
        following = other.chain
        if place != kept and _touches(other, key, start, end) == 1:
            low, high = min(low, other.start), max(high, other.end)
            absorb(entry, other)
            absorb_further(windows, kept, place)
            remember_both(entry, other)
            remove(windows, place)
        place = following
    entry.start = low
    entry.end = high
    set_timers_of_merged(windows.settings, windows.store, entry)
    return kept


def _touches(entry: WindowEntry, key: int, start: int, end: int) -> int:
    """Tell whether a session and a window of a key overlap or touch: 1 if so."""
    return 1 if entry.key == key and start <= entry.end and entry.start <= end else 0


# --- A window operator: elements in, one result at a time out (`WindowOperator`).


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

    ``WindowOperator.processElement``. Of sliding windows the last one that begins comes first, so
    once a window is late, the others are too. Sessions merge before the late rule.

    - ``ms``: its timestamp, milliseconds; does not count where windows follow the clock.
    - ``value``: what is aggregated. Its values of further columns are those of
      ``store.element_id``.
    - ``now``: processing time, milliseconds. Timers that are due by then wait for :func:`on_clock`.

    Returns TAKEN: :func:`next_result` puts it into its windows, one after the other, and returns 1
    whenever one fires. LATE, BETWEEN: it is in none. FULL: more entries are needed.
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


# --- What a checkpoint keeps of windows, and how they begin again from it.


STORE = ("watermark", "clock", "late", "fired")
"""Fields of the store that a state has."""
PLACED = {"chain", "event_due", "event_place", "clock_due", "clock_place"}
"""Fields of an entry that follow from where it is in the memory."""
ENTRY = tuple(name for name in columns(WindowEntry) if name not in PLACED)
"""Fields of an entry that a state has."""
FURTHER = "further"
"""What a state has beside them: of each further column of the entry a list of its fields."""


def buckets_for(capacity: int) -> int:
    """Return how many buckets that many windows have: a power of two, at least as many."""
    found = 1
    while found < capacity:
        found += found
    return found


def open_places(windows: Windows) -> list[int]:
    """Return the places of the windows that are kept, the one that began first in front."""
    free, place = set(), windows.store.free
    while place != NONE:
        free.add(place)
        place = windows.entries[place - 1].chain
    found = [place for place in range(1, windows.store.used + 1) if place not in free]
    return sorted(found, key=lambda place: windows.entries[place - 1].order)


def further_of(windows: Windows, place: int) -> Sequence[ColumnValues]:
    """Return what a window holds of the columns beside the first."""
    count = windows.settings.further
    return windows.further[place * count : (place + 1) * count]


def put_entries(windows: Windows, entries: Sequence[Mapping[str, Any]]) -> None:
    """Give an operator without windows those of a kept state; there must be room for them."""
    for kept in entries:
        place = add(windows, kept["key"], kept["start"], kept["end"])
        for name in ENTRY:
            setattr(windows.entries[place - 1], name, kept[name])
        _put_further(windows, place, kept[FURTHER])
        schedule(windows, place)
    windows.store.order = 1 + max((kept["order"] for kept in entries), default=-1)


def _put_further(windows: Windows, place: int, rows: Sequence[Sequence[int]]) -> None:
    for held, row in zip(further_of(windows, place), rows, strict=True):
        for name, value in zip(columns(ColumnValues), row, strict=True):
            setattr(held, name, value)
