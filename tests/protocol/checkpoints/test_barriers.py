"""Rules of barriers on the edges: kinds, queues, what they overtake, what they block."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flowcontrol.protocol.checkpoints import barriers as b
from flowcontrol.protocol.checkpoints.alignment import (
    ALIGNED,
    AT_LEAST_ONCE,
    TIMEOUTABLE,
    UNALIGNED,
)
from flowcontrol.protocol.network import subpartition_rules as r
from flowcontrol.protocol.network.events import broadcast_event, holds_barrier, overtake_partition
from flowcontrol.state import queues as q
from flowcontrol.state.network import (
    CoordinatorMessage,
    GlobalPool,
    LocalPool,
    Message,
    ReceivedMessage,
    Subpartition,
    TaskCheckpoint,
)
from flowcontrol.state.queues import use_all
from flowcontrol.state.rows import Partition, fifo, fifo_push, fifo_remove, fifo_values

KINDS = [
    # mode, savepoint, forced, unaligned here -> kind
    (AT_LEAST_ONCE, 0, 0, 0, q.AT_LEAST_ONCE_BARRIER),
    (AT_LEAST_ONCE, 1, 1, 0, q.AT_LEAST_ONCE_BARRIER),
    (ALIGNED, 0, 0, 0, q.ALIGNED_BARRIER),
    (ALIGNED, 1, 0, 0, q.SAVEPOINT_BARRIER),
    (UNALIGNED, 0, 0, 1, q.UNALIGNED_BARRIER),
    (UNALIGNED, 0, 0, 0, q.UNALIGNED_BARRIER),  # behind a task that was forced to align
    (UNALIGNED, 0, 1, 1, q.ALIGNED_BARRIER),
    (UNALIGNED, 1, 0, 0, q.SAVEPOINT_BARRIER),
    (TIMEOUTABLE, 0, 0, 0, q.TIMEOUTABLE_BARRIER),
    (TIMEOUTABLE, 0, 0, 1, q.UNALIGNED_BARRIER),
    (TIMEOUTABLE, 0, 1, 1, q.ALIGNED_BARRIER),
    (TIMEOUTABLE, 1, 1, 0, q.SAVEPOINT_BARRIER),
]


@pytest.mark.parametrize(("mode", "savepoint", "forced", "unaligned", "kind"), KINDS)
def test_the_kind_on_an_edge(
    mode: int, savepoint: int, forced: int, unaligned: int, kind: int
) -> None:
    assert b.outgoing_kind(mode, savepoint, forced, unaligned) == kind
    assert b.is_barrier(kind) == 1


def test_what_is_no_barrier() -> None:
    others = {kind.name for n, kind in enumerate(q.KINDS) if b.is_barrier(n) == 0}
    ends = {"end_of_partition", "end_of_data"}
    plain = {"data", "backlog_announcement", "event", "cancel_marker", "recovery_completion"}
    assert others == plain | ends


def test_which_messages_do_not_wait_for_their_turn() -> None:
    urgent = [kind.name for n, kind in enumerate(q.KINDS) if q.is_urgent(n) == 1]
    assert urgent == ["timeoutable_barrier", "unaligned_barrier"]


# ---- queues


@given(turns=st.integers(0, 6), count=st.integers(1, 6), data=st.data())
def test_a_message_is_taken_from_any_place_of_a_ring(
    turns: int, count: int, data: st.DataObject
) -> None:
    place = data.draw(st.integers(0, count - 1))
    sent, received = q.new_queue(6, Message), q.new_queue(6, ReceivedMessage)
    for queue in (sent, received):
        use_all(queue.ends, queue.slots)
        queue.ends.head = turns % 6
    for number in range(count):
        for queue in (sent, received):
            slot = q.next_slot(queue)
            slot.nbytes = number
            slot.checkpoint = slot.created = number % 2
            q.append(queue)
        slot.buffer = number
    q.remove(sent, place)
    q.remove_received(received, place)
    left = [number for number in range(count) if number != place]
    assert [m.nbytes for m in q.in_order(sent)] == left
    assert [(m.nbytes, m.buffer) for m in q.in_order(received)] == [(n, n) for n in left]
    assert [m.checkpoint for m in q.in_order(sent)] == [n % 2 for n in left]


@given(values=st.lists(st.integers(0, 3), max_size=6), taken=st.integers(0, 3))
def test_a_value_is_taken_out_of_a_row(values: list[int], taken: int) -> None:
    row = fifo(6)
    for value in values:
        fifo_push(row, value)
    fifo_remove(row, taken)
    assert fifo_values(row) == [value for value in values if value != taken]


def test_data_in_the_slot_of_a_barrier_belongs_to_no_checkpoint() -> None:
    own, queue = Subpartition(announced=9), q.new_queue(1, Message)
    r.add_event(own, queue, q.ALIGNED_BARRIER, b.BARRIER_BYTES, 7, 99)
    message = Message()
    assert r.poll_queue(own, queue, message) == r.EVENT
    assert (message.checkpoint, message.created) == (7, 99)
    r.on_resume_consumption(own, 1)
    r.open_buffer(own, 100)
    r.append_bytes(own, 100, 0)
    r.finish_buffer(own, queue)
    [kept] = q.in_order(queue)
    assert (kept.checkpoint, kept.created) == (0, 0)
    assert r.poll_queue(own, queue, message) == r.BUFFER  # into the message that held the barrier
    assert (message.kind, message.checkpoint, message.created) == (q.DATA, 0, 0)


# ---- one partition


def partition(*buffers: int, open_bytes: int = 0) -> Partition:
    """One subpartition with finished buffers of so many bytes, and an open one."""
    own, queue = Subpartition(initial=2, announced=2), q.new_queue(9, Message)
    for nbytes in (*buffers, *([open_bytes] if open_bytes else [])):
        if own.is_open == 1:
            r.finish_buffer(own, queue)
        r.open_buffer(own, 4096)
        r.append_bytes(own, nbytes, 0)
    if own.is_open == 1 and not open_bytes:
        r.finish_buffer(own, queue)
    return Partition(LocalPool(), GlobalPool(), [own], [queue], [fifo(9)], [0], 0)


def kinds(part: Partition) -> list[int]:
    return [message.kind for message in q.in_order(part.queues[0])]


def test_an_aligned_barrier_goes_behind_the_data_and_persists_nothing() -> None:
    part = partition(100, 50, open_bytes=20)
    assert broadcast_event(part, q.ALIGNED_BARRIER, b.BARRIER_BYTES, 1, 0) == 0
    [own] = part.channels
    assert kinds(part) == [q.DATA, q.DATA, q.DATA, q.ALIGNED_BARRIER]
    assert (own.is_open, own.buffers, own.persisted) == (0, 3, 0)
    assert r.channel_backlog(own) == 3  # all before it is countable


def test_an_unaligned_barrier_goes_before_the_data_which_it_persists() -> None:
    part = partition(100, 50, open_bytes=20)
    assert broadcast_event(part, q.UNALIGNED_BARRIER, b.BARRIER_BYTES, 1, 0) == 170
    [own] = part.channels
    assert kinds(part) == [q.UNALIGNED_BARRIER, q.DATA, q.DATA, q.DATA]
    assert (own.is_open, own.persisted) == (0, 170)
    assert r.is_available(own, part.queues[0], 0) == 1  # without credit


def test_a_timeoutable_barrier_overtakes_until_it_is_sent() -> None:
    part = partition(100, 50)
    broadcast_event(part, q.TIMEOUTABLE_BARRIER, b.BARRIER_BYTES, 4, 77)
    assert (holds_barrier(part, 4), holds_barrier(part, 3)) == (1, 0)
    assert overtake_partition(part, 3) == 0  # of another checkpoint
    assert overtake_partition(part, 4) == 150
    [own], [queue] = part.channels, part.queues
    assert kinds(part) == [q.UNALIGNED_BARRIER, q.DATA, q.DATA]
    assert (q.message_at(queue, 0).checkpoint, q.message_at(queue, 0).created) == (4, 77)
    assert (own.events, own.ends_in_event, own.persisted, holds_barrier(part, 4)) == (1, 0, 150, 0)
    message = Message()
    assert r.poll_queue(own, queue, message) == r.EVENT
    assert own.is_blocked == 0  # as an unaligned one
    assert overtake_partition(part, 4) == 0


def test_what_was_written_behind_a_timeoutable_barrier_is_not_overtaken() -> None:
    part = partition(100)
    broadcast_event(part, q.TIMEOUTABLE_BARRIER, b.BARRIER_BYTES, 4, 77)
    [own], [queue] = part.channels, part.queues
    r.open_buffer(own, 4096)
    r.append_bytes(own, 30, 0)
    r.finish_buffer(own, queue)
    r.open_buffer(own, 4096)
    assert overtake_partition(part, 4) == 100
    assert kinds(part) == [q.UNALIGNED_BARRIER, q.DATA, q.DATA]
    assert (own.is_open, own.ends_in_event) == (1, 0)


def test_a_timeoutable_barrier_alone_stays_what_is_queued_last() -> None:
    part = partition()
    broadcast_event(part, q.TIMEOUTABLE_BARRIER, b.BARRIER_BYTES, 4, 77)
    assert overtake_partition(part, 4) == 0
    assert (part.channels[0].events, part.channels[0].ends_in_event) == (1, 1)


def test_a_subpartition_is_blocked_while_it_has_sent_more_than_was_resumed() -> None:
    own, queue = Subpartition(initial=2, announced=2), q.new_queue(9, Message)
    message = Message()
    for checkpoint in (1, 2):
        r.add_event(own, queue, q.ALIGNED_BARRIER, b.BARRIER_BYTES, checkpoint, 0)
    assert r.poll_queue(own, queue, message) == r.EVENT
    assert (own.blocks, own.is_blocked) == (1, 1)
    assert r.poll_queue(own, queue, message) == r.NOTHING
    r.on_resume_consumption(own, 0)
    assert own.is_blocked == 1
    r.on_resume_consumption(own, 1)
    assert own.is_blocked == 0
    assert r.poll_queue(own, queue, message) == r.EVENT
    r.on_resume_consumption(own, 1)  # the same word again resumes nothing
    assert (own.blocks, own.is_blocked, message.checkpoint) == (2, 1, 2)


# ---- what the coordinator says


def test_an_aborted_checkpoint_is_known_from_its_round_on_until_it_is_passed() -> None:
    aborted = q.new_queue(3, CoordinatorMessage)
    use_all(aborted.ends, aborted.slots)
    aborted.ends.head = 2
    for checkpoint, arrives in ((3, 5), (4, 6), (6, 7)):
        slot = q.next_slot(aborted)
        slot.checkpoint, slot.arrives = checkpoint, arrives
        q.append(aborted)
    assert [b.is_aborted(aborted, 4, number) for number in (5, 6, 9)] == [0, 1, 1]
    assert b.is_aborted(aborted, 5, 9) == 0
    b.forget_aborted(aborted, 4)
    assert [one.checkpoint for one in q.in_order(aborted)] == [6]
    assert (b.is_past(TaskCheckpoint(handled=4), 4), b.is_past(TaskCheckpoint(handled=4), 5)) == (
        1,
        0,
    )


def test_a_task_finishes_with_a_checkpoint_that_it_took_since_its_end() -> None:
    state = TaskCheckpoint()
    assert b.notify_checkpoint_complete(state, 9, 20) == 0  # it has taken none since
    state.final = 5
    assert b.notify_checkpoint_complete(state, 4, 20) == 0
    assert b.notify_checkpoint_complete(state, 5, 21) == 1
    assert b.notify_checkpoint_complete(state, 6, 30) == 0  # the first word counts
    assert state.finishes == 21
