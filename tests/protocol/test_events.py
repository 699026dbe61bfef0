"""Events in the queues that the clocks run: order, what they block, what they make readable."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flowcontrol.protocol.network import rounds
from flowcontrol.protocol.network import subpartition_rules as r
from flowcontrol.state.network import (
    GlobalPool,
    InputChannel,
    LocalPool,
    Message,
    ReceivedMessage,
    Subpartition,
    Task,
)
from flowcontrol.state.queues import (
    DATA,
    END_OF_PARTITION,
    KINDS,
    Queue,
    append,
    has_priority,
    in_order,
    is_blocking,
    new_queue,
    next_slot,
    overtake,
    use_all,
)
from flowcontrol.state.rows import fifo

NUMBERS = {kind.name: number for number, kind in enumerate(KINDS)}
ALIGNED, UNALIGNED = NUMBERS["aligned_barrier"], NUMBERS["unaligned_barrier"]


def filled(*kinds: int, initial: int = 2) -> tuple[Subpartition, Queue[Message]]:
    """A subpartition with finished buffers of 100 bytes, and events."""
    own, queue = Subpartition(initial=initial, announced=max(0, initial)), new_queue(9, Message)
    for kind in kinds:
        if kind == DATA:
            r.open_buffer(own, 100)
            r.append_bytes(own, 100, 0)
            r.finish_buffer(own, queue)
        else:
            r.add_event(own, queue, kind, 8)
    return own, queue


def polled(own: Subpartition, queue: Queue[Message]) -> list[int]:
    """Kinds of the messages that a reader with credit gets."""
    found, message = [], Message()
    while r.is_available(own, queue, 1) == 1 and r.poll_queue(own, queue, message) != r.NOTHING:
        found.append(message.kind)
    return found


def test_the_table_of_kinds() -> None:
    assert KINDS[DATA].name == "data"
    assert KINDS[END_OF_PARTITION].name == "end_of_partition"
    blocking = {kind.name for number, kind in enumerate(KINDS) if is_blocking(Message(number))}
    barriers = {"aligned_barrier", "timeoutable_barrier", "savepoint_barrier"}
    assert blocking == barriers | {"recovery_completion"}
    assert [KINDS[n].name for n in range(len(KINDS)) if has_priority(n)] == ["unaligned_barrier"]


@given(
    turns=st.integers(0, 8), kinds=st.lists(st.sampled_from([DATA, ALIGNED, UNALIGNED]), max_size=9)
)
def test_priority_stands_first_in_its_own_order(turns: int, kinds: list[int]) -> None:
    """Wherever the ring begins."""
    queue = new_queue(9, Message)
    use_all(queue.ends, queue.slots)
    queue.ends.head = turns
    for number, kind in enumerate(kinds):
        slot = next_slot(queue)
        if has_priority(kind):
            slot = overtake(queue)
        else:
            append(queue)
        slot.kind, slot.records = kind, number
    numbers = range(len(kinds))
    expected = sorted(numbers, key=lambda number: 1 - has_priority(kinds[number]))
    assert [message.records for message in in_order(queue)] == expected


def test_a_blocking_event_blocks_when_it_is_sent() -> None:
    own, queue = filled(DATA, ALIGNED, DATA, DATA)
    assert polled(own, queue) == [DATA, ALIGNED]
    assert (own.is_blocked, r.channel_backlog(own), own.announced_backlog) == (1, 0, 0)
    r.flush_queue(own, queue)
    assert r.is_available(own, queue, 5) == 0
    assert r.poll_queue(own, queue, Message()) == r.NOTHING
    own.is_blocked = 0
    assert r.channel_backlog(own) == 2
    assert polled(own, queue) == [DATA, DATA]
    assert own.sent == 3


def test_without_credit_only_an_event_at_the_head_goes() -> None:
    own, queue = filled(DATA, END_OF_PARTITION)
    assert r.is_available(own, queue, 0) == 0
    assert r.poll_queue(own, queue, Message()) == r.BUFFER
    assert r.is_available(own, queue, 0) == 1
    message = Message()
    assert r.poll_queue(own, queue, message) == r.EVENT
    assert message == Message(END_OF_PARTITION, nbytes=8)
    assert (own.sent, own.events, own.is_finished) == (1, 0, 1)


def test_an_event_with_priority_leaves_the_open_buffer_open() -> None:
    own, queue = filled()
    r.open_buffer(own, 100)
    r.append_bytes(own, 10, 0)
    r.add_event(own, queue, UNALIGNED, 38)
    assert (own.is_open, own.ends_in_event, r.channel_backlog(own)) == (1, 0, 0)
    assert polled(own, queue) == [UNALIGNED]
    r.flush_queue(own, queue)
    assert polled(own, queue) == [DATA]


def test_an_empty_buffer_is_a_message_only_where_its_credit_must_come_back() -> None:
    for initial, found in ((2, r.EMPTY), (-1, r.EMPTY), (0, r.BUFFER)):
        own, queue = filled(initial=initial)
        r.open_buffer(own, 100)
        r.append_bytes(own, 10, 0)
        assert r.poll_queue(own, queue, Message()) == r.SLICE
        r.finish_buffer(own, queue)
        r.add_event(own, queue, END_OF_PARTITION, 4)
        assert (r.ready_messages(own), own.empty) == ((0, 1) if found == r.EMPTY else (1, 0))
        assert r.poll_queue(own, queue, Message()) == found
        assert (own.buffers, own.empty, own.sent) == (0, 0, 1 + (found == r.BUFFER))
        assert r.poll_queue(own, queue, Message()) == r.EVENT


@pytest.mark.parametrize("kind", range(END_OF_PARTITION, len(KINDS)))
def test_a_task_that_polls_an_event_recycles_nothing(kind: int) -> None:
    """An event takes no buffer, so none comes back; only the end of a partition ends an input."""
    pool, channel = LocalPool(size=3, maximum=3), InputChannel(2, 0, 2, 0, 0, 2)
    queues = [new_queue(4, ReceivedMessage)]
    gate = rounds.Gate([channel], pool, GlobalPool(3), fifo(1), fifo(1), queues, [0])
    task, union = Task(open_inputs=1), fifo(1)
    assert rounds.receive(task, gate, union, 0, 0, Message(kind, 0, 8)) == 1
    assert rounds.next_input(task, [gate], union) == 0
    assert task.open_inputs == (0 if kind == END_OF_PARTITION else 1)
    assert (pool.in_use, channel.exclusive, channel.consumed, gate.dirty_channels) == (0, 2, 0, [1])
