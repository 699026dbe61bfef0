"""Step tables of channels that count records: events among them, permits, withheld channels.

Each line is a step and what holds behind it; all follow from the rules alone, by hand.
"""

from __future__ import annotations

from typing import Any

import pytest

from flowcontrol.protocol.checkpoints.barriers import BARRIER_BYTES
from flowcontrol.protocol.network.events import broadcast_event, finish_partition, follow_alignment
from flowcontrol.protocol.network.rounds import (
    EVENT_POLLED,
    NO_INPUT,
    RECORD,
    next_input,
    read_records,
)
from flowcontrol.state.network import (
    AlignedChannel,
    GlobalPool,
    InputChannel,
    LocalPool,
    Message,
    ReceivedMessage,
    Subpartition,
    Task,
)
from flowcontrol.state.queues import (
    ALIGNED_BARRIER,
    AT_LEAST_ONCE_BARRIER,
    CANCEL_MARKER,
    DATA,
    END_OF_DATA,
    END_OF_PARTITION,
    SAVEPOINT_BARRIER,
    in_order,
    new_queue,
)
from flowcontrol.state.rows import FIFO_SLOTS, Gate, Partition, fifo, fifo_values
from flowcontrol.systems.transports.record_rounds import (
    QUEUE_MESSAGES,
    close_records,
    note_barriers,
    receive_records,
    received_slots,
    send_records,
    sent_slots,
    write_records,
)
from flowcontrol.systems.transports.rules import (
    begin_receiver,
    begin_sender,
    names,
    next_grant,
    parameters,
)
from flowcontrol.systems.transports.transport import FREE, ChannelGrant, RecordTransport, RoundEnd

EVENTS, BYTES = 18, 100

VALUES: dict[str, dict[str, float]] = {
    "blocking_queue": {"slots": 10},
    "half_return_credit": {"slots": 10, "share": 0.5},
    "batched_credit": {"slots": 10, "lot": 4, "barriers": 1},
    "cumulative_credit": {"credit": 10, "mark": 5},
    "rate_window": {
        "unit": 1560,
        "initial_units": 1,
        "multiplier": 1,
        "period_ms": 100,
        "queue_items": 0,
    },
    "bdp_window": {"initial": 1000, "most": 4000, "share": 0},
    "unbounded": {"heap_bytes": 1e6},
    "push_quota": {
        "writer_bytes": 4000,
        "reader_bytes": 600,
        "buffer_bytes": 300,
        "fill": 1,
        "flush_ms": 50,
        "socket_bytes": 0,
        "kernel_bytes": 400,
        "header_bytes": 0,
    },
}


def transport(name: str = "blocking_queue", **values: float) -> RecordTransport:
    """A transport with 10 records to grant, rounds of 100 ms."""
    return parameters(name, VALUES[name] | values, round_us=100_000, latency=1)


class Sender:
    """A result partition of channels of records."""

    def __init__(self, rules: RecordTransport, width: int = 1, granted: int = 10) -> None:
        self.rules = rules
        self.partition = Partition(
            LocalPool(free=1),
            GlobalPool(),
            [Subpartition(announced=granted) for _ in range(width)],
            [new_queue(sent_slots(EVENTS), Message) for _ in range(width)],
            [fifo(0)] * width,
            [0] * width,
            0,
        )

    def write(self, most: int, channel: int = 0) -> int:
        return write_records(self.rules, self.partition, channel, BYTES, most)

    def put(self, kind: int, checkpoint: int = 0) -> None:
        """An event to all channels, as a task puts it."""
        close_records(self.rules, self.partition, BYTES)
        broadcast_event(self.partition, kind, BARRIER_BYTES, checkpoint, 0)
        note_barriers(self.rules, self.partition)

    def hear(self, *, announced: int = 0, taken: int = 0, channel: int = 0) -> None:
        """Grants, and how many barriers the receiver has taken."""
        own = self.partition.channels[channel]
        own.announced, own.resumed = max(own.announced, announced), max(own.resumed, taken)
        note_barriers(self.rules, self.partition)

    def send(self, channel: int = 0) -> list[tuple[int, int]]:
        """What a round sends: kind, and records or checkpoint."""
        found, message = [], Message()
        while send_records(self.rules, self.partition, channel, BYTES, message):
            records = message.kind == DATA
            assert not records or message.nbytes == message.records * BYTES
            found.append((message.kind, message.records if records else message.checkpoint))
            message = Message()
        return found

    def queued(self, channel: int = 0) -> list[tuple[int, int]]:
        queue = in_order(self.partition.queues[channel])
        return [(m.kind, m.records if m.kind == DATA else m.checkpoint) for m in queue]

    @property
    def may_go_on(self) -> int:
        return self.partition.pool.free


# ---- the sender's queue


def test_a_round_is_two_messages_around_a_barrier() -> None:
    """5 records, a barrier, 3 records: three messages, in order; the cursor counts records."""
    sender = Sender(transport())
    own = sender.partition.channels[0]
    assert sender.write(5) == 5
    assert sender.queued() == []
    sender.put(ALIGNED_BARRIER, 1)
    assert sender.queued() == [(DATA, 5), (ALIGNED_BARRIER, 1)]
    assert (own.buffers, own.events, own.sent) == (5, 1, 0)
    assert sender.write(3) == 3
    assert (own.buffers, own.written) == (8, 8)
    assert sender.send() == [(DATA, 5), (ALIGNED_BARRIER, 1), (DATA, 3)]
    assert (own.buffers, own.events, own.sent, own.blocks) == (0, 0, 8, 1)
    assert own.is_blocked == 0  # nothing blocks a sender of records
    assert sender.send() == []


ONE, TWO = (ALIGNED_BARRIER, 1), (ALIGNED_BARRIER, 2)


@pytest.mark.parametrize(
    ("steps", "expected"),
    [
        ("b1", [ONE]),
        ("b1 b2", [ONE, TWO]),
        ("2 b1 b2", [(DATA, 2), ONE, TWO]),
        ("b1 2 b2", [ONE, (DATA, 2), TWO]),
        ("1 2 b1 3 4", [(DATA, 3), ONE, (DATA, 7)]),
        ("9 b1 9", [(DATA, 9), ONE, (DATA, 1)]),
        ("10 b1 1", [(DATA, 10), ONE]),
    ],
)
def test_what_is_sent_in_a_round(steps: str, expected: list[tuple[int, int]]) -> None:
    """Ten records are granted; a barrier takes no grant and passes none of what is before it."""
    sender = Sender(transport())
    for step in steps.split():
        if step.startswith("b"):
            sender.put(ALIGNED_BARRIER, int(step[1:]))
        else:
            sender.write(int(step))
    assert sender.send() == expected


def test_a_barrier_goes_with_no_grant_left() -> None:
    sender = Sender(transport(), granted=4)
    assert sender.write(9) == 4
    sender.put(ALIGNED_BARRIER, 1)
    assert sender.send() == [(DATA, 4), (ALIGNED_BARRIER, 1)]
    assert sender.write(1) == 0
    sender.put(ALIGNED_BARRIER, 2)
    assert sender.send() == [(ALIGNED_BARRIER, 2)]


def test_the_end_of_a_partition_stands_behind_its_records() -> None:
    sender = Sender(transport(), width=2)
    sender.write(3, channel=1)
    close_records(sender.rules, sender.partition, BYTES)
    finish_partition(sender.partition)
    assert sender.send(0) == [(END_OF_PARTITION, 0)]
    assert sender.send(1) == [(DATA, 3), (END_OF_PARTITION, 0)]


def test_the_queue_of_a_sender_has_room_for_all_events() -> None:
    """Records before each of them: nothing more can wait, as a task stops behind a barrier."""
    sender = Sender(transport("unbounded"), granted=FREE)
    for number in range(EVENTS):
        sender.write(1)
        sender.put(CANCEL_MARKER, number + 1)
    assert len(sender.queued()) == sent_slots(EVENTS)


# ---- permits for barriers


def test_a_barrier_waits_for_a_permit_and_its_task_with_it() -> None:
    """RisingWave: one permit; the second barrier goes once the receiver has taken the first."""
    sender = Sender(transport("batched_credit"))
    own = sender.partition.channels[0]
    sender.put(ALIGNED_BARRIER, 1)
    assert sender.may_go_on == 1  # it has its permit
    assert sender.send() == [(ALIGNED_BARRIER, 1)]
    assert (own.blocks, own.resumed) == (1, 0)
    sender.write(2)
    assert sender.send() == [(DATA, 2)]  # records go on behind it
    sender.write(3)
    sender.put(ALIGNED_BARRIER, 2)
    assert sender.may_go_on == 0
    assert sender.send() == [(DATA, 3)]  # what is before it has permits of its own
    assert sender.queued() == [(ALIGNED_BARRIER, 2)]
    sender.hear(announced=14)
    assert (sender.may_go_on, sender.send()) == (0, [])  # permits for records are others
    sender.hear(taken=1)
    assert sender.may_go_on == 1
    assert sender.send() == [(ALIGNED_BARRIER, 2)]
    assert (own.blocks, own.resumed, own.events) == (2, 1, 0)


@pytest.mark.parametrize(
    ("barriers", "put", "goes", "may_go_on"),
    [(1, 1, 1, 1), (1, 2, 1, 0), (2, 2, 2, 1), (2, 3, 2, 0), (3, 5, 3, 0), (10, 9, 9, 1)],
)
def test_as_many_barriers_are_under_way_as_there_are_permits(
    barriers: int, put: int, goes: int, may_go_on: int
) -> None:
    sender = Sender(transport("batched_credit", barriers=barriers))
    for number in range(put):
        sender.put(ALIGNED_BARRIER, number + 1)
    assert sender.may_go_on == may_go_on
    assert sender.send() == [(ALIGNED_BARRIER, number + 1) for number in range(goes)]
    for taken in range(1, put - goes + 1):
        sender.hear(taken=taken)
        assert sender.send() == [(ALIGNED_BARRIER, goes + taken)]
    assert sender.may_go_on == 1


@pytest.mark.parametrize(
    ("kind", "needs"),
    [
        (ALIGNED_BARRIER, 1),
        (SAVEPOINT_BARRIER, 1),
        (AT_LEAST_ONCE_BARRIER, 1),
        (CANCEL_MARKER, 0),
        (END_OF_DATA, 0),
        (END_OF_PARTITION, 0),
    ],
)
def test_only_barriers_need_permits(kind: int, needs: int) -> None:
    sender = Sender(transport("batched_credit"))
    sender.put(ALIGNED_BARRIER, 1)
    sender.send()
    sender.put(kind, 2)
    assert sender.may_go_on == 1 - needs
    assert [one for one, _ in sender.send()] == [kind] * (1 - needs)
    assert sender.partition.channels[0].blocks == 1


def test_a_task_waits_with_a_barrier_of_any_channel() -> None:
    """It goes where there is a permit; the task waits for the last of them."""
    sender = Sender(transport("batched_credit"), width=2)
    sender.put(ALIGNED_BARRIER, 1)
    assert sender.send(0) == sender.send(1) == [(ALIGNED_BARRIER, 1)]
    sender.hear(taken=1, channel=1)
    sender.put(ALIGNED_BARRIER, 2)
    assert sender.may_go_on == 0
    assert sender.send(0) == []
    assert sender.send(1) == [(ALIGNED_BARRIER, 2)]
    assert sender.may_go_on == 0
    sender.hear(taken=1, channel=0)
    assert sender.may_go_on == 1


@pytest.mark.parametrize("name", [name for name in VALUES if name != "batched_credit"])
def test_other_transports_have_no_such_permits(name: str) -> None:
    sender = Sender(transport(name))
    for number in range(1, 6):
        sender.put(ALIGNED_BARRIER, number)
        assert sender.may_go_on == 1
    assert len(sender.send()) == 5


# ---- the receiver's queue


class Receiver:
    """A task with one gate of channels of records."""

    def __init__(self, width: int = 1) -> None:
        self.task, self.union = Task(has_checkpoints=1, open_inputs=width), fifo(1)
        self.aligned = [AlignedChannel() for _ in range(width)]
        self.gate = Gate(
            [InputChannel(announced=10) for _ in range(width)],
            LocalPool(),
            GlobalPool(),
            fifo(width),
            fifo(width),
            [new_queue(received_slots(EVENTS), ReceivedMessage) for _ in range(width)],
            [0],
        )

    def arrive(self, kind: int, number: int, channel: int = 0) -> None:
        """Records, or an event of a checkpoint."""
        message = Message(kind=kind, checkpoint=0 if kind == DATA else number)
        if kind == DATA:
            message.records, message.nbytes = number, number * BYTES
        withheld = self.aligned[channel].is_withheld
        receive_records(self.task, self.gate, self.union, 0, channel, message, withheld)

    def align(self, *blocked: int) -> None:
        """Have just these channels blocked."""
        for number, channel in enumerate(self.aligned):
            channel.is_blocked = int(number in blocked)
        follow_alignment(self.task, [self.gate], 1, self.union, self.aligned)

    def queued(self, channel: int = 0) -> list[tuple[int, int]]:
        queue = in_order(self.gate.queues[channel])
        return [(m.kind, m.records if m.kind == DATA else m.checkpoint) for m in queue]

    def poll(self) -> Any:
        """The next record, or event, with its channel; None."""
        found = next_input(self.task, [self.gate], self.union)
        if found == RECORD:
            read_records(self.task, [self.gate], 1)
        return {RECORD: "record", EVENT_POLLED: "event", NO_INPUT: None}[found], self.task.channel

    @property
    def order(self) -> list[int]:
        return list(fifo_values(self.gate.order))


def test_a_full_queue_is_merged_at_its_end() -> None:
    receiver = Receiver()
    for _ in range(QUEUE_MESSAGES + 3):
        receiver.arrive(DATA, 2)
    assert receiver.queued() == [(DATA, 2)] * (QUEUE_MESSAGES - 1) + [(DATA, 8)]
    assert receiver.task.queued == 2 * (QUEUE_MESSAGES + 3)


def test_nothing_is_merged_across_an_event() -> None:
    """16 messages and three more, a barrier, records, records: the latter are one message."""
    receiver = Receiver()
    for _ in range(QUEUE_MESSAGES + 3):
        receiver.arrive(DATA, 2)
    receiver.arrive(ALIGNED_BARRIER, 1)
    receiver.arrive(DATA, 5)
    receiver.arrive(DATA, 7)
    assert receiver.queued()[QUEUE_MESSAGES - 1 :] == [(DATA, 8), (ALIGNED_BARRIER, 1), (DATA, 12)]
    receiver.arrive(ALIGNED_BARRIER, 2)
    receiver.arrive(END_OF_PARTITION, 0)
    assert receiver.queued()[-3:] == [(DATA, 12), (ALIGNED_BARRIER, 2), (END_OF_PARTITION, 0)]
    assert receiver.gate.channels[0].arrived == 2 * (QUEUE_MESSAGES + 3) + 12


def test_an_event_among_the_first_messages_parts_them_too() -> None:
    receiver = Receiver()
    receiver.arrive(DATA, 1)
    receiver.arrive(ALIGNED_BARRIER, 1)
    for _ in range(QUEUE_MESSAGES):
        receiver.arrive(DATA, 3)
    queue = receiver.queued()
    assert queue[:2] == [(DATA, 1), (ALIGNED_BARRIER, 1)]
    assert len(queue) == QUEUE_MESSAGES
    assert queue[-1] == (DATA, 9)
    assert sum(number for kind, number in queue if kind == DATA) == 1 + 3 * QUEUE_MESSAGES


def test_the_queue_of_a_receiver_has_room_for_all_events() -> None:
    receiver = Receiver()
    for _ in range(QUEUE_MESSAGES):
        receiver.arrive(DATA, 1)
    for number in range(EVENTS):
        receiver.arrive(CANCEL_MARKER, number + 1)
        receiver.arrive(DATA, 1)
        receiver.arrive(DATA, 1)
    assert len(receiver.queued()) == received_slots(EVENTS)


# ---- channels that are not read


def test_a_blocked_channel_is_left_unread_until_it_is_resumed() -> None:
    """Channel 0 delivers its barrier; its records wait, those of channel 1 are taken."""
    receiver = Receiver(width=2)
    receiver.arrive(ALIGNED_BARRIER, 1, channel=0)
    receiver.arrive(DATA, 2, channel=0)
    assert receiver.poll() == ("event", 0)
    receiver.align(0)
    assert (receiver.order, receiver.task.withheld) == ([], 2)
    receiver.arrive(DATA, 3, channel=0)
    assert (receiver.order, receiver.task.withheld, receiver.task.queued) == ([], 5, 5)
    assert receiver.poll()[0] is None
    receiver.arrive(DATA, 1, channel=1)
    receiver.arrive(ALIGNED_BARRIER, 1, channel=1)
    assert receiver.order == [1]
    assert [receiver.poll() for _ in range(2)] == [("record", 1), ("event", 1)]
    receiver.align()
    assert (receiver.order, receiver.task.withheld) == ([0], 0)
    assert [receiver.poll() for _ in range(6)] == [("record", 0)] * 5 + [(None, 0)]


def test_a_channel_that_is_resumed_comes_behind_those_with_data() -> None:
    receiver = Receiver(width=3)
    receiver.align(1)
    for channel in (1, 0, 2):
        receiver.arrive(DATA, 1, channel=channel)
    assert receiver.order == [0, 2]
    receiver.align()
    assert receiver.order == [0, 2, 1]
    assert [receiver.poll()[1] for _ in range(3)] == [0, 2, 1]


def test_a_second_event_waits_in_a_blocked_channel() -> None:
    receiver = Receiver(width=2)
    receiver.align(0)
    receiver.arrive(ALIGNED_BARRIER, 2, channel=0)
    receiver.arrive(END_OF_PARTITION, 0, channel=0)
    assert (receiver.poll()[0], receiver.task.open_inputs) == (None, 2)
    receiver.align()
    assert [receiver.poll()[0] for _ in range(3)] == ["event", "event", None]
    assert receiver.task.open_inputs == 1


def test_an_empty_channel_is_blocked_and_resumed() -> None:
    receiver = Receiver(width=2)
    receiver.align(0, 1)
    assert [one.is_withheld for one in receiver.aligned] == [1, 1]
    receiver.align()
    assert (receiver.order, receiver.union[:FIFO_SLOTS][1]) == ([], 0)
    receiver.arrive(DATA, 1, channel=1)
    assert receiver.order == [1]


# ---- from a checkpoint


@pytest.mark.parametrize(
    ("name", "granted"),
    [
        ("blocking_queue", 10),
        ("half_return_credit", 10),
        ("batched_credit", 10),
        ("cumulative_credit", 10),
        ("rate_window", 10),  # past one unit of 1,560 bytes, at 156 bytes an item
        ("bdp_window", 10),
    ],
)
def test_a_channel_goes_on_from_a_checkpoint_with_the_grants_of_a_fresh_one(
    name: str, granted: int
) -> None:
    """70 records were carried: both sides begin there, and ten more are granted."""
    rules = transport(name)
    own, into, state = Subpartition(written=70), InputChannel(processed=70), ChannelGrant()
    begin_sender(rules, own, BYTES)
    begin_receiver(rules, state, into, 70, BYTES)
    assert (own.sent, own.announced) == (70, 70 + granted)
    assert (into.arrived, into.processed, into.consumed) == (70, 70, 70)
    assert into.announced == own.announced
    before = into.announced
    into.announced = next_grant(rules, state, into, RoundEnd(4, 0, BYTES))
    assert before - 1 <= into.announced <= before + 10  # nothing taken since, nothing given back


def test_a_channel_without_grants_stays_free() -> None:
    rules, own = transport("unbounded"), Subpartition(written=70)
    begin_sender(rules, own, BYTES)
    assert own.announced == FREE


def test_every_transport_of_records_is_here() -> None:
    assert {*VALUES, "hop_hysteresis"} == set(names())
