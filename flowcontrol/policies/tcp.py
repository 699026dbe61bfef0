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

from flowcontrol.protocol.channel_rules import available_buffers, request_floating
from flowcontrol.protocol.rounds import (
    OUT_BUFFERS,
    OUT_FILL,
    OUT_LIMIT,
    OUT_OPEN,
    OUT_SENT,
    OUT_TAIL,
    Partition,
    let_go,
)
from flowcontrol.protocol.rows import CH_REQUIRED, Row, Rows, fifo_pop, fifo_push

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
    "close_buffer",
    "closed_buffers",
    "deliver_message",
    "enter_message",
    "enters_kernel",
    "has_room",
    "hear_window",
    "high_mark",
    "is_writable",
    "lacking_of",
    "low_mark",
    "obtain_buffer",
    "poll_closed",
    "read_socket",
    "records_of",
    "ring_slots",
    "stage_message",
    "staged_slot",
    "write_message",
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

_HALF = 32
"""Bits of the lower half of a closed buffer's entry: its records; above stands what it lacks."""


# ---- the sender: buffers, water marks


def closed_buffers(row: Row) -> int:
    """Return the buffers of a subpartition that may be sent: all but the open one.

    Notes
    -----
    ``RecordWriter`` of 1.4 adds a buffer to the subpartition when it is full or flushed, never
    before; so there is no slice of an open buffer, and a full one does not wait for the next.
    """
    return row[OUT_BUFFERS] - row[OUT_OPEN]


def close_buffer(partition: Partition, channel: int) -> int:
    """Close a subpartition's open buffer, however full; return 1, or 0 if there is none.

    Notes
    -----
    ``RecordWriter.flush`` of 1.4: the buffer goes as it is, and the next record needs another.
    """
    row = partition.channels[channel]
    if row[OUT_OPEN] == 0:
        return 0
    lacking = row[OUT_LIMIT] - row[OUT_FILL]
    fifo_push(partition.records[channel], row[OUT_TAIL] + (lacking << _HALF))
    row[OUT_OPEN] = 0
    row[OUT_TAIL] = 0
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
    row[OUT_BUFFERS] -= 1
    row[OUT_SENT] += 1
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


def high_mark(segments: int, segment_bytes: int) -> int:
    """Return the high water mark, bytes (``NettyServer``: two segments)."""
    return segments * segment_bytes


def low_mark(segments: int, segment_bytes: int, high: int) -> int:
    """Return the low water mark, bytes, at most the high one (a segment and a byte)."""
    return min(segments * segment_bytes + 1, high)


def is_writable(was: int, pending: int, high: int, low: int) -> int:
    """Tell whether a connection is writable, from what it was and its pending bytes: 1 if so.

    Notes
    -----
    Netty's ``ChannelOutboundBuffer``: not any more above the high mark, again below the low one.
    """
    if pending > high:
        return 0
    return 1 if pending < low else was


def has_room(wire: Row, ring: Rows) -> int:
    """Tell whether the ring has a slot for another message: 1 if so."""
    oldest = min(wire[W_DELIVERED], wire[W_FREED])
    return 1 if wire[W_WRITTEN] - oldest < len(ring) else 0


def write_message(wire: Row, ring: Rows, channel: int, records: int, nbytes: int) -> None:
    """Write a message to the connection, which is writable and :func:`has_room`."""
    message = ring[wire[W_WRITTEN] % len(ring)]
    message[S_CHANNEL] = channel
    message[S_RECORDS] = records
    message[S_BYTES] = nbytes
    message[S_ROUND] = -1
    wire[W_WRITTEN] += 1
    _pend(wire, nbytes)


def _pend(wire: Row, nbytes: int) -> None:
    wire[W_PENDING] += nbytes
    wire[W_WRITABLE] = is_writable(wire[W_WRITABLE], wire[W_PENDING], wire[W_HIGH], wire[W_LOW])


# ---- the kernel


def enters_kernel(held: int, nbytes: int, most: int) -> int:
    """Tell whether the kernel takes a message: 1 if it fits, or the kernel holds nothing.

    Notes
    -----
    A socket takes bytes, not messages; here one waits until there is room for all of it, and
    with nothing before it passes however small the sockets are, as it would byte by byte.
    """
    return 1 if held == 0 or held + nbytes <= most else 0


def enter_message(wire: Row, ring: Rows) -> int:
    """Let the kernel take the oldest pending message; return its slot, or -1 if it does not.

    The caller sets ``S_ROUND``, when it arrives.
    """
    if wire[W_ENTERED] == wire[W_WRITTEN]:
        return -1
    slot = wire[W_ENTERED] % len(ring)
    nbytes = ring[slot][S_BYTES]
    if enters_kernel(wire[W_HELD], nbytes, wire[W_MOST]) == 0:
        return -1
    wire[W_ENTERED] += 1
    wire[W_HELD] += nbytes
    _pend(wire, -nbytes)
    return slot


def hear_window(wire: Row, ring: Rows, now: int) -> int:
    """Free the room of messages that were read long enough ago; return how many."""
    count = 0
    while wire[W_FREED] < wire[W_READ]:
        message = ring[wire[W_FREED] % len(ring)]
        if message[S_ROUND] > now:
            break
        wire[W_HELD] -= message[S_BYTES]
        wire[W_FREED] += 1
        count += 1
    return count


# ---- the receiver: staging


def read_socket(wire: Row, ring: Rows, now: int, heard: int) -> int:
    """Read the socket once, if it is read at all: what has arrived, at most ``READ_BYTES``.

    Parameters
    ----------
    wire, ring : row, rows
        The connection. All that was read before has been delivered.
    now : int
        Round; what arrives later stays.
    heard : int
        Round in which the sender knows of the room.

    Returns
    -------
    int
        Messages read: at least one, if one has arrived. They are staged.
    """
    if wire[W_AUTO_READ] == 0:
        return 0
    count = nbytes = 0
    while wire[W_READ] < wire[W_ENTERED]:
        message = ring[wire[W_READ] % len(ring)]
        if message[S_ROUND] > now or (count > 0 and nbytes + message[S_BYTES] > READ_BYTES):
            break
        nbytes += message[S_BYTES]
        message[S_ROUND] = heard
        wire[W_READ] += 1
        count += 1
    return count


def staged_slot(wire: Row, ring: Rows) -> int:
    """Return the slot of the oldest message that is read and not delivered, or -1."""
    return wire[W_DELIVERED] % len(ring) if wire[W_DELIVERED] < wire[W_READ] else -1


def obtain_buffer(channel: Row, index: int, pool: Row, segments: Row, waiting: Row) -> int:
    """Take a buffer of the gate's pool for a message of a channel, or wait for one.

    Returns
    -------
    int
        1 if the channel holds one, which :func:`flowcontrol.protocol.rounds.receive` uses; 0 if
        it is registered: the next buffer that is recycled goes to who waits longest.

    Notes
    -----
    ``BufferListenerTask`` of 1.4 is the gate pool's listener; here its channel is, which then
    requires one buffer, and so the pool's rules are those that floating buffers have.
    """
    channel[CH_REQUIRED] = 1
    request_floating(channel, index, pool, segments, waiting)
    return 1 if available_buffers(channel) > 0 else 0


def deliver_message(wire: Row) -> None:
    """Note that the oldest staged message has got its buffer; after the last one, read on."""
    wire[W_DELIVERED] += 1
    if wire[W_DELIVERED] == wire[W_READ]:
        wire[W_AUTO_READ] = 1


def stage_message(wire: Row) -> None:
    """Note that the oldest staged message finds no buffer: the connection is not read."""
    wire[W_AUTO_READ] = 0


# ---- its size


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
