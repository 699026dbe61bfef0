"""What a window operator keeps beyond a call: more room, and a state to go on from."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, cast

from flowcontrol.protocol.rows import Row
from flowcontrol.protocol.state import columns
from flowcontrol.protocol.windows.entries import add, bucket_of
from flowcontrol.protocol.windows.states import (
    NONE,
    WindowEntry,
    Windows,
    WindowSettings,
    WindowStore,
)
from flowcontrol.protocol.windows.timers import schedule

STORE = ("watermark", "clock", "late", "fired")
"""Fields of the store that a state has."""
PLACED = {"chain", "event_due", "event_place", "clock_due", "clock_place"}
"""Fields of an entry that follow from where it is in the memory."""
ENTRY = tuple(name for name in columns(WindowEntry) if name not in PLACED)
"""Fields of an entry that a state has."""


def new_windows(settings: WindowSettings, capacity: int) -> Windows:
    """Return an operator without windows.

    Parameters
    ----------
    settings : WindowSettings
        What it does.
    capacity : int
        Windows that it can keep at once, at least 1.
    """
    entries = [WindowEntry() for _ in range(capacity)]
    return Windows(
        settings,
        WindowStore(),
        entries,
        [NONE] * buckets_for(capacity),
        [0] * (capacity + 1),
        [0] * (capacity + 1),
    )


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


def open_entries(windows: Windows) -> Iterator[WindowEntry]:
    """Yield the windows that are kept, the one that began first in front."""
    return (windows.entries[place - 1] for place in open_places(windows))


def grow(windows: Windows, capacity: int) -> None:
    """Give an operator whose rows are lists room for so many windows; its windows stay."""
    more = capacity - len(windows.entries)
    cast(list[WindowEntry], windows.entries).extend(WindowEntry() for _ in range(more))
    for heap in (windows.event_heap, windows.clock_heap):
        cast(list[int], heap).extend([0] * more)
    _chain_anew(windows, windows.buckets)


def _chain_anew(windows: Windows, buckets: Row) -> None:
    """Make as many buckets as the entries want, and put the windows into them."""
    count = buckets_for(len(windows.entries))
    buckets[:] = [NONE] * count
    for place in open_places(windows):
        entry = windows.entries[place - 1]
        bucket = bucket_of(windows.settings, entry.key, entry.start, count)
        entry.chain = buckets[bucket]
        buckets[bucket] = place


def kept_state(windows: Windows) -> dict[str, Any]:
    """Return what an operator between two calls needs to go on, of plain numbers."""
    return {
        "store": {name: getattr(windows.store, name) for name in STORE},
        "entries": [
            {name: getattr(entry, name) for name in ENTRY} for entry in open_entries(windows)
        ],
    }


def windows_of(settings: WindowSettings, state: Mapping[str, Any], least: int) -> Windows:
    """Return an operator that goes on from a kept state, with room for ``least`` windows."""
    windows = new_windows(settings, max(least, len(state["entries"])))
    for name in STORE:
        setattr(windows.store, name, state["store"][name])
    put_entries(windows, state["entries"])
    return windows


def put_entries(windows: Windows, entries: Sequence[Mapping[str, Any]]) -> None:
    """Give an operator without windows those of a kept state; there must be room for them."""
    for kept in entries:
        place = add(windows, kept["key"], kept["start"], kept["end"])
        for name in ENTRY:
            setattr(windows.entries[place - 1], name, kept[name])
        schedule(windows, place)
    windows.store.order = 1 + max((kept["order"] for kept in entries), default=-1)


def put_entries_back(windows: Windows, rows: Sequence[Sequence[int]]) -> None:
    """Give an operator whose rows are lists the entries of another one, in the same places.

    Parameters
    ----------
    windows : Windows
        Its store is that of the other one already; it has no windows yet.
    rows : sequence of sequence of int
        Values of each entry that ever held a window, by field.

    Notes
    -----
    At any moment, also in the middle of a burst. Heaps follow from where entries say they are in
    them; where chains of buckets lead depends on the room, and they are made anew.
    """
    grow(windows, max(len(windows.entries), len(rows)))
    for entry, values in zip(windows.entries, rows, strict=False):
        for name, value in zip(columns(WindowEntry), values, strict=True):
            setattr(entry, name, value)
    for place in open_places(windows):
        entry = windows.entries[place - 1]
        for heap, at in (
            (windows.event_heap, entry.event_place),
            (windows.clock_heap, entry.clock_place),
        ):
            if at != NONE:
                heap[at] = place
                heap[0] += 1
    _chain_anew(windows, windows.buckets)
