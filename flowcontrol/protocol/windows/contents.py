"""What a window holds: how many elements, and sum, smallest and largest of their values."""

from flowcontrol.protocol.event_time.bounds import MAX_TIME
from flowcontrol.protocol.windows.states import WindowEntry

NO_VALUE = -MAX_TIME
"""In a table of values: there is none."""


def put_in(entry: WindowEntry, value: int, has_value: int) -> None:
    """Count an element in a window, and add its value if it has one."""
    entry.count += 1
    if has_value == 0:
        return
    entry.min = value if entry.valued == 0 else min(entry.min, value)
    entry.max = value if entry.valued == 0 else max(entry.max, value)
    entry.sum = _total(entry.sum, value)
    entry.valued += 1


def absorb(entry: WindowEntry, other: WindowEntry) -> None:
    """Add what another window holds to a window."""
    entry.count += other.count
    if other.valued == 0:
        return
    entry.min = other.min if entry.valued == 0 else min(entry.min, other.min)
    entry.max = other.max if entry.valued == 0 else max(entry.max, other.max)
    entry.sum = _total(entry.sum, other.sum)
    entry.valued += other.valued


def purge(entry: WindowEntry) -> None:
    """Empty a window."""
    entry.count = 0
    entry.valued = 0
    entry.sum = 0
    entry.min = 0
    entry.max = 0


def _total(number: int, more: int) -> int:
    """Return a sum, or the end of the 64 bits that it would leave."""
    if more > 0:
        return number + more if number <= MAX_TIME - more else MAX_TIME
    least = -MAX_TIME - 1
    return number + more if number >= least - more else least
