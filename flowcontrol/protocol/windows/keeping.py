"""What a window operator keeps beyond a call: more room, and a state to go on from."""

from collections.abc import Mapping, Sequence
from typing import Any, cast

from flowcontrol.protocol.windows.firing import add, bucket_of
from flowcontrol.protocol.windows.triggers import schedule
from flowcontrol.state.declared import columns, values_of
from flowcontrol.state.rows import Row
from flowcontrol.state.windows import (
    NONE,
    ColumnValues,
    WindowEntry,
    Windows,
    WindowSettings,
    WindowStore,
)

STORE = ("watermark", "clock", "late", "fired")
"""Fields of the store that a state has."""
PLACED = {"chain", "event_due", "event_place", "clock_due", "clock_place"}
"""Fields of an entry that follow from where it is in the memory."""
ENTRY = tuple(name for name in columns(WindowEntry) if name not in PLACED)
"""Fields of an entry that a state has."""
FURTHER = "further"
"""What a state has beside them: of each further column of the entry a list of its fields."""


def new_windows(settings: WindowSettings, capacity: int, table: Row | None = None) -> Windows:
    """Return an operator without windows.

    Parameters
    ----------
    settings : WindowSettings
        What it does.
    capacity : int
        Windows that it can keep at once, at least 1.
    table : Row, optional
        Values of the further columns; needed where there are such.
    """
    entries = [WindowEntry() for _ in range(capacity)]
    return Windows(
        settings,
        WindowStore(),
        entries,
        [NONE] * buckets_for(capacity),
        [0] * (capacity + 1),
        [0] * (capacity + 1),
        [ColumnValues() for _ in range((capacity + 1) * settings.further)],
        [] if table is None else table,
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


def grow(windows: Windows, capacity: int) -> None:
    """Give an operator whose rows are lists room for so many windows; its windows stay."""
    more, further = capacity - len(windows.entries), windows.settings.further
    cast(list[WindowEntry], windows.entries).extend(WindowEntry() for _ in range(more))
    held = cast(list[ColumnValues], windows.further)
    held.extend(ColumnValues() for _ in range(more * further))
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
        "entries": [_kept_entry(windows, place) for place in open_places(windows)],
    }


def _kept_entry(windows: Windows, place: int) -> dict[str, Any]:
    found = {name: getattr(windows.entries[place - 1], name) for name in ENTRY}
    return {**found, FURTHER: [list(values_of(held)) for held in further_of(windows, place)]}


def further_of(windows: Windows, place: int) -> Sequence[ColumnValues]:
    """Return what a window holds of the columns beside the first."""
    count = windows.settings.further
    return windows.further[place * count : (place + 1) * count]


def windows_of(
    settings: WindowSettings, state: Mapping[str, Any], least: int, table: Row | None = None
) -> Windows:
    """Return an operator that goes on from a kept state, with room for ``least`` windows."""
    windows = new_windows(settings, max(least, len(state["entries"])), table)
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
        _put_further(windows, place, kept[FURTHER])
        schedule(windows, place)
    windows.store.order = 1 + max((kept["order"] for kept in entries), default=-1)


def _put_further(windows: Windows, place: int, rows: Sequence[Sequence[int]]) -> None:
    for held, row in zip(further_of(windows, place), rows, strict=True):
        for name, value in zip(columns(ColumnValues), row, strict=True):
            setattr(held, name, value)
