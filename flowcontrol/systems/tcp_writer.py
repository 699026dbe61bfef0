"""The sending side of a connection: water marks, and the room that the kernel's sockets have."""

from __future__ import annotations

from collections.abc import Sequence

from flowcontrol.systems.tcp_connection import HEADER_BYTES, TcpConnection, TcpMessage


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

    Notes
    -----
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


def hear_window(wire: TcpConnection, ring: Sequence[TcpMessage], now: int) -> int:
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
