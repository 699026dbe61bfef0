"""Which windows an element belongs to, and how long they are kept.

Source: section 6 of checkpoints-and-time; ``TimeWindow.getWindowStartWithOffset``, the assigners
of Flink, ``WindowOperator.cleanupTime``. All times are milliseconds.
"""

from flowcontrol.protocol.event_time.bounds import MAX_TIME, earlier, later
from flowcontrol.protocol.windows.states import WindowSettings, WindowStore

PANES = 0
"""Tumbling and sliding windows."""
SESSIONS = 1
"""Windows that end when a key is silent for a gap."""
GLOBAL = 2
"""One window for all time."""


def start_of(ms: int, offset: int, size: int) -> int:
    """Return the start of the last window that begins at or before a time.

    Parameters
    ----------
    ms : int
        The time.
    offset : int
        Of the starts.
    size : int
        From one start to the next, above 0.
    """
    return earlier(ms, (ms % size - offset % size) % size)


def last_ms(settings: WindowSettings, end: int) -> int:
    """Return the last time in a window (``maxTimestamp``), which is that of its results."""
    return end if settings.kind == GLOBAL else earlier(end, 1)


def cleanup_ms(settings: WindowSettings, end: int) -> int:
    """Return when a window is removed; MAX_TIME: never.

    Notes
    -----
    ``WindowOperator.cleanupTime``: only event time has a lateness.
    """
    last = last_ms(settings, end)
    return later(last, settings.lateness) if settings.is_event_time == 1 else last


def is_window_late(settings: WindowSettings, store: WindowStore, end: int) -> int:
    """Tell whether a window would be removed already, so that nothing goes into it: 1 if so."""
    if settings.is_event_time == 0:
        return 0
    return 1 if cleanup_ms(settings, end) <= store.watermark else 0


def is_element_late(settings: WindowSettings, store: WindowStore, ms: int) -> int:
    """Tell whether an element that is in no window counts as late: 1 if so.

    Notes
    -----
    ``WindowOperator.isElementLate``. An element between windows whose slide exceeds their size may
    be in none of them and not be late.
    """
    if settings.is_event_time == 0:
        return 0
    return 1 if later(ms, settings.lateness) <= store.watermark else 0


def first_start(settings: WindowSettings, ms: int) -> int:
    """Return the start of an element's window, of sliding ones of the last that begins."""
    if settings.kind == PANES:
        return start_of(ms, settings.offset, settings.slide)
    return ms if settings.kind == SESSIONS else -MAX_TIME - 1


def end_of(settings: WindowSettings, start: int) -> int:
    """Return the end of the window that begins at a time."""
    if settings.kind == PANES:
        return later(start, settings.size)
    return later(start, settings.gap) if settings.kind == SESSIONS else MAX_TIME


def is_in_pane(settings: WindowSettings, ms: int, start: int) -> int:
    """Tell whether a tumbling or sliding window that begins at or before a time has it: 1 if so."""
    return 1 if start >= earlier(ms, settings.size - 1) else 0
