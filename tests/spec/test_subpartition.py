"""The sender's queue: backlog, notifications, flushes, slices, events, blocking."""

from __future__ import annotations

from dataclasses import replace

import pytest

from flowcontrol.spec import Message, ProtocolError, Subpartition
from flowcontrol.spec.subpartition import EVENT_KINDS
from flowcontrol.state.queues import in_order

SIZE = 1024
COUNTS = ("notifications", "priority_notifications", "total_buffers", "total_bytes")


@pytest.fixture
def sub():
    return Subpartition(initial_credit=2)


def expect(sub, nbytes, more, backlog, event, kind="data"):
    """Poll, and compare with what a reader with and without credit sees afterwards."""
    assert sub.poll() == Message(kind, nbytes, more, backlog, event)
    assert sub.is_available(credit=1) == more
    assert sub.is_available(credit=0) == event


def state(sub):
    """All of it, copied."""
    handles = [{**vars(handle), "_owner": None} for handle in sub._handles]
    queue = [replace(message) for message in in_order(sub.queue)]
    counts = [getattr(sub, name) for name in COUNTS]
    return replace(sub.state), queue, handles, counts


# -- scenarios of PipelinedSubpartitionWithReadViewTest ----------------------------------------


def test_two_open_buffers_are_a_violation(sub):
    sub.add_buffer(0)
    sub.add_buffer(0)
    before = state(sub)
    with pytest.raises(ProtocolError, match="open buffer"):
        sub.poll()
    with pytest.raises(ProtocolError, match="open buffer"):
        sub.peek()
    assert state(sub) == before


def test_an_open_buffer_behind_an_empty_one_is_found_before_anything_changes(sub):
    for is_finished in (True, False, False):
        sub.add_buffer(0, is_finished)
    before = state(sub)
    with pytest.raises(ProtocolError, match="open buffer"):
        sub.poll()
    assert state(sub) == before


def test_an_empty_open_buffer(sub):
    handle = sub.add_buffer(0)
    assert (sub.notifications, sub.poll()) == (0, None)
    handle.finish()
    sub.add_buffer(0)
    assert (sub.backlog, sub.notifications) == (1, 1)  # for the one that was closed
    assert sub.poll() is None
    assert (sub.backlog, sub.queued) == (0, 1)


def test_an_open_buffer_is_read_though_nobody_was_told(sub):
    sub.add_buffer(SIZE)
    assert (sub.notifications, sub.backlog) == (0, 0)
    expect(sub, SIZE, False, 0, False)
    assert sub.queued == 1


def test_an_open_buffer_behind_a_full_one(sub):
    sub.add_buffer(1025, is_finished=True)
    sub.add_buffer(SIZE)
    assert (sub.backlog, sub.notifications) == (1, 1)
    expect(sub, 1025, False, 0, False)
    expect(sub, SIZE, False, 0, False)
    assert sub.poll() is None


def test_flushing_an_open_buffer_behind_a_full_one(sub):
    sub.add_buffer(1025, is_finished=True)
    sub.add_buffer(SIZE)
    assert sub.backlog == 1
    sub.flush()
    assert (sub.notifications, sub.backlog) == (1, 2)  # told already
    expect(sub, 1025, True, 1, False)
    expect(sub, SIZE, False, 0, False)
    assert sub.poll() is None


@pytest.mark.parametrize(("nbytes", "notified"), [(0, 0), (1, 1), (2, 1)])
def test_one_unread_byte_is_enough_for_a_flush(sub, nbytes, notified):
    sub.add_buffer(nbytes)
    sub.flush()
    assert (sub.notifications, sub.is_flush_pending) == (notified, notified == 1)


def test_flushing_what_is_left(sub):
    sub.flush()
    assert (sub.notifications, sub.is_flush_pending) == (0, False)
    sub.add_buffer(1025, is_finished=True)
    sub.add_buffer(SIZE)
    expect(sub, 1025, False, 0, False)
    sub.flush()
    assert sub.notifications == 2
    sub.flush()
    assert (sub.notifications, sub.backlog) == (2, 1)
    expect(sub, SIZE, False, 0, False)
    assert (sub.poll(), sub.is_flush_pending) == (None, False)


def test_empty_buffers_are_skipped(sub):
    notifications = []
    for nbytes in (0, 0, 0, SIZE):
        sub.add_buffer(nbytes, is_finished=True)
        notifications.append(sub.notifications)
    assert (notifications, sub.backlog) == ([0, 1, 1, 1], 3)
    expect(sub, SIZE, False, 0, False)
    assert (sub.queued, sub.poll()) == (0, None)


def test_produce_and_consume(sub):
    assert (sub.is_available(1), sub.poll()) == (False, None)
    for i in (1, 2):
        sub.add_buffer(SIZE, is_finished=True)
        assert not sub.is_available(1)  # full, but the queue has not noticed
        assert (sub.total_buffers, sub.backlog, sub.notifications) == (i, 0, 0)
        expect(sub, SIZE, False, 0, False)
        assert (sub.total_bytes, sub.poll()) == (i * SIZE, None)
    sub.add_buffer(SIZE, is_finished=True)
    sub.add_event("event", SIZE)
    sub.add_buffer(SIZE, is_finished=True)
    assert not sub.is_available(0)
    assert (sub.total_buffers, sub.backlog, sub.notifications) == (5, 1, 1)
    expect(sub, SIZE, True, 0, True)
    expect(sub, SIZE, False, 0, False, "event")
    expect(sub, SIZE, False, 0, False)
    assert (sub.poll(), sub.total_bytes, sub.notifications) == (None, 5 * SIZE, 1)


def test_a_barrier_overtakes(sub):
    seen = []
    for step in (1, 2, "event", 4, "unaligned_barrier"):
        if isinstance(step, int):
            sub.add_buffer(step, is_finished=True)
        else:
            sub.add_event(step)
        seen.append((sub.notifications, sub.priority_notifications))
    assert seen == [(0, 0), (1, 0), (1, 0), (1, 0), (1, 1)]
    expect(sub, 8, True, 2, False, "unaligned_barrier")
    expect(sub, 1, True, 1, False)
    expect(sub, 2, True, 0, True)
    expect(sub, 8, False, 0, False, "event")
    expect(sub, 4, False, 0, False)
    assert sub.poll() is None


def test_availability_after_a_priority_event(sub):
    sub.add_event("unaligned_barrier")
    assert (sub.notifications, sub.priority_notifications) == (1, 1)
    for expected in (2, 2):
        sub.add_buffer(1, is_finished=True)
        assert (sub.notifications, sub.priority_notifications) == (expected, 1)
    expect(sub, 8, True, 1, False, "unaligned_barrier")
    expect(sub, 1, False, 0, False)
    expect(sub, 1, False, 0, False)


def test_priority_events_keep_their_own_order(sub):
    sub.add_buffer(1, is_finished=True)
    sub.add_event("unaligned_barrier", 11)
    sub.add_event("unaligned_barrier", 12)
    assert sub.priority_notifications == 1  # the second one is read along
    assert [sub.poll().nbytes for _ in range(3)] == [11, 12, 1]
    sub.add_event("unaligned_barrier", 13)
    assert sub.priority_notifications == 2


@pytest.mark.parametrize(
    ("is_flushed", "is_finished"), [(False, False), (True, False), (False, True)]
)
def test_the_backlog_is_what_can_be_consumed(sub, is_flushed, is_finished):
    for i in range(5):
        sub.add_buffer(SIZE, is_finished=i < 4 or is_finished)
    if is_flushed:
        sub.flush()
    if is_finished:
        sub.finish()
    backlog, messages = sub.backlog, []
    while sub.is_available(credit=1):
        messages.append(sub.poll().kind)
    assert messages.count("data") == backlog == (5 if is_flushed or is_finished else 4)


# -- blocking ----------------------------------------------------------------------------------


def block(sub, kind="aligned_barrier"):
    sub.add_event(kind, SIZE)
    assert sub.notifications == 1
    expect(sub, SIZE, False, 0, False, kind)
    assert sub.is_blocked


def check_silent(sub):
    assert sub.notifications == 1
    assert not sub.is_available(credit=1)
    assert not sub.is_available(credit=0)
    assert (sub.poll(), sub.peek(), sub.backlog) == (None, None, 0)


@pytest.mark.parametrize("kind", ["aligned_barrier", "timeoutable_barrier", "recovery_completion"])
def test_resuming_with_an_event(sub, kind):
    block(sub, kind)
    sub.add_event("event", SIZE)
    check_silent(sub)
    sub.resume()
    assert (sub.is_available(credit=0), sub.notifications) == (True, 1)
    expect(sub, SIZE, False, 0, False, "event")


def test_resuming_with_a_flushed_buffer(sub):
    block(sub)
    sub.add_buffer(SIZE, is_finished=True)
    sub.flush()
    check_silent(sub)
    sub.resume()
    assert (sub.is_available(credit=1), sub.backlog) == (True, 1)
    expect(sub, SIZE, False, 0, False)


def test_resuming_with_a_buffer_that_was_not_flushed(sub):
    block(sub)
    sub.add_buffer(SIZE, is_finished=True)
    check_silent(sub)
    sub.resume()
    assert not sub.is_available(credit=1)


def test_resuming_with_full_buffers(sub):
    block(sub)
    sub.add_buffer(SIZE, is_finished=True)
    sub.add_buffer(SIZE, is_finished=True)
    check_silent(sub)
    sub.resume()
    assert sub.is_available(credit=1)
    expect(sub, SIZE, False, 0, False)
    expect(sub, SIZE, False, 0, False)


def test_resuming_an_empty_subpartition(sub):
    block(sub)
    sub.resume()
    assert (sub.is_available(credit=1), sub.poll()) == (False, None)


def test_a_priority_event_in_a_blocked_subpartition_is_silent(sub):
    block(sub)
    sub.add_event("unaligned_barrier")
    assert sub.priority_notifications == 0
    check_silent(sub)
    sub.resume()
    expect(sub, 8, False, 0, False, "unaligned_barrier")


def test_resuming_what_is_not_blocked_is_a_violation(sub):
    before = state(sub)
    with pytest.raises(ProtocolError, match="not blocked"):
        sub.resume()
    assert state(sub) == before


# -- slices ------------------------------------------------------------------------------------


def test_every_slice_of_a_flushed_buffer_is_a_message(sub):
    handle, slices = sub.add_buffer(100), []
    for following in (28, 36, 0):
        sub.flush()
        assert (sub.is_available(credit=1), sub.backlog) == (True, 1)
        message = sub.poll()
        slices.append(message.nbytes)
        assert (message.more_available, message.backlog, sub.queued) == (False, 0, 1)
        handle.append(following)
    assert (slices, handle.unread, sub.notifications) == ([100, 28, 36], 0, 3)
    sub.flush()
    assert (sub.is_flush_pending, sub.poll()) == (False, None)  # nothing unread
    handle.finish()
    assert sub.queued == 1
    assert (sub.poll(), sub.queued) == (None, 0)  # closed and empty: no message


def test_a_buffer_closed_after_its_slice_is_noticed_when_the_next_is_added(sub):
    handle = sub.add_buffer(10)
    sub.flush()
    sub.poll()
    handle.append(5)
    handle.finish()
    assert not sub.is_available(credit=1)
    sub.add_buffer(7)
    assert (sub.notifications, sub.backlog) == (2, 1)
    expect(sub, 5, False, 0, False)


def test_without_exclusive_buffers_an_empty_message_brings_the_credit_back():
    sub = Subpartition(initial_credit=0)
    handle = sub.add_buffer(10)
    sub.flush()
    expect(sub, 10, False, 0, False)
    assert sub.poll() is None  # open and empty: still none
    handle.finish()
    sub.add_event("event")
    expect(sub, 0, True, 0, True)
    expect(sub, 8, False, 0, False, "event")


def test_a_handle_closes_for_good(sub):
    handle = sub.add_buffer(10)
    handle.finish()
    handle.finish()
    with pytest.raises(ValueError, match="closed"):
        handle.append(1)
    assert (handle.nbytes, handle.is_finished, handle.is_queued) == (10, True, True)
    sub.poll()
    assert not handle.is_queued


def test_negative_bytes_are_refused(sub):
    handle = sub.add_buffer(10)
    with pytest.raises(ValueError, match="-1"):
        handle.append(-1)
    assert handle.nbytes == 10
    with pytest.raises(ValueError, match="nbytes is -1"):
        sub.add_buffer(-1)
    with pytest.raises(ValueError, match="credit is -1"):
        sub.is_available(-1)
    with pytest.raises(ValueError, match="initial_credit is -1"):
        Subpartition(-1)
    assert sub.total_buffers == 1


# -- events and the end ------------------------------------------------------------------------


def test_an_event_is_seen_finished_at_once(sub):
    sub.add_event("event")
    assert (sub.notifications, sub.is_available(0), sub.backlog) == (1, True, 0)
    sub.flush()
    assert sub.notifications == 2  # one element with unread bytes, like any other
    expect(sub, 8, False, 0, False, "event")


def test_an_event_makes_the_buffer_before_it_count(sub):
    sub.add_buffer(SIZE, is_finished=True)
    assert sub.backlog == 0
    sub.add_event("event")
    assert (sub.backlog, sub.notifications) == (1, 1)


def test_the_end_always_notifies(sub):
    for _ in range(3):
        sub.add_buffer(SIZE, is_finished=True)
    sub.flush()
    assert sub.notifications == 1
    sub.finish()
    assert (sub.notifications, sub.backlog, sub.is_finished) == (2, 3, True)
    for backlog in (2, 1, 0):
        expect(sub, SIZE, True, backlog, backlog == 0)
    expect(sub, 4, False, 0, False, "end_of_partition")


def test_the_end_notifies_even_when_blocked(sub):
    block(sub)
    sub.finish()
    assert sub.notifications == 2
    assert sub.poll() is None
    sub.resume()
    assert sub.poll().kind == "end_of_partition"


def test_nothing_may_be_added_after_the_end(sub):
    sub.finish()
    before = state(sub)
    for call in (
        lambda: sub.add_buffer(1),
        lambda: sub.add_event("event"),
        lambda: sub.add_event("unaligned_barrier"),
        lambda: sub.add_event("end_of_partition"),
        sub.finish,
    ):
        with pytest.raises(ValueError, match="finished"):
            call()
        assert state(sub) == before
    sub.flush()
    assert sub.poll().kind == "end_of_partition"


@pytest.mark.parametrize(
    ("kind", "nbytes"), [("watermark", 8), ("data", 8), ("event", 0), ("event", -1)]
)
def test_impossible_events_are_refused(sub, kind, nbytes):
    with pytest.raises(ValueError, match=r"unknown kind|at least 1"):
        sub.add_event(kind, nbytes)
    assert sub.queued == 0


@pytest.mark.parametrize("kind", sorted(EVENT_KINDS))
def test_every_kind_of_event_comes_out_as_it_went_in(sub, kind):
    sub.add_event(kind, 38)
    message = sub.poll()
    assert (message.kind, message.nbytes, message.is_event) == (kind, 38, True)
    assert sub.is_blocked == EVENT_KINDS[kind].blocks


def test_defaults():
    sub = Subpartition()
    assert sub.initial_credit == 2
    sub.add_buffer(SIZE, is_finished=True)
    sub.add_buffer(SIZE, is_finished=True)
    assert (sub.is_available(), sub.is_available(1)) == (False, True)


def test_the_listener_hears_every_notification(sub):
    calls = []
    sub.listener = lambda: calls.append((sub.notifications, sub.priority_notifications))
    sub.add_event("unaligned_barrier")
    assert calls == [(0, 1), (1, 1)]
