"""Rates from when batches ran: each rule at its limit."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flowcontrol.link.monitoring.history import busy_rate, mean_length, recent, share, spread_time


@pytest.mark.parametrize(
    ("since", "count"), [(0.0, 3), (1.0, 2), (2.5, 1), (3.0, 1), (99.0, 1), (0.999, 3)]
)
def test_batches_that_ended_in_the_window_count_or_else_the_last(since, count):
    assert recent([(0, 1), (1, 2), (2, 3)], since) == count


def test_nothing_ended_yet():
    assert recent([], 0.0) == 0
    assert mean_length([]) is None
    assert spread_time([], 10.0, 10.0) == 0.0


def test_time_since_the_last_batch_counts_once_the_next_is_late():
    times = [(0.0, 2.0), (2.0, 4.0)]  # two seconds each
    assert spread_time(times, 4.0, 10.0) == 4.0
    assert spread_time(times, 6.0, 10.0) == 4.0
    assert spread_time(times, 6.5, 10.0) == 4.5


def test_pauses_between_batches_count():
    assert spread_time([(0.0, 1.0), (4.0, 5.0)], 5.0, 10.0) == 5.0


@pytest.mark.parametrize(("now", "moves"), [(14.0, True), (14.01, False)])
def test_who_is_silent_for_longer_than_the_window_moves_nothing(now, moves):
    assert (spread_time([(2.0, 4.0)], now, 10.0) > 0) is moves


@pytest.mark.parametrize(("now", "moves"), [(40.0, True), (40.1, False)])
def test_long_batches_are_given_three_of_their_times(now, moves):
    assert (spread_time([(0.0, 10.0)], now, 5.0) > 0) is moves


def test_busy_rate_leaves_pauses_out():
    assert busy_rate(300, 3.0) == 100.0
    assert busy_rate(0, 3.0) == 0.0
    assert busy_rate(0, 0.0) is None


def test_a_batch_that_takes_longer_lowers_the_rate_and_a_quick_one_does_not_raise_it():
    assert busy_rate(300, 3.0, (100, 1.0)) == 100.0
    assert busy_rate(300, 3.0, (100, 0.1)) == 100.0
    assert busy_rate(300, 3.0, (100, 5.0)) == 50.0
    assert busy_rate(300, 3.0, (100, -0.1)) == 100.0  # a clock that was put back


@pytest.mark.parametrize(
    ("intervals", "expected"),
    [
        ([], 0.0),
        ([(0, 10)], 1.0),
        ([(-5, 15)], 1.0),
        ([(-5, 1), (9, 12)], 0.2),
        ([(11, 12)], 0.0),
        ([(3, 2)], 0.0),
    ],
)
def test_share(intervals, expected):
    assert share(intervals, 0.0, 10.0) == pytest.approx(expected)


def test_no_time_has_no_share():
    assert share([(0, 10)], 5.0, 5.0) == 0.0


lengths = st.lists(st.tuples(st.floats(0, 5), st.floats(0.01, 50)), min_size=1, max_size=20)


@given(lengths, st.floats(0, 200), st.floats(1, 60))
def test_rates_are_finite_and_never_more_than_while_busy(steps, silent, window):
    now, times = 0.0, []
    for pause, length in steps:
        times.append((now + pause, now + pause + length))
        now += pause + length
    now += silent
    times = times[len(times) - recent(times, now - window) :]
    spread = spread_time(times, now, window)
    busy = sum(end - start for start, end in times)
    assert spread == 0.0 or spread >= busy - 1e-9
    assert 0.0 <= share(times, now - window, now) <= 1.0
