"""Timers and triggers: when a window fires, and when it is dropped.

Each rule returns 1 if the window fires, and changes what the trigger remembers in the window's
entry. The caller puts the window where its timers belong (:func:`~.triggers.schedule`) afterwards.

Source: section 6 of checkpoints-and-time; ``EventTimeTrigger``, ``ProcessingTimeTrigger``,
``CountTrigger``, ``ContinuousEventTimeTrigger``, ``ContinuousProcessingTimeTrigger``,
``ProcessingTimeoutTrigger``, ``PurgingTrigger``.
"""

from collections.abc import Sequence

from flowcontrol.protocol.windows.contents import GLOBAL, cleanup_ms, last_ms
from flowcontrol.state.rows import Row
from flowcontrol.state.tasks import MAX_TIME, later
from flowcontrol.state.windows import (
    NO_TIMEOUT,
    NONE,
    WindowEntry,
    Windows,
    WindowSettings,
    WindowStore,
)

# --- Timers of windows: which ones a window has, and a heap of the windows by their first one.
#
# A window's timers of one kind of time, the watermark's or the clock's, are a sum of END,
# NEXT, CLEANUP, QUIET and TIMEOUT. Timers of one time are one timer, as in Flink. A heap has
# the places of the windows with timers behind its first integer, which says how many they
# are; in front is the one that is due first, among those of one time the one that began
# first.


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


# --- When a window fires: Flink's triggers.


EVENT = 0
"""When the watermark has passed the window, and then with each element."""
PROCESSING = 1
"""When the clock has passed the window."""
COUNT = 2
"""With every n-th element."""
CONTINUOUS_EVENT = 3
"""At every multiple of an interval that the watermark passes, and at the end."""
CONTINUOUS_CLOCK = 4
"""At every multiple of an interval that the clock passes, and at the end."""
NEVER = 5
"""Not at all (``GlobalWindows.NeverTrigger``)."""


def fires_on_element(settings: WindowSettings, store: WindowStore, entry: WindowEntry) -> int:
    """Show a window's trigger the store's element, which is in the window now: 1 if it fires.

    A timeout begins with the first element, or anew with each; a window that fires has none.
    """
    fires = _plain_on_element(settings, store, entry)
    if settings.timeout == NO_TIMEOUT:
        return fires
    if fires == 1:
        clear(settings, entry)
        return 1
    if entry.has_timeout == 1 and settings.timeout_resets == 1:
        _delete_timeout(settings, entry)
    if entry.has_timeout == 0:
        entry.has_timeout = 1
        entry.timeout_at = later(store.element_now, settings.timeout)
        entry.clock_timers |= TIMEOUT
    return 0


def fires_at_event_time(
    settings: WindowSettings, store: WindowStore, entry: WindowEntry, at: int
) -> int:
    """Tell a window's trigger that the watermark has passed a time of its timers: 1 if it fires.

    A trigger with a timeout fires at each timer, the clean-up's too.
    """
    fires = 0
    is_last = at == last_ms(settings, entry.end)
    if settings.trigger == EVENT:
        fires = 1 if is_last else 0
    elif settings.trigger == CONTINUOUS_EVENT:
        if is_last:
            fires = 1
        elif entry.has_next == 1 and entry.next_fire == at:
            _set_next(settings, entry, at, store.watermark)
            fires = 1
    return fires if settings.timeout == NO_TIMEOUT else _time_out(settings, entry)


def fires_at_clock(
    settings: WindowSettings, store: WindowStore, entry: WindowEntry, at: int
) -> int:
    """Tell a window's trigger that the clock has passed a time of its timers: 1 if it fires."""
    fires = 0
    if settings.trigger == PROCESSING:
        fires = 1
    elif settings.trigger == CONTINUOUS_CLOCK and entry.has_next == 1 and entry.next_fire == at:
        _set_next(settings, entry, at, store.clock)
        fires = 1
    return fires if settings.timeout == NO_TIMEOUT else _time_out(settings, entry)


def remember_both(entry: WindowEntry, other: WindowEntry) -> None:
    """Give a window what the trigger of another one remembers, which merges into it.

    Counts add, of two times to fire at the earlier one counts. A trigger with a timeout merges no
    windows.
    """
    entry.trigger_count += other.trigger_count
    if other.has_next == 1:
        is_earlier = entry.has_next == 0 or other.next_fire < entry.next_fire
        entry.next_fire = other.next_fire if is_earlier else entry.next_fire
        entry.has_next = 1


def set_timers_of_merged(settings: WindowSettings, store: WindowStore, entry: WindowEntry) -> None:
    """Give a window that others have merged into the timers of its trigger (``onMerge``)."""
    last = last_ms(settings, entry.end)
    entry.event_timers = 0
    entry.clock_timers = 0
    if settings.trigger == EVENT and last > store.watermark:
        entry.event_timers = END
    elif settings.trigger == PROCESSING and last > store.element_now:
        entry.clock_timers = END
    elif entry.has_next == 1 and settings.trigger == CONTINUOUS_EVENT:
        entry.event_timers = NEXT
    elif entry.has_next == 1 and settings.trigger == CONTINUOUS_CLOCK:
        entry.clock_timers = NEXT


def clear(settings: WindowSettings, entry: WindowEntry) -> None:
    """Have a window's trigger forget what it remembers, and delete its timers (``clear``)."""
    if entry.has_timeout == 1:
        _delete_timeout(settings, entry)
    last = last_ms(settings, entry.end)
    if settings.trigger == EVENT:
        entry.event_timers = without(settings, entry, entry.event_timers, last)
    elif settings.trigger == PROCESSING:
        entry.clock_timers = without(settings, entry, entry.clock_timers, last)
    elif entry.has_next == 1 and settings.trigger == CONTINUOUS_EVENT:
        entry.event_timers = without(settings, entry, entry.event_timers, entry.next_fire)
    elif entry.has_next == 1:
        entry.clock_timers = without(settings, entry, entry.clock_timers, entry.next_fire)
    entry.trigger_count = 0
    entry.has_next = 0


def _plain_on_element(settings: WindowSettings, store: WindowStore, entry: WindowEntry) -> int:
    """As :func:`fires_on_element`, of a trigger without a timeout."""
    trigger = settings.trigger
    if trigger == COUNT:
        entry.trigger_count += 1
        if entry.trigger_count < settings.every:
            return 0
        entry.trigger_count = 0
        return 1
    if trigger in (EVENT, CONTINUOUS_EVENT):
        if last_ms(settings, entry.end) <= store.watermark:
            return 1
        entry.event_timers |= END
    if trigger == PROCESSING:
        entry.clock_timers |= END
    if trigger == CONTINUOUS_EVENT and entry.has_next == 0:
        _set_next(settings, entry, _multiple(store.element_ms, settings.every), store.watermark)
    if trigger == CONTINUOUS_CLOCK and entry.has_next == 0:
        _set_next(settings, entry, _multiple(store.element_now, settings.every), store.clock)
    return 0


def _multiple(ms: int, interval: int) -> int:
    """Return a time rounded to a multiple of an interval, towards 0 as Java does it."""
    rest = ms % interval
    return ms - rest if ms >= 0 or rest == 0 else ms + (interval - rest)


def _set_next(settings: WindowSettings, entry: WindowEntry, after: int, reached: int) -> None:
    """Set when a continuous trigger fires next: an interval later, at the window's end at last.

    At the end of time a global window fires once more and not at each multiple until then, as
    Flink's would.
    """
    last = last_ms(settings, entry.end)
    entry.has_next = 1
    entry.next_fire = min(later(after, settings.every), last)
    if settings.kind == GLOBAL and reached == MAX_TIME:
        entry.next_fire = last
    if after == last:
        return
    if settings.trigger == CONTINUOUS_EVENT:
        entry.event_timers |= NEXT
    else:
        entry.clock_timers |= NEXT


def _delete_timeout(settings: WindowSettings, entry: WindowEntry) -> None:
    entry.clock_timers = without(settings, entry, entry.clock_timers, entry.timeout_at)
    entry.has_timeout = 0


def _time_out(settings: WindowSettings, entry: WindowEntry) -> int:
    """Fire, whatever a trigger says that has a timeout."""
    if settings.timeout_clears == 1:
        clear(settings, entry)
    return 1
