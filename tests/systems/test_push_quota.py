"""Spark's streaming shuffle against the tables by hand, and its closed forms.

Flink 2.3 and Spark 4.3, B2 and B3.
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flowcontrol.scenario.system import TRANSPORT_PARTS, preset_system
from flowcontrol.state.network import GlobalPool, LocalPool, Message, Subpartition
from flowcontrol.state.queues import END_OF_PARTITION, append, in_order, new_queue, next_slot
from flowcontrol.state.rows import Partition, fifo
from flowcontrol.systems.transports import push_quota as p
from flowcontrol.systems.transports.record_rounds import (
    add_records,
    close_records,
    send_records,
    sent_slots,
    write_records,
)
from flowcontrol.systems.transports.rules import flush, parameters, room
from flowcontrol.systems.transports.transport import FREE, RecordTransport

DEFAULTS = {name: one.default for name, one in TRANSPORT_PARTS["push_quota"].parameters.items()}
ROWS = 300
"""Bytes of a row."""


def transport(**values: float) -> RecordTransport:
    return parameters("push_quota", DEFAULTS | values, round_us=10_000, latency=1)


class Writer:
    """A writer of some partitions; a reader of quota 0 takes nothing out of its sockets."""

    def __init__(self, rules: RecordTransport, *quotas: int, size: int = ROWS) -> None:
        self.rules, self.size = rules, size
        width = len(quotas)
        granted = p.most_records(rules, size)
        self.partition = Partition(
            LocalPool(free=1, size=p.RULES.places(rules, width)),
            GlobalPool(),
            [Subpartition(announced=granted, quota=quota) for quota in quotas],
            [new_queue(p.RUNS + sent_slots(1), Message) for _ in quotas],
            [fifo(0)] * width,
            [0] * width,
            0,
        )

    def write(self, channel: int) -> int:
        return write_records(self.rules, self.partition, channel, self.size, 1)

    def flush(self) -> None:
        for channel in range(len(self.partition.channels)):
            flush(self.rules, self.partition, channel, self.size)
            p.hand_over(self.rules, self.partition, channel, self.size)

    def send(self, channel: int) -> int:
        """What goes on its way, records."""
        message = Message()
        sent = send_records(self.rules, self.partition, channel, self.size, message)
        return message.records if sent else 0

    def let_go(self, channel: int, records: int) -> None:
        """The reader has taken up so many records more, and the writer hears of it."""
        self.partition.channels[channel].announced += records
        p.hand_over(self.rules, self.partition, channel, self.size)

    def take_from_sockets(self, channel: int) -> None:
        """A reader that has taken nothing so far takes what the sockets hold."""
        self.partition.channels[channel].held = 0
        p.hand_over(self.rules, self.partition, channel, self.size)

    @property
    def free(self) -> int:
        return self.partition.pool.size - self.partition.pool.in_use

    def open(self, channel: int) -> int:
        return p.open_records(self.partition.channels[channel]) * self.size

    def waiting(self, channel: int) -> list[int]:
        """Rows of each message that waits for the sockets."""
        runs = in_order(self.partition.queues[channel])
        return [one.records // one.backlog for one in runs for _ in range(one.backlog)]


@pytest.fixture
def small() -> Writer:
    """Four buffers of 1,000 bytes; reader 0 takes all, sockets of 1 take a message, and it none."""
    rules = transport(writer_bytes=4000, socket_bytes=0, buffer_bytes=1000, kernel_bytes=0)
    return Writer(rules, FREE, 0)


# Row, its partition, then: whether it is written; free places, bytes open of 0 and 1, messages of 1
# that wait. Rows alternate. An open buffer of three rows is nearly full, 900 bytes, and goes.
TABLE = [
    (1, 0, 1, 3, 300, 0, 0), (2, 1, 1, 2, 300, 300, 0),
    (3, 0, 1, 2, 600, 300, 0), (4, 1, 1, 2, 600, 600, 0),
    (5, 0, 1, 3, 0, 600, 0), (6, 1, 1, 4, 0, 0, 0),  # sent, done; 1's is in its sockets
    (7, 0, 1, 3, 300, 0, 0), (8, 1, 1, 2, 300, 300, 0),
    (9, 0, 1, 2, 600, 300, 0), (10, 1, 1, 2, 600, 600, 0),
    (11, 0, 1, 3, 0, 600, 0), (12, 1, 1, 3, 0, 0, 1),  # pending
    (13, 0, 1, 2, 300, 0, 1), (14, 1, 1, 1, 300, 300, 1),
    (15, 0, 1, 1, 600, 300, 1), (16, 1, 1, 1, 600, 600, 1),
    (17, 0, 1, 2, 0, 600, 1), (18, 1, 1, 2, 0, 0, 2),
    (19, 0, 1, 1, 300, 0, 2), (20, 1, 1, 0, 300, 300, 2),
    (21, 0, 1, 0, 600, 300, 2), (22, 1, 1, 0, 600, 600, 2),
    (23, 0, 1, 1, 0, 600, 2), (24, 1, 1, 1, 0, 0, 3),
    (25, 0, 1, 0, 300, 0, 3),  # the last free buffer
    (26, 1, 1, 0, 0, 300, 3),  # none free: 0's 300 sent, done; its place is taken
    (27, 0, 0, 0, 0, 0, 4),  # none free: 1's 300 sent, pending; blocked, reader 0 idle
]  # fmt: skip


@pytest.mark.holds("push_quota", "rules", "the writer's table by hand")
def test_the_writer_row_by_row(small: Writer) -> None:
    for row, channel, is_written, *expected in TABLE:
        assert small.write(channel) == is_written, row
        found = [small.free, small.open(0), small.open(1), len(small.waiting(1))]
        assert found == expected, row
    assert small.waiting(1) == [3, 3, 3, 1]
    small.take_from_sockets(1)  # 1's channel completes a write
    assert (small.free, small.waiting(1)) == (1, [3, 3, 1])
    assert small.write(0) == 1  # row 27 gets the place
    assert (small.free, len(small.waiting(1))) == (0, 3)
    assert small.write(1) == 1  # row 28: 0's 300 sent, done; its place taken
    assert (small.free, small.open(0), small.open(1)) == (0, 0, 300)
    assert small.write(0) == 0  # row 29, as 27
    assert (small.free, small.waiting(1)) == (0, [3, 3, 1, 1])


@pytest.mark.holds("push_quota", "rules", "the writer's table by hand")
def test_from_then_on_a_write_of_the_slow_one_is_a_row_to_each(small: Writer) -> None:
    for _, channel, *_ in TABLE:
        small.write(channel)
    written = [own.written for own in small.partition.channels]
    for turn in range(20):
        assert small.write(0) == 0
        small.take_from_sockets(1)
        assert (small.write(0), small.write(1)) == (1, 1)
        assert small.write(0) == 0
        now = [own.written for own in small.partition.channels]
        assert [new - old for new, old in zip(now, written, strict=True)] == [turn + 1] * 2
    assert small.waiting(1) == [1] * 4  # messages have shrunk to a row


@pytest.mark.holds("push_quota", "rules", "the reader's quota by hand")
def test_the_reader_message_by_message() -> None:
    remaining = [5000 - 932 * held for held in range(1, 7)]
    assert remaining == [4068, 3136, 2204, 1272, 340, -592]
    assert p.messages_read(5000, 932) == 6  # it reads while the rest is above 0: off with 6
    assert 6 * 932 == 5592
    # Sockets of nothing but the message that the kernel always takes.
    rules = transport(kernel_bytes=0, buffer_bytes=1000, socket_bytes=0, writer_bytes=20_000)
    own = Writer(rules, 5000)
    for _ in range(30):
        assert own.write(0) == 1
    assert own.send(0) == 3 * 7  # 6 held, one before them
    assert own.waiting(0) == [3] * 3
    for more in (1, 1):  # a message of which a row is left counts whole
        own.let_go(0, more)
        assert len(own.waiting(0)) == 3
    own.let_go(0, 1)  # the first one released: on, the seventh read, and off
    assert len(own.waiting(0)) == 2
    for left in (1, 0):
        own.let_go(0, 3)
        assert len(own.waiting(0)) == left


@given(st.integers(1, 1 << 31), st.integers(1, 1 << 16))
def test_a_reader_reads_while_its_quota_is_not_used_up(quota: int, nbytes: int) -> None:
    held = p.messages_read(quota, nbytes)
    assert quota - held * nbytes <= 0 < quota - (held - 1) * nbytes


@given(st.integers(1, 40_000), st.integers(1, 5000), st.integers(0, 3000), st.integers(1, 5))
def test_what_is_in_flight_is_the_quota_and_the_sockets_in_whole_messages(
    quota: int, kernel: int, size: int, rows: int
) -> None:
    """ceil(q / s) messages at the reader, as many as fit into the sockets before it."""
    size = max(1, size)
    buffer = rows * size
    rules = transport(
        buffer_bytes=buffer, fill=1, kernel_bytes=kernel, socket_bytes=0, writer_bytes=1 << 30
    )
    own = Writer(rules, quota, size=size)
    nbytes = buffer + rules.header_bytes
    most = -(-quota // nbytes) + max(1, kernel // nbytes)
    for _ in range(rows * (most + 2)):
        assert own.write(0) == 1
    assert own.send(0) == rows * most
    assert own.waiting(0) == [rows] * 2
    assert own.partition.channels[0].sent <= own.partition.channels[0].announced
    own.let_go(0, rows - 1)
    assert own.send(0) == 0
    own.let_go(0, 1)
    assert own.send(0) == rows


@pytest.mark.holds("push_quota", "rules", "budgets by hand")
@pytest.mark.parametrize(
    ("channels", "buffers"),
    [(1, 1022), (10, 1013), (100, 922), (200, 820), (339, 679), (340, 680), (1000, 2000)],
)
def test_a_budget_in_buffers(channels: int, buffers: int) -> None:
    """From 340 channels on the floor of two buffers a channel rules."""
    values = preset_system("spark-real-time").transport_values
    rules = parameters("push_quota", values, round_us=10_000, latency=1)
    assert p.RULES.places(rules, channels) == buffers
    nbytes = int(values["writer_bytes"]), int(values["buffer_bytes"]), int(values["socket_bytes"])
    is_floor = p.writer_budget(*nbytes, channels) == 2 * nbytes[1] * channels
    assert is_floor == (channels >= 340)


@pytest.mark.parametrize(("writers", "quota"), [(1, 33554432), (3, 11184810), (1 << 26, 1)])
def test_a_quota_is_a_share_of_the_reader_s_memory(writers: int, quota: int) -> None:
    assert p.RULES.quota(transport(), writers) == quota


def test_a_buffer_is_sent_from_nine_tenths_on() -> None:
    rules = transport()
    assert rules.full_bytes == 29491
    for size, rows in ((29490, 2), (29491, 1), (29492, 1), (32768, 1), (50_000, 1), (100, 295)):
        own = Writer(rules, FREE, size=size)
        for _ in range(rows):
            assert own.send(0) == 0
            assert own.write(0) == 1
        assert own.send(0) == rows


def test_a_row_above_the_size_of_a_buffer_takes_one_place() -> None:
    own = Writer(transport(writer_bytes=65536 * 2), 0, size=1_000_000)
    places = own.partition.pool.size
    assert own.write(0) == 1
    assert own.free == places  # sockets take at least one message
    assert own.write(0) == 1
    assert own.free == places - 1


@given(st.integers(1, 400), st.integers(0, 500))
def test_rows_that_fit_leave_a_buffer_open(size: int, before: int) -> None:
    own = Writer(transport(buffer_bytes=1000), FREE, size=size)
    assert room(own.rules, own.partition.channels[0], size) == 0  # there is no open buffer
    own.write(0)
    more = room(own.rules, own.partition.channels[0], size)
    if p.open_records(own.partition.channels[0]) == 0:
        assert size >= 900
        return
    add_records(own.partition.channels[0], more)
    assert own.open(0) < 900 <= own.open(0) + size
    assert own.free == own.partition.pool.size - 1
    assert own.write(0) == 1
    assert own.open(0) == 0


def test_an_event_comes_behind_all_rows() -> None:
    own = Writer(transport(buffer_bytes=1000, kernel_bytes=0), 1)
    for _ in range(10):
        own.write(0)
    close_records(own.rules, own.partition, ROWS)
    channel, queue = own.partition.channels[0], own.partition.queues[0]
    assert p.open_records(channel) == 0
    end = next_slot(queue)
    end.kind, end.records = END_OF_PARTITION, 0
    append(queue)
    channel.events = 1
    rows = []
    for _ in range(10):
        message = Message()
        while send_records(own.rules, own.partition, 0, ROWS, message):
            rows.append(message.records)
        own.let_go(0, 3)
    assert rows == [6, 3, 1, 0]
    assert (channel.sent, channel.buffers, channel.closed, channel.events) == (10, 0, 0, 0)
    assert own.partition.pool.in_use == 0


@given(
    st.lists(st.tuples(st.sampled_from("wwwwwwflls"), st.integers(0, 2)), max_size=300),
    st.integers(1, 3000),
    st.integers(0, 2000),
)
def test_places_and_rows_add_up(steps: Any, quota: int, kernel: int) -> None:
    """A place for each open buffer and each message that waits; no row is lost."""
    rules = transport(writer_bytes=6000, socket_bytes=0, buffer_bytes=1000, kernel_bytes=kernel)
    own = Writer(rules, quota, 2 * quota, 1)
    arrived, taken = [0, 0, 0], [0, 0, 0]
    for step, channel in steps:
        if step == "w":
            own.write(channel)
        elif step == "f":
            own.flush()
        elif step == "s":
            arrived[channel] += own.send(channel)
        elif arrived[channel] > taken[channel]:
            taken[channel] += 1
            own.let_go(channel, 1)
        for each, row in enumerate(own.partition.channels):
            assert row.sent == arrived[each]
            assert row.buffers == p.open_records(row) + sum(own.waiting(each)) + row.handed
            assert row.written == row.sent + row.buffers
            assert row.sent - taken[each] <= p.most_records(rules, ROWS)
            assert row.sent + row.handed > taken[each] or row.held == 0
            largest = 2 * 1032 + row.quota + max(kernel, 1032)
            assert 0 <= row.held / p.HELD_PARTS <= largest
        count = sum(len(own.waiting(each)) + (own.open(each) > 0) for each in range(3))
        assert own.partition.pool.in_use == count <= own.partition.pool.size


@given(st.lists(st.tuples(st.integers(1, 500), st.integers(1, 9)), max_size=80))
def test_more_runs_than_are_kept_apart_lose_no_row(runs: list[tuple[int, int]]) -> None:
    own = Writer(transport(kernel_bytes=0, writer_bytes=1 << 30), 0, size=10)
    for rows, times in runs:
        for _ in range(times):
            for _ in range(rows):
                assert own.write(0) == 1
            flush(own.rules, own.partition, 0, own.size)
    channel = own.partition.channels[0]
    assert len(in_order(own.partition.queues[0])) <= p.RUNS
    assert channel.closed == channel.buffers
    for _ in range(len(runs) * 9):
        own.take_from_sockets(0)
    assert channel.handed == channel.written
    assert own.partition.pool.in_use == 0


@given(st.integers(0, 1 << 40), st.integers(1, (1 << 31) - 1), st.data())
def test_what_is_left_of_what_is_held(held: int, before: int, data: st.DataObject) -> None:
    left = data.draw(st.integers(0, before))
    assert p.let_go(held, left, before) == held * left // before
    many = p.let_go(held, left << 3, before << 3)
    assert many == held * left // before or before < 1 << 28
