"""Timers of windows: which ones a window has, and a heap of the windows by their first one.

A window's timers of one kind of time, the watermark's or the clock's, are a sum of END, NEXT,
CLEANUP, QUIET and TIMEOUT. Timers of one time are one timer, as in Flink. A heap has the places of
the windows with timers behind its first integer, which says how many they are; in front is the one
that is due first, among those of one time the one that began first.
"""

from collections.abc import Sequence

from flowcontrol.protocol.event_time.bounds import MAX_TIME
from flowcontrol.protocol.rows import Row
from flowcontrol.protocol.windows.assigners import cleanup_ms, last_ms
from flowcontrol.protocol.windows.states import NONE, WindowEntry, Windows, WindowSettings

END = 1
"""At the last time of the window."""
NEXT = 2
"""When a continuous trigger fires next."""
CLEANUP = 4
"""When the window is removed."""
QUIET = 8
"""Then, without a call of the trigger: it has deleted the timer of that time. Flink would lose
the window with it."""
TIMEOUT = 16
"""When the trigger's timeout is over."""

EVENT_TIME = 0
"""Timers that wait for the watermark."""
CLOCK = 1
"""Timers that wait for processing time."""


def due_at(settings: WindowSettings, entry: WindowEntry, timers: int, at: int) -> int:
    """Return those of a window's timers that are due at a time."""
    found = 0
    if timers & END and last_ms(settings, entry.end) == at:
        found |= END
    if timers & NEXT and entry.next_fire == at:
        found |= NEXT
    if timers & (CLEANUP | QUIET) and cleanup_ms(settings, entry.end) == at:
        found |= timers & (CLEANUP | QUIET)
    if timers & TIMEOUT and entry.timeout_at == at:
        found |= TIMEOUT
    return found


def first_due(settings: WindowSettings, entry: WindowEntry, timers: int) -> int:
    """Return the time of the first of a window's timers, of which there is at least one."""
    found = MAX_TIME
    if timers & END:
        found = min(found, last_ms(settings, entry.end))
    if timers & NEXT:
        found = min(found, entry.next_fire)
    if timers & (CLEANUP | QUIET):
        found = min(found, cleanup_ms(settings, entry.end))
    if timers & TIMEOUT:
        found = min(found, entry.timeout_at)
    return found


def without(settings: WindowSettings, entry: WindowEntry, timers: int, at: int) -> int:
    """Return a window's timers after its trigger has deleted the one of a time."""
    gone = due_at(settings, entry, timers, at)
    return timers & ~gone | (QUIET if gone & (CLEANUP | QUIET) else 0)


def schedule(windows: Windows, place: int) -> None:
    """Put a window where its timers belong in both heaps, after they have changed."""
    settings, entries = windows.settings, windows.entries
    entry = entries[place - 1]
    due = first_due(settings, entry, entry.event_timers)
    _put(windows.event_heap, entries, place, EVENT_TIME, entry.event_timers, due)
    if entry.clock_timers != 0 or entry.clock_place != NONE:
        due = first_due(settings, entry, entry.clock_timers)
        _put(windows.clock_heap, entries, place, CLOCK, entry.clock_timers, due)


def _put(
    heap: Row, entries: Sequence[WindowEntry], place: int, time: int, timers: int, due: int
) -> None:
    """Put a window where it belongs in a heap, or out of it if it has no timers."""
    entry = entries[place - 1]
    at = entry.clock_place if time == CLOCK else entry.event_place
    if timers == 0:
        if at != NONE:
            _take_out(heap, entries, at, time)
        return
    if at != NONE and due == (entry.clock_due if time == CLOCK else entry.event_due):
        return
    if time == CLOCK:
        entry.clock_due = due
    else:
        entry.event_due = due
    if at == NONE:
        heap[0] += 1
        at = heap[0]
        _set(heap, entries, at, place, time)
    _settle(heap, entries, at, time)


def _take_out(heap: Row, entries: Sequence[WindowEntry], at: int, time: int) -> None:
    """Take the window at a place of a heap out of it; the last one comes there."""
    last = heap[0]
    moved = heap[last]
    gone = entries[heap[at] - 1]
    if time == CLOCK:
        gone.clock_place = NONE
    else:
        gone.event_place = NONE
    heap[last] = NONE
    heap[0] = last - 1
    if at != last:
        _set(heap, entries, at, moved, time)
        _settle(heap, entries, at, time)


def _settle(heap: Row, entries: Sequence[WindowEntry], at: int, time: int) -> None:
    """Move what is at a place of a heap to where it belongs, towards either end."""
    place = heap[at]
    while at > 1 and _is_before(entries, place, heap[at >> 1], time) == 1:
        _set(heap, entries, at, heap[at >> 1], time)
        at = at >> 1
    child = _earlier_child(heap, entries, at, time)
    while child != NONE and _is_before(entries, heap[child], place, time) == 1:
        _set(heap, entries, at, heap[child], time)
        at = child
        child = _earlier_child(heap, entries, at, time)
    _set(heap, entries, at, place, time)


def _earlier_child(heap: Row, entries: Sequence[WindowEntry], at: int, time: int) -> int:
    """Return where the earlier of the two below a place is; NONE: nothing is below."""
    child = at + at
    if child > heap[0]:
        return NONE
    if child < heap[0] and _is_before(entries, heap[child + 1], heap[child], time) == 1:
        child += 1
    return child


def _set(heap: Row, entries: Sequence[WindowEntry], at: int, place: int, time: int) -> None:
    heap[at] = place
    if time == CLOCK:
        entries[place - 1].clock_place = at
    else:
        entries[place - 1].event_place = at


def _is_before(entries: Sequence[WindowEntry], one: int, other: int, time: int) -> int:
    """Tell whether a window is due before another one: 1 if so."""
    first, second = entries[one - 1], entries[other - 1]
    if time == CLOCK:
        due, against = first.clock_due, second.clock_due
    else:
        due, against = first.event_due, second.event_due
    if due != against:
        return 1 if due < against else 0
    return 1 if first.order < second.order else 0
