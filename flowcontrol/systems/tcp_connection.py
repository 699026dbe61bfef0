"""Flink up to 1.4: channels share a connection that is not read while a gate has no buffer.

``PartitionRequestQueue`` and ``NettyServer`` at the sender, ``PartitionRequestClientHandler`` at
the receiver (reference section 3). There are no credits: a message is written while the
connection is writable, the kernel's sockets take it while they have room, and the receiver reads
on until a message finds no buffer in its gate's pool. Then nothing is read for any channel.

One connection carries the channels of one edge from one task manager to another.

A connection has a ring of messages. Its five counters of messages only grow; a message's slot is
its number modulo the length of the ring.
"""

from __future__ import annotations

from dataclasses import dataclass

from flowcontrol.protocol.states import Message

HEADER_BYTES = 34
"""Bytes of a message besides its data: frame 9, receiver 16, sequence 4, kind 1, size 4."""

READ_BYTES = 65_536
"""Most that one read of a socket brings, bytes (Netty's ``AdaptiveRecvByteBufAllocator``)."""


@dataclass(slots=True)
class TcpConnection:
    """A connection at both of its ends."""

    high_mark: int = 0
    """Pending bytes above which it is not writable."""
    low_mark: int = 0
    """Pending bytes below which it is writable again."""
    kernel_bytes: int = 0
    """Bytes that the kernel holds at both ends together, at most."""
    is_writable: int = 1
    """1: messages may be written."""
    pending: int = 0
    """Bytes written and not yet taken by the kernel."""
    held: int = 0
    """Bytes in the kernel, as the sender knows."""
    written: int = 0
    """Messages written so far."""
    entered: int = 0
    """Of those, taken by the kernel."""
    read: int = 0
    """Of those, read from the socket at the receiver."""
    delivered: int = 0
    """Of those, given to their channels; the ones between are staged."""
    freed: int = 0
    """Of those read, the room of which the sender knows to be free again."""
    auto_read: int = 1
    """1: the receiver reads the socket."""


@dataclass(slots=True)
class TcpMessage(Message):
    """A message on a connection."""

    channel: int = 0
    """Channel of the job that it is of."""
    wire_bytes: int = 0
    """Bytes, its header included."""
    round: int = 0
    """In the kernel: round of its arrival; once read: of the sender knowing of its room."""


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
    flushed one has a record of its own, but for the one of each channel that began before. And a
    channel ends once.
    """
    most = max(kernel_bytes, segment_bytes + HEADER_BYTES)
    nbytes = most + high + 2 * (segment_bytes + HEADER_BYTES) + READ_BYTES
    flushed = nbytes // (record_bytes + HEADER_BYTES) + 2 * channels
    return flushed + nbytes // (segment_bytes + HEADER_BYTES) + 2
