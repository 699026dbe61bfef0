"""What a checkpoint keeps of windows, and how they begin again from it."""

from collections.abc import Mapping, Sequence
from typing import Any

from flowcontrol.protocol.windows.firing import add
from flowcontrol.protocol.windows.triggers import schedule
from flowcontrol.state.declared import columns
from flowcontrol.state.windows import NONE, ColumnValues, WindowEntry, Windows

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
