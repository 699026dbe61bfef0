"""The receiving side of a connection: it is not read while a message has no buffer."""

from __future__ import annotations

from collections.abc import Sequence

from flowcontrol.protocol.channel_rules import available_buffers, request_floating
from flowcontrol.protocol.sides import Gate
from flowcontrol.systems.tcp_connection import READ_BYTES, TcpConnection, TcpMessage


def read_socket(wire: TcpConnection, ring: Sequence[TcpMessage], now: int, heard: int) -> int:
    """Read the socket once, if it is read at all: what has arrived, at most ``READ_BYTES``.

    Parameters
    ----------
    wire, ring : TcpConnection, sequence of TcpMessage
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
