"""When a window fires: Flink's triggers.

Each rule returns 1 if the window fires, and changes what the trigger remembers in the window's
entry. The caller puts the window where its timers belong (:func:`~.timers.schedule`) afterwards.

Source: section 6 of checkpoints-and-time; ``EventTimeTrigger``, ``ProcessingTimeTrigger``,
``CountTrigger``, ``ContinuousEventTimeTrigger``, ``ContinuousProcessingTimeTrigger``,
``ProcessingTimeoutTrigger``, ``PurgingTrigger``.
"""

from flowcontrol.protocol.event_time.bounds import MAX_TIME, later
from flowcontrol.protocol.windows.assigners import GLOBAL, last_ms
from flowcontrol.protocol.windows.states import NO_TIMEOUT, WindowEntry, WindowSettings, WindowStore
from flowcontrol.protocol.windows.timers import END, NEXT, TIMEOUT, without

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

    Notes
    -----
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

    Notes
    -----
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

    Notes
    -----
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
