"""Row layouts of the rules, and first-in-first-out rows.

A row is anything indexable that holds integers: a list in the core, a row of an array in a
compiled kernel. Booleans are 0 and 1.
"""

from __future__ import annotations

from collections.abc import MutableSequence, Sequence
from typing import TypeAlias

from flowcontrol.protocol.sizing import UNLIMITED

__all__ = [
    "CH_EXCLUSIVE",
    "CH_FLOATING",
    "CH_INITIAL",
    "CH_RELEASED",
    "CH_REQUIRED",
    "CH_UNANNOUNCED",
    "CH_WAITING",
    "CH_WIDTH",
    "FIFO_COUNT",
    "FIFO_HEAD",
    "FIFO_SLOTS",
    "GLOBAL_FREE",
    "GLOBAL_REQUIRED",
    "GLOBAL_TOTAL",
    "GLOBAL_UNPOOLED",
    "GLOBAL_WIDTH",
    "POOL_AT_QUOTA",
    "POOL_DESTROYED",
    "POOL_FREE",
    "POOL_IN_USE",
    "POOL_MAX",
    "POOL_OVERDRAFT",
    "POOL_REQUIRED",
    "POOL_SIZE",
    "POOL_WIDTH",
    "TAKEN_EXCLUSIVE",
    "TAKEN_FLOATING",
    "TAKEN_NONE",
    "UNLIMITED",
    "WORD",
    "Row",
    "Rows",
    "add_all_members",
    "add_member",
    "fifo_pop",
    "fifo_push",
    "fifo_remove",
]

Row: TypeAlias = MutableSequence[int]
Rows: TypeAlias = Sequence[Row]

CH_EXCLUSIVE = 0  # free exclusive buffers
CH_FLOATING = 1  # free floating buffers held
CH_REQUIRED = 2  # free buffers the channel wants; may be negative
CH_WAITING = 3  # 1: registered in the gate's waiting list
CH_UNANNOUNCED = 4  # credit gained, not yet told to the sender
CH_INITIAL = 5  # initial credit = exclusive buffers owned; constant
CH_RELEASED = 6  # 1: released
CH_WIDTH = 7

POOL_SIZE = 0  # current quota
POOL_IN_USE = 1  # requested - free
POOL_FREE = 2  # free segments held
POOL_REQUIRED = 3  # minimum
POOL_MAX = 4  # maximum; UNLIMITED = none
POOL_OVERDRAFT = 5  # most segments above the quota
POOL_AT_QUOTA = 6  # subpartitions at their quota
POOL_DESTROYED = 7  # 1: destroyed
POOL_WIDTH = 8

GLOBAL_TOTAL = 0  # segments; constant
GLOBAL_FREE = 1  # segments not handed out
GLOBAL_UNPOOLED = 2  # segments promised as exclusive buffers
GLOBAL_REQUIRED = 3  # sum of the minima of all pools
GLOBAL_WIDTH = 4

FIFO_HEAD = 0  # slot of the oldest value, counted from FIFO_SLOTS
FIFO_COUNT = 1  # values queued
FIFO_SLOTS = 2  # first slot; the capacity is len(row) - FIFO_SLOTS

TAKEN_NONE = 0
TAKEN_EXCLUSIVE = 1
TAKEN_FLOATING = 2

WORD = 32
"""Members of a set that one integer of its row holds, a bit each."""


def add_member(row: Row, member: int) -> None:
    """Put a small integer into a set: a row of ``members // WORD + 1`` integers or more."""
    row[member // WORD] |= 1 << (member % WORD)


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
    head = row[FIFO_HEAD]
    row[FIFO_HEAD] = head + 1 if head + 1 < len(row) - FIFO_SLOTS else 0
    row[FIFO_COUNT] -= 1
    return row[FIFO_SLOTS + head]


def fifo_remove(row: Row, value: int) -> int:
    """Remove the oldest occurrence of ``value``, keeping the order; return 1, or 0 if absent."""
    capacity = len(row) - FIFO_SLOTS
    head = row[FIFO_HEAD]
    found = 0
    for i in range(row[FIFO_COUNT]):
        slot = FIFO_SLOTS + (head + i) % capacity
        if found == 1:
            row[FIFO_SLOTS + (head + i - 1) % capacity] = row[slot]
        elif row[slot] == value:
            found = 1
    row[FIFO_COUNT] -= found
    return found
