"""The rules of connections without credits against tables worked out by hand."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flowcontrol.protocol.network import rounds as r
from flowcontrol.protocol.network.credit_rules import recycle_floating
from flowcontrol.protocol.network.partition_kinds import unreserved_sizes
from flowcontrol.protocol.network.pool_rules import fetch_segment
from flowcontrol.state import rows as w
from flowcontrol.state.network import GlobalPool, InputChannel, LocalPool, Message, Subpartition
from flowcontrol.state.queues import new_queue
from flowcontrol.state.rows import UNLIMITED, Gate, Partition
from flowcontrol.systems import tcp as t
from flowcontrol.systems import tcp as tb

PAGE = 32_768


# ---------------------------------------------------------------- water marks


def test_the_marks_of_1_4() -> None:
    high = t.high_mark(2, PAGE)
    assert (t.low_mark(1, PAGE, high), high) == (32_769, 65_536)


@pytest.mark.parametrize(("segments", "low"), [(0, 1), (1, 4097), (2, 8192), (9, 8192)])
def test_the_low_mark_is_at_most_the_high_one(segments: int, low: int) -> None:
    assert t.low_mark(segments, 4096, 8192) == low


@pytest.mark.parametrize(
    ("was", "pending", "expected"),
    [
        (1, 0, 1),
        (1, 32_802, 1),  # one page with its header
        (1, 65_535, 1),
        (1, 65_536, 1),  # the high mark itself
        (1, 65_537, 0),
        (1, 65_604, 0),  # two pages
        (0, 65_604, 0),
        (0, 65_536, 0),
        (0, 32_802, 0),  # one of them gone: still above the low mark
        (0, 32_769, 0),  # the low mark itself
        (0, 32_768, 1),
        (0, 0, 1),
    ],
)
def test_when_a_connection_is_writable(was: int, pending: int, expected: int) -> None:
    assert t.is_writable(was, pending, 65_536, 32_769) == expected


@pytest.mark.parametrize(
    ("held", "nbytes", "most", "expected"),
    [
        (0, 10, 0, 1),
        (1, 10, 0, 0),
        (0, 10, 9, 1),
        (90, 10, 99, 0),
        (90, 10, 100, 1),
        (90, 10, 101, 1),
        (100, 10, 100, 0),
    ],
)
def test_what_the_kernel_takes(held: int, nbytes: int, most: int, expected: int) -> None:
    assert t.enters_kernel(held, nbytes, most) == expected


# ---------------------------------------------------------------- closed buffers


def partition(channels: int, size: int) -> Partition:
    pool = LocalPool(size=size, maximum=size, required=size)
    segments = GlobalPool(total=size, free=size)
    fetch_segment(pool, segments)
    return Partition(
        pool,
        segments,
        [Subpartition() for _ in range(channels)],
        [new_queue(size, Message) for _ in range(channels)],
        [[0] * (w.FIFO_SLOTS + size) for _ in range(channels)],
        [0] * channels,
        0,
    )


def test_a_buffer_is_sent_when_it_is_full_or_flushed() -> None:
    part = partition(1, 3)
    row = part.channels[0]
    message = Message()
    assert (tb.close_buffer(part, 0), tb.poll_closed(part, 0, UNLIMITED, 0, message)) == (0, 0)
    for _ in range(3):  # 100 + 100 + 56 of 256, then 44 in the next
        assert r.write_bytes(part, 0, 100, UNLIMITED, 256) == 0
    assert (tb.closed_buffers(row), row.buffers, part.pool.in_use) == (1, 2, 2)
    assert tb.poll_closed(part, 0, UNLIMITED, 0, message) == 1
    assert (message.records, message.nbytes) == (2, 256)
    assert tb.poll_closed(part, 0, UNLIMITED, 0, message) == 0
    assert tb.close_buffer(part, 0) == 1
    assert tb.close_buffer(part, 0) == 0
    assert tb.poll_closed(part, 0, UNLIMITED, 0, message) == 1
    assert (message.records, message.nbytes) == (1, 44)
    assert (row.sent, row.buffers, part.pool.in_use) == (2, 0, 0)


def test_a_local_consumer_keeps_the_buffer() -> None:
    part = partition(1, 2)
    assert r.write_bytes(part, 0, 256, UNLIMITED, 256) == 0
    message = Message()
    assert tb.poll_closed(part, 0, UNLIMITED, 1, message) == message.records == 1
    assert part.pool.in_use == 1
    r.free_local(part, 0, 1, UNLIMITED)
    assert part.pool.in_use == 0


# ---------------------------------------------------------------- a connection


def connection(most: int, slots: int = 16) -> tuple[t.TcpConnection, list[t.TcpMessage]]:
    wire = t.TcpConnection(high_mark=200, low_mark=101, kernel_bytes=most)
    return wire, [t.TcpMessage() for _ in range(slots)]


def write(wire: t.TcpConnection, ring: list[t.TcpMessage], *sizes: int) -> None:
    for channel, nbytes in enumerate(sizes):
        message = t.next_message(wire, ring)
        message.records, message.nbytes = 1, nbytes - t.HEADER_BYTES
        t.write_message(wire, message, channel)


@pytest.mark.holds("tcp", "rules", "messages through a connection by hand")
def test_messages_through_a_connection() -> None:
    wire, ring = connection(most=250)
    write(wire, ring, 110, 110)
    assert (wire.pending, wire.is_writable) == (220, 0)
    assert t.enter_message(wire, ring) == 0
    assert (wire.pending, wire.held, wire.is_writable) == (110, 110, 0)
    assert t.enter_message(wire, ring) == 1
    assert (wire.pending, wire.held, wire.is_writable) == (0, 220, 1)
    assert t.enter_message(wire, ring) == -1  # there is none
    write(wire, ring, 31)
    assert t.enter_message(wire, ring) == -1  # a byte too much
    ring[0].round, ring[1].round = 5, 6
    assert t.read_socket(wire, ring, 4, 9) == 0
    assert t.read_socket(wire, ring, 5, 9) == 1
    assert t.staged_slot(wire, ring) == 0
    t.stage_message(wire)
    assert t.read_socket(wire, ring, 6, 9) == 0  # the connection is not read
    assert (t.on_window_update(wire, ring, 8), wire.held) == (0, 220)
    assert (t.on_window_update(wire, ring, 9), wire.held) == (1, 110)  # staged, but read
    assert t.enter_message(wire, ring) == 2
    t.deliver_message(wire)
    assert (wire.auto_read, t.staged_slot(wire, ring)) == (1, -1)
    ring[2].round = 6
    assert t.read_socket(wire, ring, 6, 10) == 2
    t.deliver_message(wire)
    assert t.staged_slot(wire, ring) == 2
    t.deliver_message(wire)
    assert (wire.written, wire.entered, wire.read, wire.delivered) == (3, 3, 3, 3)


@pytest.mark.parametrize(
    ("sizes", "read"),
    [
        ([t.READ_BYTES + 1, 1], 1),  # at least one
        ([t.READ_BYTES, 1], 1),
        ([t.READ_BYTES - 1, 1], 2),
        ([t.READ_BYTES - 1, 2], 1),
        ([32_802, 32_802], 1),
        ([1] * 12, 12),
    ],
)
def test_one_read_of_a_socket(sizes: list[int], read: int) -> None:
    wire, ring = connection(most=1 << 20)
    write(wire, ring, *sizes)
    while t.enter_message(wire, ring) >= 0:
        pass
    assert t.read_socket(wire, ring, 0, 1) == read


@pytest.mark.parametrize("slots", [1, 2, 3])
def test_a_slot_is_free_when_it_is_delivered_and_heard_of(slots: int) -> None:
    wire, ring = connection(most=1 << 20, slots=slots)
    for number in range(slots):
        assert t.has_room(wire, ring) == 1, number
        write(wire, ring, 10)
    assert t.has_room(wire, ring) == 0
    while t.enter_message(wire, ring) >= 0:
        pass
    assert t.read_socket(wire, ring, 0, 1) == slots
    t.deliver_message(wire)
    assert t.has_room(wire, ring) == 0
    assert t.on_window_update(wire, ring, 1) == slots
    assert t.has_room(wire, ring) == 1


def test_who_asks_first_gets_the_next_buffer() -> None:
    """Two channels want the one buffer of a gate's pool; it comes back twice."""
    pool, segments = LocalPool(size=1, maximum=1), GlobalPool(total=1, free=1)
    fetch_segment(pool, segments)
    channels, waiting = [InputChannel() for _ in range(3)], [0] * (w.FIFO_SLOTS + 3)
    gate = Gate(channels, pool, segments, waiting, [], [], [])
    assert t.obtain_buffer(gate, 0) == 1
    channels[0].floating = 0  # a message has it
    assert t.obtain_buffer(gate, 2) == 0
    assert t.obtain_buffer(gate, 1) == 0
    assert t.obtain_buffer(gate, 2) == 0  # asked again: it waits once
    assert waiting[w.FIFO_COUNT] == 2
    for index in (2, 1):
        assert recycle_floating(gate) == index
        assert t.obtain_buffer(gate, index) == 1
        assert [row.floating for row in channels] == [int(i == index) for i in range(3)]
        channels[index].floating = 0
    assert recycle_floating(gate) == -1
    assert (pool.in_use, pool.free) == (0, 1)


# ---------------------------------------------------------------- sizes


@pytest.mark.parametrize(
    ("channels", "each", "extra", "expected"),
    [
        (1, 2, 8, (1, 10)),
        (4, 2, 8, (4, 16)),
        (1, 1, 0, (1, 1)),
        (3, 0, 8, (3, 8)),
        (9, 0, 8, (9, 9)),
    ],
)
def test_pools(channels: int, each: int, extra: int, expected: tuple[int, int]) -> None:
    assert unreserved_sizes(channels, each, extra) == expected


@given(
    kernel=st.integers(0, 1000),
    record=st.integers(1, 300),
    segment=st.integers(1, 100),
    channels=st.integers(1, 3),
    data=st.data(),
)
def test_a_ring_has_a_slot_for_every_message(
    kernel: int, record: int, segment: int, channels: int, data: st.DataObject
) -> None:
    """Records are cut into segments and flushed now and then; nothing is read."""
    high = t.high_mark(2, segment)
    slots = t.ring_slots(kernel, high, segment, record, channels)
    wire, ring = connection(kernel, slots)
    wire.high_mark, wire.low_mark = high, t.low_mark(1, segment, high)
    fill = [0] * channels
    while wire.is_writable == 1:
        channel = data.draw(st.integers(0, channels - 1))
        left, sizes = record, []
        while left > 0:
            part = min(left, segment - fill[channel])
            fill[channel] += part
            left -= part
            if fill[channel] == segment:
                sizes.append(segment)
                fill[channel] = 0
        if fill[channel] and data.draw(st.booleans()):
            sizes.append(fill[channel])
            fill[channel] = 0
        for size in sizes:
            if wire.is_writable == 0:
                break
            assert t.has_room(wire, ring) == 1
            write(wire, ring, size + t.HEADER_BYTES)
            while t.enter_message(wire, ring) >= 0:
                pass
    assert wire.written <= slots
