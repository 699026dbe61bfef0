"""The sending side of a connection: water marks, and the room that the kernel's sockets have."""

from __future__ import annotations

from flowcontrol.policies.tcp_rows import (
    S_BYTES,
    S_CHANNEL,
    S_RECORDS,
    S_ROUND,
    W_DELIVERED,
    W_ENTERED,
    W_FREED,
    W_HELD,
    W_HIGH,
    W_LOW,
    W_MOST,
    W_PENDING,
    W_READ,
    W_WRITABLE,
    W_WRITTEN,
)
from flowcontrol.protocol.rows import Row, Rows

__all__ = [
    "enter_message",
    "enters_kernel",
    "has_room",
    "hear_window",
    "high_mark",
    "is_writable",
    "low_mark",
    "write_message",
]


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
