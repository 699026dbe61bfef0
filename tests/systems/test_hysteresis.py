"""Storm's, Heron's and JStorm's marks against tables worked out by hand."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flowcontrol.systems.throttles import global_hysteresis as g
from flowcontrol.systems.transports import hop_hysteresis as h
from flowcontrol.systems.transports.transport import Given

# Storm 1, 1024 slots: on at 921 and above, off at 409 and below.
STORM_1 = [
    ((0, 0), 0),
    ((409, 0), 0),
    ((410, 0), 0),
    ((920, 0), 0),
    ((921, 0), 1),  # the high mark itself
    ((920, 0), 1),
    ((1024, 500), 1),
    ((410, 0), 1),
    ((409, 1), 1),  # what overflowed counts
    ((409, 0), 0),  # the low mark itself
    ((410, 0), 0),
    ((900, 20), 0),
    ((900, 21), 1),
    ((0, 410), 1),
    ((0, 409), 0),
    ((1024, 0), 1),
    ((409, 0), 0),
    ((920, 0), 0),
    ((922, 0), 1),
    ((408, 1), 0),
    ((408, 0), 0),
    ((0, 921), 1),
]


@pytest.mark.holds("global_hysteresis", "rules", "a table by hand from Storm 1.2.3")
def test_storm_1_by_hand():
    assert len(STORM_1) >= 20
    high, low = g.mark(0.9, 1024), g.mark(0.4, 1024)
    assert (high, low) == (921, 409)
    state = 0
    for step, ((queued, overflow), expected) in enumerate(STORM_1):
        state = g.is_pressed(state, queued, overflow, high, low)
        assert state == expected, step


@pytest.mark.parametrize(
    ("newest", "now", "is_on"),
    [(-1, 0, 0), (0, 0, 1), (0, 29_999, 1), (0, 30_000, 0), (15_000, 44_999, 1)],
)
def test_a_claim_ages(newest, now, is_on):
    assert g.is_throttled(newest, now, 30_000) == is_on
    assert g.is_throttled(newest, now, 0) == (newest >= 0)  # one without an age does not


@pytest.mark.parametrize(
    ("full", "throttled", "pending", "most", "is_on"),
    [(0, 0, 5, 0, 1), (1, 0, 5, 0, 0), (0, 1, 5, 0, 0), (0, 0, 5, 5, 0), (0, 0, 4, 5, 1)],
)
def test_when_a_spout_is_asked(full, throttled, pending, most, is_on):
    assert g.may_emit(full, throttled, pending, most) == is_on


@pytest.mark.holds("global_hysteresis", "rules", "Heron's count of enqueues by hand")
def test_heron_wants_more_than_three_in_a_row():
    count, pressed = 0, []
    for above in (1, 1, 1, 0, 1, 1, 1, 1):
        count = g.streak(count, above)
        pressed.append(count > 3)
    assert pressed == [False] * 7 + [True]
    assert g.mark_below(50) == 49


# Heron with marks of 100 and 50 bytes: what is outstanding, and whether it claims pressure. On at
# the fourth time in a row at or above 100, off below 50.
HERON = [
    (99, 0),
    (100, 0),
    (100, 0),
    (100, 0),
    (99, 0),  # three are not enough, and it begins again
    (100, 0),
    (101, 0),
    (500, 0),
    (100, 1),
    (99, 1),
    (51, 1),
    (50, 1),  # the low mark itself
    (49, 0),
    (50, 0),
    (100, 0),
    (0, 0),
    (100, 0),
    (100, 0),
    (100, 0),
    (100, 1),
    (100, 1),
    (0, 0),
    (100, 0),  # four in a row again
]


def test_heron_by_hand():
    assert len(HERON) >= 20
    claims = met = 0
    for step, (outstanding, expected) in enumerate(HERON):
        met = g.streak(met, 1 if outstanding >= 100 else 0)
        claims = g.is_claimed(claims, outstanding, 100, g.mark_below(50), met, 4)
        assert claims == expected, step


# JStorm 2.4, 256 slots: on above 204.8, off below 51.2 with nothing put aside.
JSTORM_24 = [
    ((204, 0), 0),
    ((205, 0), 1),
    ((204, 0), 1),
    ((52, 0), 1),
    ((51, 1), 1),
    ((51, 0), 0),
    ((52, 0), 0),
    ((204, 9), 0),
    ((256, 0), 1),
    ((0, 1), 1),
    ((0, 0), 0),
    ((0, 300), 0),  # what is put aside alone does not set it
    ((204, 300), 0),
    ((205, 300), 1),
    ((256, 300), 1),
    ((256, 0), 1),
    ((51, 300), 1),
    ((52, 0), 1),
    ((51, 0), 0),
    ((51, 0), 0),
    ((205, 0), 1),
    ((0, 0), 0),
]


@pytest.mark.holds("hop_hysteresis", "rules", "a table by hand from JStorm 2.4.0")
def test_jstorm_24_by_hand():
    assert len(JSTORM_24) >= 20
    state = 0
    for step, ((queued, cached), expected) in enumerate(JSTORM_24):
        state = h.is_on(state, queued, cached, 256, 0.8, 0.2)
        assert state == expected, step


def test_the_marks_of_jstorm_are_strict():
    assert h.is_on(0, 80, 0, 100, 0.8, 0.2) == 0
    assert h.is_on(1, 20, 0, 100, 0.8, 0.2) == 1


# Storm 2, a queue of 4: tuples in it and in its overflow, whether it looks; then the flag.
STORM_2 = [
    ((0, 1), 0),
    ((4, 0), 0),
    ((4, 1), 0),  # full, and nothing behind it
    ((5, 0), 1),  # the first one in the overflow sets it
    ((4, 0), 1),
    ((4, 1), 1),  # the queue is taken first: what is behind it still is
    ((1, 1), 1),  # one is not none
    ((0, 0), 1),  # empty, but nobody looks
    ((0, 1), 0),
    ((0, 1), 0),
    ((3, 0), 0),
    ((9, 1), 1),  # set while it looks
    ((5, 1), 1),
    ((4, 1), 1),
    ((2, 0), 1),
    ((0, 1), 0),
    ((1, 1), 0),
    ((10_000, 0), 1),
    ((20_000, 1), 1),
    ((3, 1), 1),
    ((0, 0), 1),
    ((0, 1), 0),
]


@pytest.mark.holds("hop_hysteresis", "rules", "Storm 2.8.8's flag by hand")
def test_storm_2_clears_its_flag_when_it_looks_and_nothing_waits():
    assert len(STORM_2) >= 20
    rules, state = h.RULES, 0
    values = {"slots": 4, "check_ms": 2, "high": 0.8, "low": 0.2, "cache_bytes": 0}
    transport = rules.parameters(Given(values, 1000))
    for step, ((queued, is_check), expected) in enumerate(STORM_2):
        state = rules.is_held(transport, state, queued, is_check)
        assert state == expected, step


@given(st.lists(st.integers(0, 2000), max_size=80))
def test_a_switch_turns_only_where_a_mark_is_crossed(fills):
    state = 0
    for fill in fills:
        before, state = state, g.is_pressed(state, fill, 0, 921, 409)
        if state != before:
            assert fill >= 921 if state else fill <= 409
