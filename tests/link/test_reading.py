"""How much of a channel a batch reads: whole rows, exact bytes, never more than it may."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flowcontrol.ledger.link_index import ChannelLog, Extent, Piece
from flowcontrol.link.input import take_rows, unread_bytes


def a_log(*messages: tuple[int, int], first: int = 0, start: int = 0) -> ChannelLog:
    """Return a channel whose messages have so many rows and bytes each."""
    log = ChannelLog(first, start)
    for rows, nbytes in messages:
        add(log, log.end, rows, nbytes)
    return log


def add(log: ChannelLog, number: int, rows: int, nbytes: int, more: int = 0) -> None:
    """Append a piece to a channel; more rows of its message follow in the next one."""
    record = log.messages[-1].extents[-1].end if log.messages else log.start
    start = log.messages[-1].start if number < log.end else record
    extent = Extent("f", record, record, rows)
    log.add(Piece(number, start, record + rows + more, nbytes, extent))


# Rows and bytes of messages; a row takes a byte at least, one in which no record ends is full.
MESSAGES = st.lists(
    st.one_of(
        st.tuples(st.integers(1, 60), st.integers(0, 4000)).map(lambda m: (m[0], m[0] + m[1])),
        st.just((0, 1000)),
    ),
    min_size=1,
    max_size=12,
).map(lambda messages: [*messages, (1, 7)])


@given(messages=MESSAGES, first=st.integers(0, 50), start=st.integers(0, 500), data=st.data())
def test_what_is_unread_is_what_a_budget_of_it_takes(messages, first, start, data):
    log = a_log(*messages, first=first, start=start)
    position = data.draw(st.integers(start, log.records))
    reach = data.draw(st.integers(first, log.end))
    nbytes = unread_bytes(log, position, reach)
    taken = take_rows(log, position, reach, nbytes)
    assert taken.nbytes == nbytes
    last = log.message(reach - 1).end if reach > first else start
    assert taken.rows == max(0, last - position)
    assert taken.messages == reach


@given(messages=MESSAGES, budgets=st.lists(st.integers(0, 3000), min_size=1, max_size=30))
def test_many_small_batches_take_the_same_as_one(messages, budgets):
    """Rows and bytes add up exactly, within each budget but for a row that is forced."""
    log, position, nbytes = a_log(*messages), 0, 0
    whole = unread_bytes(log, 0, log.end)
    assert whole == sum(size for _, size in messages)
    turn = 0
    while position < log.records:
        budget = budgets[turn % len(budgets)]
        taken = take_rows(log, position, log.end, budget)
        assert taken.nbytes <= budget
        if taken.rows == 0:
            taken = take_rows(log, position, log.end, 0, least=1)
            assert taken.rows == 1
        assert log.holding(position) < taken.messages <= log.end
        position, nbytes, turn = position + taken.rows, nbytes + taken.nbytes, turn + 1
        assert unread_bytes(log, position, log.end) == whole - nbytes
    assert (position, nbytes) == (log.records, whole)


@pytest.mark.parametrize(
    ("budget", "rows", "nbytes", "messages"),
    [(0, 0, 0, 0), (9, 0, 0, 0), (10, 1, 10, 1), (29, 2, 20, 1), (30, 3, 30, 1), (36, 3, 30, 1),
     (37, 4, 37, 2), (44, 5, 44, 2), (1 << 50, 5, 44, 2)],
)  # fmt: skip
def test_a_budget_takes_whole_rows(budget, rows, nbytes, messages):
    log = a_log((3, 30), (2, 14), (1, 5))
    assert take_rows(log, 0, 2, budget) == (rows, nbytes, messages)


def test_a_row_weighs_what_all_of_its_messages_carry():
    log = a_log((1, 10), (0, 1000), (0, 1000), (2, 300), (1, 20))
    assert unread_bytes(log, 1, 5) == 2320
    assert take_rows(log, 1, 5, 1149) == (0, 0, 3)
    assert take_rows(log, 1, 5, 1150) == (1, 1150, 4)
    assert unread_bytes(log, 2, 5) == 1170
    assert unread_bytes(log, 1, 3) == 0  # it does not end there
    assert take_rows(log, 1, 3, 5000) == (0, 0, 3)


def test_messages_that_are_forgotten_leave_the_weight_of_the_row_that_began_in_them():
    log = a_log((1, 10), (0, 1000), (0, 1000), (1, 300))
    log.forget(3)
    assert (log.first, log.start) == (3, 1)
    assert unread_bytes(log, 1, 4) == 2300


def test_rows_behind_a_large_one_share_its_last_message():
    """Pieces that follow in the same message add to its weight, not to what has begun."""
    log = a_log((0, 1000))
    add(log, 1, 1, 50, more=3)
    add(log, 1, 3, 30)
    assert [message.weight for message in log.messages] == [0, 1080]
    add(log, 2, 1, 9)
    assert log.weight(0, 3) == log.nbytes(0, 3) == 1089
