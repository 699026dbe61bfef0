"""Swing, following and recovering, on rates made by hand."""

from __future__ import annotations

from itertools import accumulate

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flowcontrol.analysis.producer_rates import (
    Counted,
    Response,
    Step,
    ahead,
    responses,
    steps_of,
    swing,
)


def counted(rates, interval_s=1.0):
    """What was counted at rates that hold for an interval each."""
    times = [interval_s * (index + 1) for index in range(len(rates))]
    return Counted(times, list(accumulate(rate * interval_s for rate in rates)))


def one(rates, limit, *, before=1000.0, window_s=3.0):
    """The response to one change of the limit at 10 s, the rates from there on being given."""
    steps = [Step(0, 10, before), Step(10, 10 + len(rates), limit)]
    (found,) = responses(counted([before] * 10 + list(rates)), steps, window_s)
    return found


# ---------------------------------------------------------------------- rates


def test_a_mean_rate_is_that_of_a_straight_line_between_samples():
    line = counted([10, 20, 60])
    assert line.mean_rate(0, 3) == 30
    assert line.mean_rate(1.5, 2.5) == 40
    with pytest.raises(ValueError, match="no time passes"):
        line.mean_rate(2, 2)


def test_only_whole_intervals_count():
    assert counted([10, 20, 60]).rates(0.5, 3) == ([20, 60], [1, 1])
    assert counted([10, 20, 60]).rates(1, 2.9) == ([20], [1])
    assert counted([]).rates(0, 5) == ([], [])


def test_equal_limits_are_one_step():
    assert steps_of([Step(0, 1, 5), Step(1, 2, 5), Step(2, 3, 4)]) == [Step(0, 2, 5), Step(2, 3, 4)]
    assert steps_of([]) == []


# ---------------------------------------------------------------------- swing


def test_a_square_wave_swings_by_one():
    """On and off for equal times: mean 50, each sample 50 off."""
    assert swing(counted([100, 0] * 20), [Step(0, 40, 50)]) == pytest.approx(1.0)


@pytest.mark.parametrize(("low", "expected"), [(100, 0.0), (50, 1 / 3), (80, 1 / 9)])
def test_a_wave_between_two_rates(low, expected):
    found = swing(counted([100, low] * 20), [Step(0, 40, 100)])
    assert found == pytest.approx(expected)


def test_the_first_quarter_of_a_phase_does_not_count():
    rates = [1000] * 10 + [50] * 30
    assert swing(counted(rates), [Step(0, 40, 50)]) == 0
    rates[10] = 51
    assert swing(counted(rates), [Step(0, 40, 50)]) > 0


def test_phases_have_means_of_their_own():
    """Even in each phase: no swing, although the rates differ by ten times."""
    steps = [Step(0, 20, 100), Step(20, 40, 1000)]
    assert swing(counted([100] * 20 + [1000] * 20), steps) == 0


def test_phases_count_by_their_time():
    steps = [Step(0, 40, 50), Step(40, 80, 50.5)]
    found = swing(counted([100, 0] * 20 + [50] * 40), steps)
    assert found == pytest.approx(0.5**0.5)


@pytest.mark.parametrize(("samples", "is_known"), [(0, False), (2, False), (3, True), (4, True)])
def test_a_phase_needs_three_samples(samples, is_known):
    length_s = samples / 0.75
    found = swing(counted([5] * 40, 1.0), [Step(0, length_s, 5)])
    assert (found is not None) == is_known


def test_where_nothing_is_emitted_nothing_swings():
    assert swing(counted([0] * 40), [Step(0, 40, 50)]) is None
    assert swing(counted([]), []) is None


def test_long_intervals_weigh_more():
    """10 s at 100/s and 1 s at 12/s: the mean is 92, the deviations count 10 to 1."""
    line = Counted([10.0, 11.0, 21.0], [1000.0, 1012.0, 2012.0])
    mean = 2012 / 21
    expected = ((20 * (100 / mean - 1) ** 2 + (12 / mean - 1) ** 2) / 21) ** 0.5
    # The transient is a quarter of 28 s, so the phase begins at -7 s.
    assert swing(line, [Step(-7, 21, 100)]) == pytest.approx(expected)


@given(st.lists(st.floats(1, 1e4), min_size=8, max_size=40), st.floats(0.5, 100))
def test_swing_has_no_unit(rates, factor):
    steps = [Step(0, len(rates), 1)]
    first, other = (swing(counted(r), steps) for r in (rates, [factor * rate for rate in rates]))
    assert other == pytest.approx(first, rel=1e-6, abs=1e-6)


# ---------------------------------------------------------------------- responses


def test_a_step_is_followed_when_it_comes():
    """A window of 3 s from 2 s on is the first that is at 100 for all its length."""
    found = one([1000, 1000, 100, 100, 100, 100, 100, 100, 100, 100], 100)
    assert found.after_s == 2
    assert found.is_slowdown
    assert (found.at_s, found.until_s, found.before, found.after) == (10, 20, 1000, 100)


def test_what_is_there_at_once_takes_no_time():
    assert one([100] * 10, 100).after_s == 0


def test_what_never_comes_down_does_not_follow():
    found = one([1000] * 10, 100)
    assert found.after_s is None
    assert (found.lowest, found.highest, found.missed) == (1000, 1000, "above")


def test_what_stays_below_is_not_at_the_limit_either():
    found = one([20] * 10, 100)
    assert found.after_s is None
    assert found.missed == "below"


def test_what_crosses_the_limit_swings():
    assert one([300, 0, 0] * 8, 100, window_s=2.0).missed == "swings"
    assert one([300, 0, 0] * 8, 100, window_s=3.0).missed == ""


@pytest.mark.parametrize(
    ("lowest", "highest", "missed"),
    [(111, 200, "above"), (110, 200, "swings"), (20, 89, "below"), (20, 90, "swings")],
)
def test_above_and_below_are_beyond_a_tenth(lowest, highest, missed):
    assert Response(0, 9, 500, 100, None, lowest, highest).missed == missed
    assert Response(0, 9, 500, 100, 1.0, lowest, highest).missed == ""


def test_the_transient_does_not_say_how_it_was_missed():
    """5 s of 20 are above the limit; from then on it is below."""
    assert one([1000] * 5 + [20] * 15, 100).missed == "below"


# ---------------------------------------------------------------------- running ahead


@pytest.mark.parametrize(("rate", "by"), [(100, 0.0), (150, 0.5), (20, -0.8)])
def test_how_far_it_runs_ahead(rate, by):
    assert ahead(counted([rate] * 20), [Step(0, 20, 100)], 5.0) == pytest.approx(by)


def test_the_phase_that_is_worst_counts():
    steps = [Step(0, 20, 100), Step(20, 40, 50)]
    assert ahead(counted([100] * 40), steps, 5.0) == pytest.approx(1.0)
    assert ahead(counted([100] * 25 + [50] * 15), steps, 5.0) == pytest.approx(0.0)


@pytest.mark.parametrize(("length", "is_known"), [(4, False), (5, True), (6, True)])
def test_a_short_phase_or_one_without_a_limit_does_not_count(length, is_known):
    found = ahead(counted([9] * 20), [Step(0, length, 9)], 5.0)
    assert (found is not None) == is_known
    assert ahead(counted([9] * 20), [Step(0, 20, 0)], 5.0) is None


def test_a_rate_that_leaves_again_has_not_settled():
    assert one([100] * 5 + [500] + [100] * 4, 100).after_s == 6
    assert one([100] * 9 + [500], 100).after_s is None


@pytest.mark.parametrize(
    ("rate", "is_there"),
    [(89, False), (90, True), (100, True), (110, True), (111, False), (0, False)],
)
def test_within_a_tenth_is_there(rate, is_there):
    assert (one([rate] * 10, 100).after_s is not None) == is_there


def test_a_window_smooths():
    """Off and on: in windows of 2 s it is at its limit, in windows of 3 s it is not."""
    rates = [200, 0] * 10
    assert one(rates, 100, window_s=2.0).after_s == 0
    assert one(rates, 100, window_s=3.0).after_s is None


@pytest.mark.parametrize(("rate", "is_there"), [(0, True), (100, True), (101, False)])
def test_a_limit_of_nothing_is_met_within_a_tenth_of_the_old_one(rate, is_there):
    assert (one([rate] * 10, 0, before=1000).after_s is not None) == is_there


def test_a_release_is_the_same_upward():
    found = one([100, 300, 700, 1000, 1000, 1000, 1000, 1000], 1000, before=100)
    assert not found.is_slowdown
    assert found.after_s == 2  # 700, 1000, 1000 are 900 on average
    assert one([100, 150, 200, 250, 300, 350, 400, 450], 1000, before=100).after_s is None


@pytest.mark.parametrize(
    ("limit", "counts"), [(900, False), (899, True), (1000, False), (1111, False), (1112, True)]
)
def test_a_change_of_a_tenth_is_none(limit, counts):
    steps = [Step(0, 10, 1000), Step(10, 20, limit)]
    assert bool(responses(counted([1000] * 20), steps, 3.0)) == counts


@pytest.mark.parametrize(("length", "counts"), [(2, False), (3, True), (4, True)])
def test_a_phase_shorter_than_the_window_is_not_looked_at(length, counts):
    steps = [Step(0, 10, 1000), Step(10, 10 + length, 100), Step(10 + length, 30, 1000)]
    found = responses(counted([1000] * 30), steps, 3.0)
    assert [change.at_s for change in found] == [10.0] * counts + [10.0 + length]


def test_one_limit_has_no_changes():
    assert responses(counted([5] * 9), [Step(0, 9, 5)], 3.0) == []
    assert responses(counted([]), [], 3.0) == []


@given(st.integers(0, 7), st.integers(1, 50))
def test_a_later_step_takes_longer(late, rate):
    found = one([1000] * late + [rate] * (10 - late), rate)
    assert found.after_s == late
