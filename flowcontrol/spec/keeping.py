"""What a window operator keeps beyond a call: more room, and a state to go on from."""

from collections.abc import Mapping
from typing import Any, cast

from flowcontrol.protocol.windows.firing import bucket_of
from flowcontrol.protocol.windows.keeping import (
    ENTRY,
    FURTHER,
    STORE,
    buckets_for,
    further_of,
    open_places,
    put_entries,
)
from flowcontrol.state.declared import values_of
from flowcontrol.state.rows import Row
from flowcontrol.state.windows import (
    NONE,
    ColumnValues,
    WindowEntry,
    Windows,
    WindowSettings,
    WindowStore,
)


def new_windows(settings: WindowSettings, capacity: int, table: Row | None = None) -> Windows:
    """Return an operator without windows.

    - ``capacity``: windows that it can keep at once, at least 1.
    - ``table``: values of the further columns; needed where there are such.
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


def windows_of(
    settings: WindowSettings, state: Mapping[str, Any], least: int, table: Row | None = None
) -> Windows:
    """Return an operator that goes on from a kept state, with room for ``least`` windows."""
    windows = new_windows(settings, max(least, len(state["entries"])), table)
    for name in STORE:
        setattr(windows.store, name, state["store"][name])
    put_entries(windows, state["entries"])
    return windows
