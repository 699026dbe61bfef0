"""What a window has: the windows of an element, its aggregates, and its key."""

from typing import TypeAlias

from flowcontrol.protocol.event_time import ID_BITS, IDS
from flowcontrol.state.rows import Row
from flowcontrol.state.tasks import MAX_TIME, earlier, later
from flowcontrol.state.windows import (
    NONE,
    ColumnValues,
    WindowEntry,
    Windows,
    WindowSettings,
    WindowStore,
)

# --- Which windows an element belongs to, and how long they are kept.
#
# Source: section 6 of checkpoints-and-time; `TimeWindow.getWindowStartWithOffset`, the
# assigners of Flink, `WindowOperator.cleanupTime`. All times are milliseconds.


PANES = 0
"""Tumbling and sliding windows."""
SESSIONS = 1
"""Windows that end when a key is silent for a gap."""
GLOBAL = 2
"""One window for all time."""


def start_of(ms: int, offset: int, size: int) -> int:
    """Return the start of the last window that begins at or before a time.

    ``size``: from one start to the next, above 0.
    """
    return earlier(ms, (ms % size - offset % size) % size)


def last_ms(settings: WindowSettings, end: int) -> int:
    """Return the last time in a window (``maxTimestamp``), which is that of its results."""
    return end if settings.kind == GLOBAL else earlier(end, 1)


def cleanup_ms(settings: WindowSettings, end: int) -> int:
    """Return when a window is removed; MAX_TIME: never.

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


# --- What a window holds: how many elements, and sum, smallest and largest of their values


NO_VALUE = -MAX_TIME
"""In a table of values: there is none."""

Held: TypeAlias = WindowEntry | ColumnValues
"""What a window holds of a column: of the first, or of another."""


def put_in(entry: WindowEntry, value: int, has_value: int) -> None:
    """Count an element in a window, and add its value if it has one."""
    entry.count += 1
    if has_value == 1:
        put_value_in(entry, value)


def put_value_in(held: Held, value: int) -> None:
    """Add a value to what a window holds of its column."""
    held.min = value if held.valued == 0 else min(held.min, value)
    held.max = value if held.valued == 0 else max(held.max, value)
    _add(held, value, 0)
    held.valued += 1


def absorb(entry: WindowEntry, other: WindowEntry) -> None:
    """Add what another window holds to a window."""
    entry.count += other.count
    absorb_values(entry, other)


def absorb_values(held: Held, other: Held) -> None:
    """Add what another window holds of a column to what a window holds of it."""
    if other.valued == 0:
        return
    held.min = other.min if held.valued == 0 else min(held.min, other.min)
    held.max = other.max if held.valued == 0 else max(held.max, other.max)
    _add(held, other.sum, other.wraps)
    held.valued += other.valued


def purge(entry: WindowEntry) -> None:
    """Empty a window."""
    entry.count = 0
    purge_values(entry)


def purge_values(held: Held) -> None:
    """Forget what a window holds of a column."""
    held.valued = 0
    held.sum = 0
    held.min = 0
    held.max = 0
    held.wraps = 0


def _add(held: Held, more: int, wraps: int) -> None:
    """Add to the sum of a column, of which nothing is lost where it leaves 64 bits."""
    number, least = held.sum, -MAX_TIME - 1
    held.wraps += wraps
    if more > 0 and number > MAX_TIME - more:
        held.wraps += 1
        held.sum = (number + least) + (more + least)
    elif more < 0 and number < least - more:
        held.wraps -= 1
        held.sum = (number - least) + (more - least)
    else:
        held.sum = number + more


# --- Columns that windows aggregate beside the first: what each window holds of them.
#
# Each function does for them what one of contents does for the first column. Those of an
# entry stand together, at its place; place 0, where no entry is, has those of the newest
# result. Where no window has further columns, they do nothing.


def put_further_in(windows: Windows, place: int) -> None:
    """Add the values of the element that is being taken in to a window; those that it has."""
    columns = windows.settings.further
    for i in range(columns):
        value = windows.table[windows.store.element_id * columns + i]
        if value != NO_VALUE:
            put_value_in(windows.further[place * columns + i], value)


def absorb_further(windows: Windows, place: int, other: int) -> None:
    """Add what the window at another place holds to a window."""
    columns = windows.settings.further
    for i in range(columns):
        absorb_values(windows.further[place * columns + i], windows.further[other * columns + i])


def purge_further(windows: Windows, place: int) -> None:
    """Empty a window."""
    columns = windows.settings.further
    for i in range(columns):
        purge_values(windows.further[place * columns + i])


def put_further_out(windows: Windows, place: int) -> None:
    """Make what a window holds that of the newest result."""
    purge_further(windows, NONE)
    absorb_further(windows, NONE, place)


# --- Keys of records: which key an id of a stamp stands for, and which id stands for a key.
#
# A key is a number from 0. Of made records, keys that are alike often have ids alike; those
# of a distribution a table, `firsts`: the first id of each key. Of replayed rows a table has
# the key of each id. So a key is a function of the record alone, wherever it goes.


BLOCK_BITS = 7
"""Bits of an id that tell those of a block apart: the guide to a table has an entry a block."""


def key_of(number: int, keys: int, firsts: Row, guide: Row) -> int:
    """Return the key of a record.

    - ``keys``: how many keys there are, 1 to IDS.
    - ``firsts``: first id of each key, not decreasing; empty: all keys are alike. A key that begins
      where the next one does has no record.
    - ``guide``: key of the first id of each block of ids, and at its end the last key; empty: there
      is none, and the whole table is searched.
    """
    if len(firsts) == 0:
        return (number * keys) >> ID_BITS
    key, left = 0, len(firsts)
    if len(guide) > 0:
        key = guide[number >> BLOCK_BITS]
        left = guide[(number >> BLOCK_BITS) + 1] - key + 1
    while left > 1:  # without a branch, which would be guessed wrong every other time
        half = left >> 1
        key += half * int(firsts[key + half] <= number)
        left -= half
    return key


def key_by_table(number: int, keys: int, firsts: Row, guide: Row, numbers: Row) -> int:
    """Return the key of a record, made or replayed.

    - ``firsts``, ``guide``: first id of each key, of made records as :func:`key_of` wants it, and
      the guide to that.
    - ``numbers``: key of each id, of replayed rows; empty: records are made.
    """
    return numbers[number] if len(numbers) > 0 else key_of(number, keys, firsts, guide)


def id_of_key(key: int, keys: int, firsts: Row, numbers: Row) -> int:
    """Return the first id that stands for a key: that of the results of its windows.

    A key that no record of the input has, since only others bring it, has the id that it has where
    keys are alike.
    """
    if len(firsts) == 0 or (len(numbers) == 0 and _has_ids(key, firsts) == 0):
        return (key * IDS + keys - 1) // keys
    return firsts[key]


def _has_ids(key: int, firsts: Row) -> int:
    """Tell whether any id stands for a key of made records: 1 if so."""
    end = IDS if key + 1 == len(firsts) else firsts[key + 1]
    return 1 if firsts[key] < end else 0
