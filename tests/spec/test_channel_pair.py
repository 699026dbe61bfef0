"""ChannelPair: what tests of channels go through must itself notice when something is wrong."""

from __future__ import annotations

import pytest

from flowcontrol.errors import ProtocolError
from flowcontrol.spec import ConnectionQueue, InputGate, NetworkBufferPool
from modules import load

channel_pair = load("tests/spec/channel_pair.py")
ChannelPair, send_next = channel_pair.ChannelPair, channel_pair.send_next
InvariantError = channel_pair.InvariantError


def make_pair(credit=2, floating=4, sender_buffers=None, overdraft=0):
    network = NetworkBufferPool(20, 64)
    gate = InputGate(network, network.create_local_pool(1, floating), [credit])
    pool = None
    if sender_buffers is not None:
        pool = NetworkBufferPool(20, 64).create_local_pool(1, sender_buffers, overdraft, 1, 9)
    return ChannelPair(gate.channels[0], ConnectionQueue(), pool, None if pool is None else 0)


def send_all(pair):
    while send_next(pair.connection, [pair]) is not None:
        pair.check()


def cursors(pair):
    return pair.written, pair.released, pair.announced, pair.sent, pair.consumed


def test_a_window_of_credits_and_no_more():
    pair = make_pair()
    for _ in range(10):
        assert pair.write(64)
    send_all(pair)
    assert cursors(pair) == (10, 10, 2, 2, 0)
    while pair.forward:
        pair.deliver()
    assert pair.channel.unannounced_credit == 4
    assert pair.announce() == 4
    assert pair.announce() == 0
    pair.check()
    assert (pair.reader.credit, pair.announced) == (0, 6)
    pair.deliver_back()
    send_all(pair)
    assert cursors(pair) == (10, 10, 6, 6, 0)
    while pair.received:
        pair.consume()
    pair.check()
    assert pair.consumed == 2


def test_the_sender_waits_for_room_in_its_pool():
    pair = make_pair(sender_buffers=3, overdraft=1)
    assert [pair.write(64) for _ in range(6)] == [True] * 4 + [False] * 2
    assert (cursors(pair)[:2], len(pair.waiting_bytes)) == ((6, 4), 2)
    assert not pair.open(5)
    assert not pair.add_event("event")
    send_all(pair)
    pair.release()
    assert (pair.released, pair.sent, len(pair.waiting_bytes)) == (6, 2, 0)
    pair.check()


def test_each_slice_is_a_message_and_a_closed_empty_buffer_none():
    pair = make_pair()
    assert pair.open(10)
    assert cursors(pair) == (0, 0, 2, 0, 0)  # an open buffer is in no cursor
    pair.flush()
    assert cursors(pair)[:2] == (1, 1)
    send_all(pair)
    pair.append(7)
    pair.flush()
    send_all(pair)
    pair.close()
    pair.write(0)
    send_all(pair)
    assert cursors(pair) == (2, 2, 2, 2, 0)
    assert (pair.bytes_in, [p.message.nbytes for p in pair.forward]) == (17, [10, 7])


def test_barriers_block_and_resume_and_the_end_releases():
    pair = make_pair(credit=0, floating=2)
    for _ in range(3):
        pair.write(64)
    pair.add_event("aligned_barrier")
    send_all(pair)
    assert list(pair.forward) == [1]  # a backlog announced, when the second buffer came
    for _ in range(20):
        send_all(pair)
        while pair.forward:
            pair.deliver()
            pair.check()
        while pair.received:
            pair.consume()
            pair.check()
        pair.announce()
        while pair.backward:
            pair.deliver_back()
            pair.check()
        if pair.events_out == ["aligned_barrier"]:
            pair.add_event("end_of_partition")
    assert (pair.consumed, pair.events_out) == (3, ["aligned_barrier", "end_of_partition"])
    assert pair.channel.is_released


def test_a_message_without_a_buffer_is_noticed():
    pair = make_pair(credit=1)
    pair.write(64)
    pair.write(64)
    pair.connection.add_credit(pair.reader, 5)  # credit that nobody announced
    send_all_unchecked(pair)
    pair.deliver()
    pair.channel.release()
    with pytest.raises(ProtocolError, match="no buffer"):
        pair.deliver()


def test_a_changed_order_is_noticed():
    pair = make_pair()
    for _ in range(3):
        pair.write(64)
    send_all(pair)
    pair.forward.reverse()
    with pytest.raises(ProtocolError, match="message 1, expected 0"):
        pair.deliver()


def send_all_unchecked(pair):
    pair.flush()
    while send_next(pair.connection, [pair]) is not None:
        pass


@pytest.mark.parametrize(
    ("cursor", "change", "named"),
    [
        ("consumed", 5, "consumed <= sent <= released <= written"),
        ("sent", 5, "consumed <= sent <= released <= written"),
        ("released", 5, "consumed <= sent <= released <= written"),
        ("written", -5, "consumed <= sent <= released <= written"),
        ("announced", -2, "sent <= announced"),
        ("announced", 1, "announced"),
    ],
)
def test_a_wrong_cursor_is_named(cursor, change, named):
    pair = make_pair()
    for _ in range(4):
        pair.write(64)
    send_all(pair)
    pair.deliver()
    pair.check()
    setattr(pair, cursor, getattr(pair, cursor) + change)
    with pytest.raises(InvariantError, match=named):
        pair.check()


def test_a_lost_buffer_and_negative_credit_are_named():
    pair = make_pair()
    pair.channel.take()  # a buffer that no message is in
    with pytest.raises(InvariantError, match="buffers held"):
        pair.check()
    pair = make_pair()
    pair.channel.state.unannounced += 1
    with pytest.raises(InvariantError, match="unannounced - consumed = 2 buffers held"):
        pair.check()
    pair = make_pair()
    pair.subpartition.state.announced = pair.subpartition.state.sent - 1
    with pytest.raises(InvariantError, match="0 <= credit"):
        pair.check()
