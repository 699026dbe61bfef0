"""Row layouts of the rules, and first-in-first-out rows.

A row is anything indexable that holds integers: a list in the core, a row of an array in a
compiled kernel. Booleans are 0 and 1.
"""

from collections.abc import MutableSequence, Sequence
from typing import TypeAlias

Row: TypeAlias = MutableSequence[int]
Rows: TypeAlias = Sequence[Row]


FIFO_HEAD = 0  # slot of the oldest value, counted from FIFO_SLOTS
FIFO_COUNT = 1  # values queued
FIFO_SLOTS = 2  # first slot; the capacity is len(row) - FIFO_SLOTS

TAKEN_NONE = 0
TAKEN_EXCLUSIVE = 1
TAKEN_FLOATING = 2

UNLIMITED = -1
"""Maximum of a pool without one (Flink: ``NetworkBufferPool.UNBOUNDED_POOL_SIZE``)."""

WORD = 32
"""Members of a set that one integer of its row holds, a bit each."""

WORD_BITS = 5
"""WORD is 2 to that power. Shifts and masks round negative numbers as // and % do, and no sign has
to be looked at."""


def add_member(row: Row, member: int) -> None:
    """Put a small integer into a set: a row of ``members // WORD + 1`` integers or more."""
    row[member >> WORD_BITS] |= 1 << (member & (WORD - 1))


def add_all_members(row: Row) -> None:
    """Put every integer that the row has a bit for into a set."""
    for i in range(len(row)):
        row[i] = (1 << WORD) - 1


def fifo_push(row: Row, value: int) -> int:
    """Append ``value`` at the tail; return 1, or 0 (nothing changed) when the row is full."""
    capacity = len(row) - FIFO_SLOTS
    count = row[FIFO_COUNT]
    if count >= capacity:
        return 0
    slot = row[FIFO_HEAD] + count
    if slot >= capacity:  # cheaper than a division, and this is the hottest line of a kernel
        slot -= capacity
    row[FIFO_SLOTS + slot] = value
    row[FIFO_COUNT] = count + 1
    return 1


def fifo_pop(row: Row) -> int:
    """Remove and return the oldest value, or -1 when the row is empty."""
    if row[FIFO_COUNT] == 0:
        return -1
    oldest = row[FIFO_SLOTS + row[FIFO_HEAD]]  # which may be below 0 as well
    fifo_drop(row)
    return oldest


def fifo_first(row: Row) -> int:
    """Return the oldest value, or -1 when the row is empty."""
    return row[FIFO_SLOTS + row[FIFO_HEAD]] if row[FIFO_COUNT] > 0 else -1


def fifo_drop(row: Row) -> None:
    """Remove the oldest value; there is one."""
    head = row[FIFO_HEAD] + 1
    row[FIFO_HEAD] = head if head < len(row) - FIFO_SLOTS else 0
    row[FIFO_COUNT] -= 1


def fifo_rotate(row: Row) -> None:
    """Put the oldest value behind all others; there is one."""
    count = row[FIFO_COUNT]
    if count == 1:
        return
    capacity, head = len(row) - FIFO_SLOTS, row[FIFO_HEAD]
    slot = head + count
    if slot >= capacity:
        slot -= capacity
    row[FIFO_SLOTS + slot] = row[FIFO_SLOTS + head]
    row[FIFO_HEAD] = head + 1 if head + 1 < capacity else 0


def fifo_remove(row: Row, value: int) -> None:
    """Take every ``value`` out of a first-in-first-out row; the others keep their order."""
    for _ in range(row[FIFO_COUNT]):
        oldest = fifo_pop(row)
        if oldest != value:
            fifo_push(row, oldest)


def fifo(capacity: int) -> list[int]:
    """Return an empty first-in-first-out row."""
    return [0] * (FIFO_SLOTS + max(1, capacity))


def fifo_values(row: Sequence[int]) -> list[int]:
    """Return the values of a first-in-first-out row, oldest first."""
    capacity = len(row) - FIFO_SLOTS
    slots = ((row[FIFO_HEAD] + i) % capacity for i in range(row[FIFO_COUNT]))
    return [int(row[FIFO_SLOTS + slot]) for slot in slots]


def refill(row: Row, values: Sequence[int]) -> None:
    """Replace the values of a first-in-first-out row, oldest first."""
    row[FIFO_HEAD] = 0
    row[FIFO_COUNT] = len(values)
    for i, value in enumerate(values):
        row[FIFO_SLOTS + i] = value
