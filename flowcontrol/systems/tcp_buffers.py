"""Buffers of Flink up to 1.4, which are sent when they are full or flushed, and then closed."""

from flowcontrol.protocol.queues import is_event
from flowcontrol.protocol.rounds import let_go
from flowcontrol.protocol.rows import FIFO_COUNT, FIFO_SLOTS, fifo_push
from flowcontrol.protocol.sides import Partition
from flowcontrol.protocol.states import Message, Subpartition
from flowcontrol.protocol.subpartition_rules import finish_buffer, head_is_event, poll_queue


def closed_buffers(row: Subpartition) -> int:
    """Return the messages of a subpartition that may be sent: all but the open buffer.

    Notes
    -----
    ``RecordWriter`` of 1.4 adds a buffer to the subpartition when it is full or flushed, never
    before; so there is no slice of an open buffer, and a full one does not wait for the next.
    """
    return row.buffers - row.is_open + row.events


def close_buffer(partition: Partition, channel: int) -> int:
    """Close a subpartition's open buffer, however full; return 1, or 0 if there is none.

    Notes
    -----
    ``RecordWriter.flush`` of 1.4: the buffer goes as it is, and the next record needs another.
    """
    if partition.channels[channel].is_open == 0:
        return 0
    finish_buffer(partition.channels[channel], partition.queues[channel])
    return 1


def poll_closed(
    partition: Partition, channel: int, quota: int, is_local: int, message: Message
) -> int:
    """Take a subpartition's oldest closed buffer or event.

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
    message : Message
        Filled.

    Returns
    -------
    int
        1, or 0 if there is none.

    Notes
    -----
    ``NettyMessage.BufferResponse.write`` of 1.4 copies the data into a buffer of Netty's and
    recycles its own at once, so a message that is pending takes no buffer of the pool.
    """
    row, held = partition.channels[channel], partition.held[channel]
    if closed_buffers(row) == 0:
        return 0
    is_handed = is_local == 1 and head_is_event(row, partition.queues[channel]) == 0
    if is_handed and held[FIFO_COUNT] == len(held) - FIFO_SLOTS:
        return 0
    poll_queue(row, partition.queues[channel], message)
    message.backlog = 0
    if is_handed:
        fifo_push(held, 1)
    elif is_event(message) == 0:
        let_go(partition, channel, quota)
    return 1
