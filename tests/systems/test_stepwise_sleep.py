"""JStorm's votes, events and sleeps against tables worked out by hand."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flowcontrol.systems.throttles import stepwise_sleep as s

# What comes; then sleep s, largest bound M, smallest bound m.
STEPS = [
    (("start", 10), (10, 10, 0)),  # at rest: f itself
    (("start", 10), (11, 11, 0)),  # M = f and s >= M: one more
    (("start", 10), (12, 12, 0)),  # M > f and M <= s: one more
    (("stop",), (6, 12, 6)),  # s != m: (0 + 12) / 2
    (("stop",), (3, 12, 3)),  # s = m: m = 0, then (0 + 6) / 2
    (("start", 12), (8, 12, 3)),  # M = f, s < M: (12 + 3) / 2 up
    (("start", 10), (9, 12, 3)),  # M > f, s < f: (10 + 8) / 2
    (("start", 9), (11, 12, 3)),  # M > f, s >= f: (12 + 9) / 2 up
    (("start", 9), (12, 12, 3)),  # (12 + 11) / 2 up
    (("start", 9), (13, 13, 3)),  # M <= s: one more
    (("start", 0), (14, 14, 3)),  # f <= 0: one more
    (("start", -1), (15, 15, 3)),
    (("start", 40), (40, 40, 3)),  # M < f: f
    (("stop",), (21, 40, 21)),  # (3 + 40) / 2 down
    (("stop",), (10, 40, 10)),  # s = m: (0 + 21) / 2 down
    (("start", 5), (25, 40, 10)),  # M > f, s >= f: (40 + 10) / 2
    (("stop",), (17, 40, 17)),  # (10 + 25) / 2 down
    (("stop",), (8, 40, 8)),
    (("stop",), (4, 40, 4)),
    (("stop",), (2, 40, 2)),
    (("stop",), (1, 40, 1)),
    (("stop",), (0, 0, 0)),  # (0 + 1) / 2 is nothing: all over
    (("stop",), (0, 0, 0)),
    (("start", 7), (7, 7, 0)),
    (("start", 0), (8, 8, 0)),
]


@pytest.mark.holds("stepwise_sleep", "rules", "a table by hand from JStorm 2.1.1")
def test_twenty_five_events_by_hand():
    assert len(STEPS) >= 20
    state = (0, 0, 0)
    for number, (event, expected) in enumerate(STEPS):
        state = s.slower(*state, event[1]) if event[0] == "start" else s.faster(*state)
        assert state == expected, (number, event)


@pytest.mark.parametrize(
    ("fill", "says"),
    [(0.81, s.START), (0.8, s.NOTHING), (0.5, s.NOTHING), (0.0501, s.NOTHING), (0.05, s.STOP),
     (0.0, s.STOP), (1.0, s.START)],
)  # fmt: skip
def test_votes_at_the_marks(fill, says):
    assert s.vote(fill, 0.8, 0.05) == says


@pytest.mark.parametrize(
    ("starts", "stops", "ratio", "is_pressed", "says"),
    [
        (4, 0, 1.0, 0, s.START),
        (3, 0, 1.0, 0, s.NOTHING),
        (3, 0, 0.75, 0, s.START),
        (2, 2, 0.5, 1, s.STOP),  # no more starts than stops
        (0, 4, 1.0, 0, s.NOTHING),  # not under pressure
        (0, 4, 1.0, 1, s.STOP),
        (0, 3, 1.0, 1, s.NOTHING),
        (3, 1, 0.75, 1, s.START),
        (1, 3, 0.75, 1, s.STOP),
        (0, 0, 1.0, 1, s.NOTHING),
    ],
)
def test_what_four_samples_make(starts, stops, ratio, is_pressed, says):
    assert s.tally(starts, stops, 4, ratio, is_pressed) == says


@pytest.mark.parametrize(
    ("elapsed", "was_start", "execute", "largest", "is_due"),
    [
        (2000, 1, 5, 9, 1),  # a period has passed
        (1999, 1, 5, 9, 0),
        (0, 0, 5, 9, 1),  # the event before was no start
        (0, 1, 14, 9, 0),  # 5 ms more are not more than 5
        (0, 1, 15, 9, 1),
        (0, 1, -1, -9, 0),  # no time at all
    ],
)
def test_what_the_coordinator_takes_notice_of(elapsed, was_start, execute, largest, is_due):
    assert s.is_start_due(elapsed, 2000, was_start, execute, largest) == is_due


def test_a_tenth_of_a_bolts_tasks_is_widespread():
    assert [s.is_widespread(pressed, 20, 0.1) for pressed in (0, 1, 2, 3)] == [0, 0, 1, 1]


def test_a_stop_is_forwarded_after_a_period():
    assert [s.is_stop_forwarded(elapsed, 2000) for elapsed in (1999, 2000)] == [0, 1]


@given(st.lists(st.integers(-3, 500), max_size=60))
def test_sleeps_stay_between_zero_and_the_largest_bound(events):
    """An event below 0 is a stop; the largest bound never shrinks until all is over."""
    state, before = (0, 0, 0), 0
    for event in events:
        state = s.faster(*state) if event < 0 else s.slower(*state, event)
        sleep, largest, smallest = state
        assert 0 <= smallest <= sleep <= largest or (sleep, largest, smallest) == (0, 0, 0)
        assert largest >= before or state == (0, 0, 0)
        before = largest


@given(st.lists(st.integers(0, 500), min_size=1, max_size=30))
def test_stops_alone_end_the_sleep_soon(starts):
    state = (0, 0, 0)
    for event in starts:
        state = s.slower(*state, event)
    steps = 0
    sleep = state[0]
    while state[0] > 0:
        state = s.faster(*state)
        steps += 1
    assert steps <= 1 + 2 * max(1, sleep.bit_length())
