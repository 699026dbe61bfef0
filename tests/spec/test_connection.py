"""A sender's credit, and the order of channels on one connection."""

from __future__ import annotations

import pytest

from flowcontrol.spec import (
    ConnectionQueue,
    Message,
    ProtocolError,
    SequenceNumberingReader,
    Subpartition,
)


def make_reader(initial_credit=2, buffers=0, connection=None):
    sub = Subpartition(initial_credit)
    for _ in range(buffers):
        sub.add_buffer(10, is_finished=True)
    reader = SequenceNumberingReader(sub)
    if connection is not None:
        connection.add_reader(reader)
    return reader


def drain(connection, limit=100):
    """Readers in the order in which they were served."""
    served = []
    while (sent := connection.next_message()) is not None:
        served.append(sent[0])
        assert len(served) <= limit
    return served


# -- one reader --------------------------------------------------------------------------------


def test_data_costs_one_credit_and_events_nothing():
    reader = make_reader(buffers=2)
    reader.subpartition.add_event("event")
    seen = []
    for _ in range(3):
        message = reader.poll()
        seen.append((message.kind, reader.credit, reader.sequence_number, message.more_available))
    assert seen == [("data", 1, 1, True), ("data", 0, 2, True), ("event", 0, 3, False)]


@pytest.mark.parametrize(
    ("credit", "available", "more"), [(0, False, None), (1, True, False), (2, True, True)]
)
def test_more_is_available_only_while_credit_is_left(credit, available, more):
    reader = make_reader(initial_credit=0, buffers=3)
    if credit:
        reader.add_credit(credit)
    assert reader.is_available == available
    if available:
        assert reader.poll() == Message("data", 10, more, 1, False)


def test_sending_without_credit_is_a_violation_and_changes_nothing():
    reader = make_reader(initial_credit=0, buffers=2)
    with pytest.raises(ProtocolError, match="no credit"):
        reader.poll()
    assert (reader.credit, reader.sequence_number, reader.subpartition.queued) == (0, 0, 2)
    assert reader.subpartition.total_bytes == 0


def test_nothing_to_send_costs_nothing():
    reader = make_reader(initial_credit=1)
    assert reader.poll() is None
    reader.subpartition.add_buffer(0, is_finished=True)
    assert reader.poll() is None  # skipped: the receiver has an exclusive buffer
    assert (reader.credit, reader.sequence_number) == (1, 0)


@pytest.mark.parametrize("credit", [0, -1])
def test_no_credit_cannot_be_announced(credit):
    reader = make_reader()
    with pytest.raises(ValueError, match=f"is {credit}"):
        reader.add_credit(credit)
    assert reader.credit == 2


@pytest.mark.parametrize(("initial", "left"), [(0, 0), (2, 5)])
def test_resuming_resets_credit_only_without_exclusive_buffers(initial, left):
    reader = make_reader(initial)
    reader.add_credit(5 - initial)
    with pytest.raises(ProtocolError, match="not blocked"):
        reader.resume()
    assert reader.credit == 5
    reader.subpartition.add_event("aligned_barrier")
    reader.poll()
    reader.resume()
    assert (reader.credit, reader.subpartition.is_blocked) == (left, False)


# -- one connection (PartitionRequestQueueTest) ------------------------------------------------


def test_readers_take_turns_of_one_message():
    connection = ConnectionQueue()
    a, b, c = (make_reader(9, n, connection) for n in (5, 3, 1))
    assert connection.readers == (a, b)  # a lone buffer is not yet known to be full
    assert drain(connection) == [a, b, a, b, a, a]
    for reader in (a, b, c):
        reader.subpartition.flush()
    assert drain(connection) == [a, b, c]


def test_a_reader_stands_in_the_queue_once():
    connection = ConnectionQueue()
    reader = make_reader(2, 0, connection)
    for _ in range(4):
        reader.subpartition.add_buffer(10, is_finished=True)
        connection.notify(reader)
    assert connection.readers == (reader,)
    assert reader.is_registered
    assert drain(connection) == [reader, reader]
    assert not reader.is_registered


def test_a_reader_waits_for_both_data_and_credit():
    connection = ConnectionQueue()
    reader = make_reader(1, 6, connection)
    assert drain(connection) == [reader]
    connection.notify(reader)
    assert connection.readers == ()
    for credit in (1, 2, 3):
        connection.add_credit(reader, 1)
        assert (connection.readers, reader.credit) == ((reader,), credit)
    assert drain(connection) == [reader] * 3
    assert (reader.credit, reader.is_registered, reader.subpartition.queued) == (0, False, 2)


def test_an_event_needs_no_credit():
    connection = ConnectionQueue()
    reader = make_reader(0, 0, connection)
    reader.subpartition.add_event("event")
    assert connection.readers == (reader,)
    assert connection.next_message() == (reader, Message("event", 8, False, 0, False))
    assert reader.credit == 0


def test_resuming_puts_a_reader_back():
    connection = ConnectionQueue()
    reader = make_reader(2, 0, connection)
    reader.subpartition.add_event("aligned_barrier")
    for _ in range(2):
        reader.subpartition.add_buffer(10, is_finished=True)
    reader.subpartition.flush()
    assert len(drain(connection)) == 1
    assert (connection.readers, reader.subpartition.queued) == ((), 2)
    connection.resume(reader)
    assert drain(connection) == [reader, reader]


@pytest.mark.parametrize(
    ("initial", "buffers", "announced"), [(0, 2, [1]), (0, 1, []), (0, 0, []), (1, 3, [])]
)
def test_a_backlog_is_announced_only_with_no_credit_at_all(initial, buffers, announced):
    connection = ConnectionQueue()
    reader = make_reader(initial, buffers, connection)
    drain(connection)
    assert [a.backlog for a in connection.announcements] == announced
    assert all(a.reader is reader for a in connection.announcements)


def test_with_credit_left_a_backlog_rides_on_messages():
    connection = ConnectionQueue()
    reader = make_reader(0, 3, connection)
    assert len(connection.announcements) == 1
    connection.add_credit(reader, 1)
    assert drain(connection) == [reader]
    assert len(connection.announcements) == 1
    reader.subpartition.flush()  # pending already counted: two stand in the queue, no message
    connection.notify(reader)
    assert [a.backlog for a in connection.announcements] == [2, 2]


def test_a_reader_that_turns_out_to_have_nothing_is_skipped():
    connection = ConnectionQueue()
    empty, full = make_reader(2, 0, connection), make_reader(2, 0, connection)
    for _ in range(2):
        empty.subpartition.add_buffer(0, is_finished=True)
        full.subpartition.add_buffer(10, is_finished=True)
    assert connection.readers == (empty, full)
    assert drain(connection) == [full]
    assert not empty.is_registered


def test_a_violation_leaves_the_queue_as_it_was():
    connection = ConnectionQueue()
    reader = make_reader(2, 0, connection)
    reader.subpartition.add_buffer(5)
    reader.subpartition.add_buffer(5)
    with pytest.raises(ProtocolError, match="open buffer"):
        connection.next_message()
    assert (connection.readers, reader.is_registered, reader.credit) == ((reader,), True, 2)


def test_a_subpartition_is_consumed_once():
    connection = ConnectionQueue()
    reader = make_reader(2, 2, connection)
    with pytest.raises(ValueError, match="consumed already"):
        ConnectionQueue().add_reader(reader)
    connection.remove_reader(reader)
    connection.remove_reader(reader)
    assert (connection.readers, reader.is_registered) == ((), False)
    connection.add_reader(reader)
    assert connection.readers == (reader,)
