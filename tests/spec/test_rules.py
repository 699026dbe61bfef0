"""Hand tables of the rules that only the specification has."""

from __future__ import annotations

import pytest

from flowcontrol.spec.connection import credit_after_resume, credit_after_send
from flowcontrol.spec.gate import block_channel, release_channel, resume_channel
from flowcontrol.spec.subpartition import should_notify_on_add, should_notify_priority
from flowcontrol.state.network import GlobalPool, InputChannel, LocalPool
from flowcontrol.state.rows import Gate


def channel(exclusive=2, floating=0, required=2, waiting=0, unannounced=0, initial=2):
    return InputChannel(exclusive, floating, required, waiting, unannounced, initial)


def pool(size=4, in_use=0, free=1):
    return LocalPool(size, in_use, free, required=1, maximum=8)


def gate(channels, own_pool, segments):
    return Gate(channels, own_pool, segments, [0] * 3, [], [], [])


@pytest.mark.parametrize(
    ("finished", "flush", "blocked", "is_finish", "expected"),
    [
        (0, 0, 0, 0, 0),
        (1, 0, 0, 0, 1),
        (2, 0, 0, 0, 0),  # the third element is silent
        (1, 1, 0, 0, 0),
        (1, 0, 1, 0, 0),
        (5, 1, 1, 1, 1),  # the end always notifies
    ],
)
def test_should_notify_on_add(finished, flush, blocked, is_finish, expected):
    assert should_notify_on_add(finished, flush, blocked, is_finish) == expected


def test_only_the_first_priority_event_of_an_unblocked_queue_notifies():
    assert [should_notify_priority(n, 0) for n in (0, 1, 2)] == [0, 1, 0]
    assert should_notify_priority(1, 1) == 0


def test_credit_after_a_message_and_after_a_block():
    assert [credit_after_send(c, e) for c in (0, 2) for e in (0, 1)] == [-1, 0, 1, 2]
    assert [credit_after_resume(5, i) for i in (0, 1)] == [0, 5]


@pytest.mark.parametrize(("initial", "floating_left"), [(0, 0), (1, 2)])
def test_blocking_gives_floating_buffers_back_only_without_initial_credit(initial, floating_left):
    row = channel(initial, 2, required=3, unannounced=2, initial=initial)
    gate_pool = pool(size=4, in_use=2, free=0)
    block_channel(gate([row], gate_pool, GlobalPool(20, 0, 0, 1)), 0)
    assert row.floating == floating_left
    assert row.required == (0 if initial == 0 else 3)
    resume_channel(row)
    assert row.unannounced == (0 if initial == 0 else 2)


def test_releasing_twice_returns_nothing_more():
    row, gate_pool, segments = (
        channel(2, 1, required=3, unannounced=1),
        pool(in_use=1),
        GlobalPool(20, 9, 2, 1),
    )
    assert release_channel(gate([row], gate_pool, segments), 0) == 2
    assert (row.exclusive, row.floating, row.unannounced) == (0, 0, 0)
    assert (gate_pool, segments) == (pool(in_use=0, free=2), GlobalPool(20, 11, 0, 1))
    assert release_channel(gate([row], gate_pool, segments), 0) == 0
    assert segments == GlobalPool(20, 11, 0, 1)
