"""What a window holds: how many elements, and sum, smallest and largest of their values."""

from flowcontrol.protocol.event_time.bounds import MAX_TIME
from flowcontrol.protocol.windows.states import WindowEntry


def put_in(entry: WindowEntry, value: int) -> None:
    """Add an element's value to a window."""
    entry.min = value if entry.count == 0 else min(entry.min, value)
    entry.max = value if entry.count == 0 else max(entry.max, value)
    entry.sum = _total(entry.sum, value)
    entry.count += 1


def absorb(entry: WindowEntry, other: WindowEntry) -> None:
    """Add what another window holds to a window."""
    if other.count == 0:
        return
    entry.min = other.min if entry.count == 0 else min(entry.min, other.min)
    entry.max = other.max if entry.count == 0 else max(entry.max, other.max)
    entry.sum = _total(entry.sum, other.sum)
    entry.count += other.count


def purge(entry: WindowEntry) -> None:
    """Empty a window."""
    entry.count = 0
    entry.sum = 0
    entry.min = 0
    entry.max = 0


def _total(number: int, more: int) -> int:
    """Return a sum, or the end of the 64 bits that it would leave."""
    if more > 0:
        return number + more if number <= MAX_TIME - more else MAX_TIME
    least = -MAX_TIME - 1
    return number + more if number >= least - more else least
