from __future__ import annotations

import math
from fractions import Fraction
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from flowcontrol.scenario import Phase, Schedule

RATES = st.one_of(
    st.just(Fraction(0)),
    st.fractions(0, 10**6, max_denominator=10**4),
    st.integers(0, 10**9).map(Fraction),
)
MOMENTS = st.integers(0, 2 * 10**8)


def steps(*pairs: tuple[int, int]) -> Schedule:
    """The schedule of pairs of a start, s, and a rate."""
    phases = (Phase(at_us=at_s * 1_000_000, rate=Fraction(rate)) for at_s, rate in pairs)
    return Schedule(phases=tuple(phases))


@st.composite
def schedules(draw: st.DrawFn) -> Schedule:
    starts = [0, *sorted(draw(st.sets(st.integers(1, 10**8), max_size=5)))]
    return Schedule(phases=tuple(Phase(at_us=at, rate=draw(RATES)) for at in starts))


def integral_by_hand(schedule: Schedule, us: int) -> Fraction:
    """The dullest way: overlap of [0, us) with each phase's interval, one after the other."""
    total = Fraction(0)
    for index, phase in enumerate(schedule.phases):
        is_last = index + 1 == len(schedule.phases)
        end = us if is_last else min(us, schedule.phases[index + 1].at_us)
        total += max(0, end - phase.at_us) * phase.rate
    return total / 1_000_000


@given(schedules(), MOMENTS)
def test_records_are_the_floor_of_the_exact_integral(schedule: Schedule, us: int) -> None:
    exact = integral_by_hand(schedule, us)
    assert schedule.integral(us) == exact
    assert schedule.records_until(us) == math.floor(exact)


@given(schedules(), MOMENTS, MOMENTS)
def test_records_never_fall(schedule: Schedule, one: int, other: int) -> None:
    early, late = sorted((one, other))
    assert schedule.records_until(early) <= schedule.records_until(late)


@given(schedules(), st.lists(MOMENTS, min_size=1, max_size=20))
def test_rounds_of_any_length_add_up(schedule: Schedule, cuts: list[int]) -> None:
    moments = [0, *sorted(cuts)]
    due = [
        schedule.records_until(end) - schedule.records_until(start)
        for start, end in pairwise(moments)
    ]
    assert sum(due) == schedule.records_until(moments[-1])
    assert min(due) >= 0


@given(schedules(), MOMENTS)
def test_the_rate_is_the_slope_of_the_integral(schedule: Schedule, us: int) -> None:
    slope = (schedule.integral(us + 1) - schedule.integral(us)) * 1_000_000
    assert slope == schedule.rate_at(us)


@given(schedules())
def test_changes_are_where_the_rate_jumps(schedule: Schedule) -> None:
    for phase in schedule.phases[1:]:
        jumps = schedule.rate_at(phase.at_us) != schedule.rate_at(phase.at_us - 1)
        assert (phase.at_us in schedule.changes()) == jumps


@pytest.mark.parametrize(
    ("us", "records"),
    [
        (0, 0),
        (9_999_999, 0),
        (10_000_000, 1),
        (10_000_001, 1),
        (20_000_000, 2),
        (30_000_000, 3),
        (1_000_000_000, 100),
    ],
)
def test_a_tenth_of_a_record_per_second_is_exact(us: int, records: int) -> None:
    assert Schedule.constant(Fraction("0.1")).records_until(us) == records


@pytest.mark.parametrize(
    ("us", "records", "rate"),
    [
        (0, 0, 6000),
        (1, 0, 6000),
        (166, 0, 6000),
        (167, 1, 6000),
        (19_999_999, 119_999, 6000),
        (20_000_000, 120_000, 0),
        (20_000_001, 120_000, 0),
        (39_999_999, 120_000, 0),
        (40_000_000, 120_000, 3),
        (40_333_333, 120_000, 3),
        (40_333_334, 120_001, 3),
        (41_000_000, 120_003, 3),
    ],
)
def test_phases_begin_at_their_moment(us: int, records: int, rate: int) -> None:
    schedule = steps((0, 6000), (20, 0), (40, 3))
    assert schedule.records_until(us) == records
    assert schedule.rate_at(us) == rate


def test_a_phase_with_the_same_rate_changes_nothing() -> None:
    schedule = steps((0, 5), (10, 5), (20, 6), (30, 6))
    assert schedule.changes() == (20_000_000,)
    assert Schedule.constant(5).changes() == ()


@pytest.mark.parametrize("starts", [[], [1], [0, 0], [0, 5, 5], [0, 5, 4], [-1, 0]])
def test_bad_phases_are_refused(starts: list[int]) -> None:
    with pytest.raises(ValidationError):
        Schedule(phases=tuple(Phase(at_us=at, rate=Fraction(1)) for at in starts))


def test_a_negative_rate_is_refused() -> None:
    with pytest.raises(ValidationError, match="at least 0"):
        Schedule.constant(-1)


def test_before_the_start_there_is_nothing() -> None:
    with pytest.raises(ValueError, match="starts at 0"):
        Schedule.constant(1).records_until(-1)
    assert Schedule.constant(7).rate_at(-1) == 7


def test_a_schedule_is_frozen() -> None:
    schedule = Schedule.constant(1)
    with pytest.raises(ValidationError, match="frozen"):
        schedule.phases = ()  # type: ignore[misc]
