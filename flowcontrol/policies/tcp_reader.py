"""The receiving side of a connection: it is not read while a message has no buffer."""

from __future__ import annotations

from flowcontrol.policies.tcp_rows import (
    READ_BYTES,
    S_BYTES,
    S_ROUND,
    W_AUTO_READ,
    W_DELIVERED,
    W_ENTERED,
    W_READ,
)
from flowcontrol.protocol.channel_rules import available_buffers, request_floating
from flowcontrol.protocol.rows import Row, Rows
from flowcontrol.protocol.states import GlobalPool, InputChannel, LocalPool

__all__ = [
    "deliver_message",
    "obtain_buffer",
    "read_socket",
    "stage_message",
    "staged_slot",
]


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


def obtain_buffer(
    channel: InputChannel, index: int, pool: LocalPool, segments: GlobalPool, waiting: Row
) -> int:
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
    channel.required = 1
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
