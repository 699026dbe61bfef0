"""What a window holds: how many elements, and sum, smallest and largest of their values."""

from typing import TypeAlias

from flowcontrol.protocol.event_time.bounds import MAX_TIME
from flowcontrol.protocol.windows.states import ColumnValues, WindowEntry

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
