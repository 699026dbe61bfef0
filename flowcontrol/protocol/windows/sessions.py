"""Sessions: windows of a key that touch become one (``MergingWindowSet``)."""

from flowcontrol.protocol.windows.contents import absorb
from flowcontrol.protocol.windows.entries import first_in_bucket, remove
from flowcontrol.protocol.windows.further import absorb_further
from flowcontrol.protocol.windows.states import NONE, WindowEntry, Windows
from flowcontrol.protocol.windows.triggers import remember_both, set_timers_of_merged


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

    Returns
    -------
    int
        Place of the session that it is in now, NONE if it touches none. That is the oldest one;
        the others are removed.

    Notes
    -----
    A window inside of a session merges nothing, so that session's timers stay. Sessions do not
    touch each other, so one that touches what became of the others touches the new window.
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
