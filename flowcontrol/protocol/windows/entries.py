"""The table of windows: a pool of entries, found by key and start in chained buckets."""

from flowcontrol.protocol.windows.assigners import PANES
from flowcontrol.protocol.windows.contents import purge
from flowcontrol.protocol.windows.further import purge_further
from flowcontrol.protocol.windows.states import NONE, Windows, WindowSettings
from flowcontrol.protocol.windows.timers import schedule

SPREAD = 7919
"""By how many buckets two windows of a key are apart that follow each other: odd, so that each
number of a window has a bucket of its own."""


def bucket_of(settings: WindowSettings, key: int, start: int, buckets: int) -> int:
    """Return the bucket of a window.

    Parameters
    ----------
    settings : WindowSettings
        Of the operator. Windows of sessions are found by their key alone.
    key, start : int
        Of the window.
    buckets : int
        A power of two, at most 2**32.
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
