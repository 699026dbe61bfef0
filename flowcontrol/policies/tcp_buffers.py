"""Buffers of Flink up to 1.4, which are sent when they are full or flushed, and then closed."""

from __future__ import annotations

from flowcontrol.protocol.rounds import (
    Partition,
    let_go,
)
from flowcontrol.protocol.rows import fifo_pop, fifo_push
from flowcontrol.protocol.states import Subpartition

__all__ = ["close_buffer", "closed_buffers", "lacking_of", "poll_closed", "records_of"]

_HALF = 32
"""Bits of the lower half of a closed buffer's entry: its records; above stands what it lacks."""


def closed_buffers(row: Subpartition) -> int:
    """Return the buffers of a subpartition that may be sent: all but the open one.

    Notes
    -----
    ``RecordWriter`` of 1.4 adds a buffer to the subpartition when it is full or flushed, never
    before; so there is no slice of an open buffer, and a full one does not wait for the next.
    """
    return row.buffers - row.is_open


def close_buffer(partition: Partition, channel: int) -> int:
    """Close a subpartition's open buffer, however full; return 1, or 0 if there is none.

    Notes
    -----
    ``RecordWriter.flush`` of 1.4: the buffer goes as it is, and the next record needs another.
    """
    row = partition.channels[channel]
    if row.is_open == 0:
        return 0
    lacking = row.limit - row.filled
    fifo_push(partition.records[channel], row.tail + (lacking << _HALF))
    row.is_open = 0
    row.tail = 0
    return 1


def poll_closed(partition: Partition, channel: int, quota: int, is_local: int) -> int:
    """Take a subpartition's oldest closed buffer.

    Parameters
    ----------
    partition : Partition
        The sender's.
    channel : int
        Its subpartition.
    quota : int
        ``max-buffers-per-channel``; -1 for none, as 1.4 has.
    is_local : int
        1: the consumer reads the very buffer, and the pool gets it back later.

    Returns
    -------
    int
        For :func:`records_of` and :func:`lacking_of`; -1 if there is none.

    Notes
    -----
    ``NettyMessage.BufferResponse.write`` of 1.4 copies the data into a buffer of Netty's and
    recycles its own at once, so a message that is pending takes no buffer of the pool.
    """
    row = partition.channels[channel]
    entry = fifo_pop(partition.records[channel])
    if entry < 0:
        return -1
    row.buffers -= 1
    row.sent += 1
    if is_local == 1:
        fifo_push(partition.held[channel], 1)
    else:
        let_go(partition, channel, quota)
    return entry


def records_of(entry: int) -> int:
    """Return the records that end in a closed buffer."""
    return entry & ((1 << _HALF) - 1)


def lacking_of(entry: int) -> int:
    """Return the bytes that a closed buffer lacks of a whole segment."""
    return entry >> _HALF
