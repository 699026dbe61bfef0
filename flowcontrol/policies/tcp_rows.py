"""Flink up to 1.4: channels share a connection that is not read while a gate has no buffer.

``PartitionRequestQueue`` and ``NettyServer`` at the sender, ``PartitionRequestClientHandler`` at
the receiver (reference section 3). There are no credits: a message is written while the
connection is writable, the kernel's sockets take it while they have room, and the receiver reads
on until a message finds no buffer in its gate's pool. Then nothing is read for any channel.

One connection carries the channels of one edge from one task manager to another.

A connection is a row of ``W_WIDTH`` integers and a ring of messages, ``S_WIDTH`` each. Its five
counters only grow; a message's slot is its number modulo the length of the ring.
"""

from __future__ import annotations

__all__ = [
    "HEADER_BYTES",
    "READ_BYTES",
    "S_BYTES",
    "S_CHANNEL",
    "S_RECORDS",
    "S_ROUND",
    "S_WIDTH",
    "W_AUTO_READ",
    "W_DELIVERED",
    "W_ENTERED",
    "W_FREED",
    "W_HELD",
    "W_HIGH",
    "W_LOW",
    "W_MOST",
    "W_PENDING",
    "W_READ",
    "W_WIDTH",
    "W_WRITABLE",
    "W_WRITTEN",
    "ring_slots",
]

HEADER_BYTES = 34
"""Bytes of a message besides its data: frame 9, receiver 16, sequence 4, kind 1, size 4."""

READ_BYTES = 65_536
"""Most that one read of a socket brings, bytes (Netty's ``AdaptiveRecvByteBufAllocator``)."""

W_HIGH = 0  # pending bytes above which the connection is not writable
W_LOW = 1  # pending bytes below which it is writable again
W_MOST = 2  # bytes that the kernel holds at both ends together
W_WRITABLE = 3  # 1: messages may be written
W_PENDING = 4  # bytes written and not yet taken by the kernel
W_HELD = 5  # bytes in the kernel, as the sender knows
W_WRITTEN = 6  # messages written so far
W_ENTERED = 7  # of those, taken by the kernel
W_READ = 8  # of those, read from the socket at the receiver
W_DELIVERED = 9  # of those, given to their channels; the ones between are staged
W_FREED = 10  # of those read, the room of which the sender knows to be free again
W_AUTO_READ = 11  # 1: the receiver reads the socket
W_WIDTH = 12

S_CHANNEL = 0
S_RECORDS = 1  # records that end in the message
S_BYTES = 2  # with its header
S_ROUND = 3  # in the kernel: when it arrives; once read: when the sender knows of the room
S_WIDTH = 4


def ring_slots(
    kernel_bytes: int, high: int, segment_bytes: int, record_bytes: int, channels: int
) -> int:
    """Return the most messages that a connection may have at once.

    Parameters
    ----------
    kernel_bytes, high : int
        Room in the kernel, and high water mark, bytes.
    segment_bytes : int
        Largest message's data, bytes.
    record_bytes : int
        Of the smallest records that it carries, bytes.
    channels : int
        That share it.

    Notes
    -----
    A message is a whole segment or was flushed, and a flush cuts between two records: so each
    flushed one has a record of its own, but for the one of each channel that began before.
    """
    most = max(kernel_bytes, segment_bytes + HEADER_BYTES)
    nbytes = most + high + 2 * (segment_bytes + HEADER_BYTES) + READ_BYTES
    flushed = nbytes // (record_bytes + HEADER_BYTES) + channels
    return flushed + nbytes // (segment_bytes + HEADER_BYTES) + 2
