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

from flowcontrol.policies.tcp_buffers import (
    close_buffer,
    closed_buffers,
    lacking_of,
    poll_closed,
    records_of,
)
from flowcontrol.policies.tcp_reader import (
    deliver_message,
    obtain_buffer,
    read_socket,
    stage_message,
    staged_slot,
)
from flowcontrol.policies.tcp_rows import (
    HEADER_BYTES,
    READ_BYTES,
    S_BYTES,
    S_CHANNEL,
    S_RECORDS,
    S_ROUND,
    S_WIDTH,
    W_AUTO_READ,
    W_DELIVERED,
    W_ENTERED,
    W_FREED,
    W_HELD,
    W_HIGH,
    W_LOW,
    W_MOST,
    W_PENDING,
    W_READ,
    W_WIDTH,
    W_WRITABLE,
    W_WRITTEN,
    ring_slots,
)
from flowcontrol.policies.tcp_writer import (
    enter_message,
    enters_kernel,
    has_room,
    hear_window,
    high_mark,
    is_writable,
    low_mark,
    write_message,
)

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
