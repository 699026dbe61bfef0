"""Connections without credits, as Flink had up to 1.4: TCP alone holds a sender back."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from flowcontrol.protocol.network.credit_rules import available_buffers, request_floating
from flowcontrol.protocol.network.events import FRAME_BYTES, Frame
from flowcontrol.protocol.network.rounds import let_go
from flowcontrol.protocol.network.subpartition_rules import finish_buffer, head_is_event, poll_queue
from flowcontrol.state.network import Message, Subpartition
from flowcontrol.state.queues import is_event
from flowcontrol.state.rows import FIFO_COUNT, FIFO_SLOTS, Gate, Partition, fifo_push

# --- Flink up to 1.4: channels share a connection that is not read while a gate has no buffer.
#
# `PartitionRequestQueue` and `NettyServer` at the sender, `PartitionRequestClientHandler` at
# the receiver (reference section 3). There are no credits: a message is written while the
# connection is writable, the kernel's sockets take it while they have room, and the receiver
# reads on until a message finds no buffer in its gate's pool. Then nothing is read for any
# channel.
#
# One connection carries the channels of one edge from one task manager to another.
#
# A connection has a ring of messages. Its five counters of messages only grow; a message's
# slot is its number modulo the length of the ring.


HEADER_BYTES = 34
"""Bytes of a message besides its data: frame 9, receiver 16, sequence 4, kind 1, size 4."""

NOBODY = -1
"""In place of a message's channel: its tasks began anew, and nobody takes it."""

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
    kernel_bytes: int,
    high: int,
    segment_bytes: int,
    record_bytes: int,
    channels: int,
    events: int = 1,
) -> int:
    """Return the most messages that a connection may have at once.

    A message is a whole segment or was flushed, and a flush cuts between two records: so each
    flushed one has a record of its own, but for the one of each channel that began before. A
    barrier cuts as a flush does. After a failure, messages of two attempts may be under way.

    - ``kernel_bytes``, ``high``: room in the kernel, and high water mark, bytes.
    - ``segment_bytes``: largest message's data, bytes.
    - ``record_bytes``: of the smallest records that it carries, bytes.
    - ``channels``: that share it.
    """
    most = max(kernel_bytes, segment_bytes + HEADER_BYTES)
    nbytes = most + high + 2 * (segment_bytes + HEADER_BYTES) + READ_BYTES
    flushed = nbytes // (record_bytes + HEADER_BYTES) + 2 * (1 + events) * channels
    return flushed + nbytes // (segment_bytes + HEADER_BYTES) + 2


# ---- the sending side: water marks, and the room that the kernel's sockets have


def high_mark(segments: int, segment_bytes: int) -> int:
    """Return the high water mark, bytes (``NettyServer``: two segments)."""
    return segments * segment_bytes


def low_mark(segments: int, segment_bytes: int, high: int) -> int:
    """Return the low water mark, bytes, at most the high one (a segment and a byte)."""
    return min(segments * segment_bytes + 1, high)


def is_writable(was: int, pending: int, high: int, low: int) -> int:
    """Tell whether a connection is writable, from what it was and its pending bytes: 1 if so.

    Netty's ``ChannelOutboundBuffer``: not any more above the high mark, again below the low one.
    """
    if pending > high:
        return 0
    return 1 if pending < low else was


def has_room(wire: TcpConnection, ring: Sequence[TcpMessage]) -> int:
    """Tell whether the ring has a slot for another message: 1 if so."""
    oldest = min(wire.delivered, wire.freed)
    return 1 if wire.written - oldest < len(ring) else 0


def next_message(wire: TcpConnection, ring: Sequence[TcpMessage]) -> TcpMessage:
    """Return the message that is written next, to be filled."""
    return ring[wire.written % len(ring)]


def write_message(wire: TcpConnection, message: TcpMessage, channel: int) -> None:
    """Write the next message to the connection, which is writable and :func:`has_room`."""
    message.channel = channel
    message.wire_bytes = message.nbytes + HEADER_BYTES
    message.round = -1
    wire.written += 1
    _pend(wire, message.wire_bytes)


def _pend(wire: TcpConnection, nbytes: int) -> None:
    wire.pending += nbytes
    wire.is_writable = is_writable(wire.is_writable, wire.pending, wire.high_mark, wire.low_mark)


def enters_kernel(held: int, nbytes: int, most: int) -> int:
    """Tell whether the kernel takes a message: 1 if it fits, or the kernel holds nothing.

    A socket takes bytes, not messages; here one waits until there is room for all of it, and
    with nothing before it passes however small the sockets are, as it would byte by byte.
    """
    return 1 if held == 0 or held + nbytes <= most else 0


def enter_message(wire: TcpConnection, ring: Sequence[TcpMessage]) -> int:
    """Let the kernel take the oldest pending message; return its slot, or -1 if it does not.

    The caller sets ``round``, when it arrives.
    """
    if wire.entered == wire.written:
        return -1
    slot = wire.entered % len(ring)
    nbytes = ring[slot].wire_bytes
    if enters_kernel(wire.held, nbytes, wire.kernel_bytes) == 0:
        return -1
    wire.entered += 1
    wire.held += nbytes
    _pend(wire, -nbytes)
    return slot


def on_window_update(wire: TcpConnection, ring: Sequence[TcpMessage], now: int) -> int:
    """Free the room of messages that were read long enough ago; return how many."""
    count = 0
    while wire.freed < wire.read:
        message = ring[wire.freed % len(ring)]
        if message.round > now:
            break
        wire.held -= message.wire_bytes
        wire.freed += 1
        count += 1
    return count


# ---- the receiving side: it is not read while a message has no buffer


def read_socket(wire: TcpConnection, ring: Sequence[TcpMessage], now: int, heard: int) -> int:
    """Read the socket once, if it is read at all: what has arrived, at most ``READ_BYTES``.

    - ``wire``, ``ring`` (sequence of TcpMessage): the connection. All that was read before has been
      delivered.
    - ``now``: round; what arrives later stays.

    Returns the number of messages read: at least one, if one has arrived. They are staged.
    """
    if wire.auto_read == 0:
        return 0
    count = nbytes = 0
    while wire.read < wire.entered:
        message = ring[wire.read % len(ring)]
        if message.round > now or (count > 0 and nbytes + message.wire_bytes > READ_BYTES):
            break
        nbytes += message.wire_bytes
        message.round = heard
        wire.read += 1
        count += 1
    return count


def staged_slot(wire: TcpConnection, ring: Sequence[TcpMessage]) -> int:
    """Return the slot of the oldest message that is read and not delivered, or -1."""
    return wire.delivered % len(ring) if wire.delivered < wire.read else -1


def obtain_buffer(gate: Gate, index: int) -> int:
    """Take a buffer of the gate's pool for a message of a channel, or wait for one.

    ``BufferListenerTask`` of 1.4 is the gate pool's listener; here its channel is, which then
    requires one buffer, and so the pool's rules are those that floating buffers have.

    Returns 1 if the channel holds one, which :func:`flowcontrol.protocol.network.rounds.receive`
    uses; 0 if it is registered: the next recycled buffer goes to the one that waits longest.
    """
    gate.channels[index].required = 1
    request_floating(gate, index)
    return 1 if available_buffers(gate.channels[index]) > 0 else 0


def deliver_message(wire: TcpConnection) -> None:
    """Note that the oldest staged message has got its buffer; after the last one, read on."""
    wire.delivered += 1
    if wire.delivered == wire.read:
        wire.auto_read = 1


def stage_message(wire: TcpConnection) -> None:
    """Note that the oldest staged message finds no buffer: the connection is not read."""
    wire.auto_read = 0


# --- Buffers of Flink up to 1.4, which are sent when they are full or flushed, and then closed


def closed_buffers(row: Subpartition) -> int:
    """Return the messages of a subpartition that may be sent: all but the open buffer.

    ``RecordWriter`` of 1.4 adds a buffer to the subpartition when it is full or flushed, never
    before; so there is no slice of an open buffer, and a full one does not wait for the next.
    """
    return row.buffers - row.is_open + row.events


def close_buffer(partition: Partition, channel: int) -> int:
    """Close a subpartition's open buffer, however full; return 1, or 0 if there is none.

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

    ``NettyMessage.BufferResponse.write`` of 1.4 copies the data into a buffer of Netty's and
    recycles its own at once, so a message that is pending takes no buffer of the pool.

    - ``quota``: ``max-buffers-per-channel``; -1 for none, as 1.4 has.
    - ``is_local``: 1: the consumer reads the very buffer, and the pool gets it back later.

    1, or 0 if there is none.
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


# --- What the messages of Flink up to 1.4 weigh: no credit and no backlog is among their fields


_ID_BYTES: Final = 16
"""Every id of that time, bytes."""

TCP_HEADER_BYTES: Final[Mapping[Frame, int]] = {
    # partition, producer, receiver; subpartition
    Frame.PARTITION_REQUEST: FRAME_BYTES + 3 * _ID_BYTES + 4,
    Frame.BUFFER_RESPONSE: HEADER_BYTES,
    Frame.ERROR_RESPONSE: FRAME_BYTES + _ID_BYTES + 1,
    Frame.CANCEL_PARTITION_REQUEST: FRAME_BYTES + _ID_BYTES,
    Frame.CLOSE_REQUEST: FRAME_BYTES,
}
"""Bytes of each message besides data, of Flink 1.4; those of a serialised cause left out."""
