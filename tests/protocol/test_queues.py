"""Queues of messages against a deque, and what a slot keeps."""

from __future__ import annotations

from collections import deque

from hypothesis import given
from hypothesis import strategies as st

from flowcontrol.state.network import Message, ReceivedMessage
from flowcontrol.state.queues import (
    BACKLOG_ANNOUNCEMENT,
    append,
    carry,
    drop,
    in_order,
    is_event,
    new_queue,
    next_slot,
    refill_queue,
)


@given(capacity=st.integers(1, 4), pushes=st.lists(st.booleans(), max_size=40))
def test_a_queue_is_first_in_first_out(capacity: int, pushes: list[bool]) -> None:
    queue, model = new_queue(capacity, Message), deque[int]()
    for number, is_push in enumerate(pushes):
        if is_push and len(model) < capacity:
            next_slot(queue).records = number
            append(queue)
            model.append(number)
        elif not is_push and model:
            assert drop(queue).records == model.popleft()
        assert [message.records for message in in_order(queue)] == list(model)
        assert queue.ends.count == len(model)


def test_a_slot_is_written_in_place() -> None:
    queue = new_queue(2, ReceivedMessage)
    slot = next_slot(queue)
    carry(slot, Message(records=3, nbytes=40, backlog=5))
    slot.buffer = 2
    assert in_order(queue) == []  # not before it is appended
    append(queue)
    assert in_order(queue) == [ReceivedMessage(0, 3, 40, 5, buffer=2)]
    kept = drop(queue)
    assert (kept is slot, kept.records, in_order(queue)) == (True, 3, [])


def test_a_queue_is_refilled_from_its_oldest_on() -> None:
    queue = new_queue(3, Message)
    for _ in range(2):
        append(queue)
        drop(queue)
    refill_queue(queue, [Message(records=n) for n in (7, 8, 9)])
    assert [message.records for message in in_order(queue)] == [7, 8, 9]


def test_data_takes_credit_and_events_do_not() -> None:
    assert is_event(Message()) == 0
    assert is_event(Message(kind=BACKLOG_ANNOUNCEMENT, backlog=3)) == 1


def test_a_queue_of_nothing_has_a_slot() -> None:
    assert len(new_queue(0, Message).slots) == 1
