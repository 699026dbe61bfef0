"""Sequences of states, and a rule's view of a gate and of a result partition.

A row is anything indexable that holds integers: a list in the core, a row of an array in a
compiled kernel. Booleans are 0 and 1.
"""

from collections.abc import MutableSequence, Sequence
from typing import NamedTuple, TypeAlias

from flowcontrol.state.network import (
    GlobalPool,
    InputChannel,
    LocalPool,
    Message,
    ReceivedMessage,
    Subpartition,
)
from flowcontrol.state.queues import Queue

# --- Row layouts of the rules, and first-in-first-out rows.


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


# --- The two sides of an edge as the rules see them: an input gate, and a result partition


KIND_LOCAL = 3
"""Beside TAKEN_EXCLUSIVE and TAKEN_FLOATING: a buffer that stays charged to the producer."""

KIND_RECORDS = 4
"""No buffer: a number of records, of a transport that counts those."""

KIND_RESTORED = 5
"""No buffer: data in flight that a checkpoint persisted, read back after a restart.

Kinds from KIND_RECORDS on hold no segment, and no cursor counts them."""

KIND_HEAP = 6
"""A buffer of the heap: data that were put aside behind a barrier, read back."""


class Gate(NamedTuple):
    """Rows of one input gate (all channels from one edge to one subtask)."""

    channels: Sequence[InputChannel]  # Its channels
    pool: LocalPool  # The floating pool
    # The part of the global pool that is set aside for this gate's floating pool.
    segments: GlobalPool
    waiting: Row  # Channels that wait for a floating buffer, first come first served
    order: Row  # Channels with data, in the order in which they are polled
    # Per channel: received messages that the task has not polled.
    queues: Sequence[Queue[ReceivedMessage]]
    # Set of the channels that may have credit to announce; announcing clears it.
    dirty_channels: Row


class Partition(NamedTuple):
    """Rows of one result partition (all channels of one edge from one subtask)."""

    pool: LocalPool  # The partition's pool
    segments: GlobalPool  # The part of the global pool set aside for it, overdraft included
    channels: Sequence[Subpartition]  # Its subpartitions
    queues: Sequence[Queue[Message]]  # Per subpartition: finished buffers, and events
    # Per local subpartition, first in first out: buffers that each handed-over message frees.
    held: Rows
    counts: Row  # Buffers of the pool in use by each subpartition, for the quota
    # 1: all subpartitions read the same buffers, which count for the first one's quota.
    is_broadcast: int
