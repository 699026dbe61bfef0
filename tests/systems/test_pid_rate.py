"""Spark Streaming's estimator against a table worked out by hand, and its identities."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flowcontrol.systems.throttles.pid_rate import FIRST, partition_limit, pid_rate, published_rate

# With P = 1, I = 0.2, D = 0, B = 1000 ms: new = max(100, r (1 - 0.2 d / 1000)), r = 1000 n / p.
# end ms, records, processing ms, scheduling ms -> rate, error (rate before - r), a result or not.
BY_HAND = [
    ((1000, 1000, 500, 0), (2000.0, 0.0, 0)),  # the first only starts it: r
    ((2000, 1000, 500, 0), (2000.0, 0.0, 1)),
    ((3000, 1000, 1000, 0), (1000.0, 1000.0, 1)),  # follows at once
    ((4000, 1000, 1000, 500), (900.0, 0.0, 1)),  # 1000 - 0.2 * 500 / 1000 * 1000
    ((5000, 900, 1000, 1000), (720.0, 0.0, 1)),  # 900 (1 - 0.2)
    ((6000, 720, 1000, 2500), (360.0, 0.0, 1)),  # 720 (1 - 0.5)
    ((7000, 360, 1000, 5000), (100.0, 0.0, 1)),  # 360 (1 - 1) = 0: the floor
    ((8000, 100, 1000, 9000), (100.0, 0.0, 1)),  # less than nothing: the floor
    ((9000, 100, 100, 0), (1000.0, -900.0, 1)),
    ((9000, 500, 100, 0), (1000.0, -900.0, 0)),  # no later than the last: nothing changes
    ((8500, 500, 100, 0), (1000.0, -900.0, 0)),
    ((10000, 0, 100, 0), (1000.0, -900.0, 0)),  # empty: frozen
    ((11000, 500, 0, 0), (1000.0, -900.0, 0)),  # took no time
    ((12000, 500, 250, 0), (2000.0, -1000.0, 1)),
    ((13000, 1, 1, 0), (1000.0, 1000.0, 1)),
    ((14000, 50, 1000, 0), (100.0, 950.0, 1)),  # 50 is below the floor
    ((15000, 99, 1000, 0), (100.0, 1.0, 1)),
    ((16000, 100, 1000, 0), (100.0, 0.0, 1)),  # the floor itself
    ((17000, 101, 1000, 0), (101.0, -1.0, 1)),
    ((18000, 3000, 4000, 250), (712.5, -649.0, 1)),  # 750 (1 - 0.05); 101 - 750
    ((19000, 2850, 4000, 125), (694.6875, 0.0, 1)),  # 712.5 (1 - 0.025)
]


@pytest.mark.holds("pid_rate", "rules", "20 batches by hand from Spark's estimator")
def test_twenty_batches_by_hand():
    assert len(BY_HAND) >= 20
    rate = error = last = FIRST
    for (end, records, processing, scheduling), expected in BY_HAND:
        rate, error, last, is_result = pid_rate(
            rate, error, last, end, records, processing, scheduling, 1000, 1.0, 0.2, 0.0, 100
        )
        assert (rate, error, is_result) == expected, end


# P = 0.5, I = 0.1, D = 0.25, B = 2000 ms, floor 10: R - 0.5 e - 0.1 h - 0.25 e', where
# e = R - r, h = d r / B, and e' = (e - E) / 2 as batches end every two seconds.
ALL_GAINS = [
    ((4000, 400, 1000, 0), (400.0, 0.0, 0)),
    ((6000, 400, 2000, 0), (275.0, 200.0, 1)),  # 400 - 100 - 0 - 0.25 * 100
    ((8000, 400, 2000, 1000), (243.125, 75.0, 1)),  # 275 - 37.5 - 10 + 0.25 * 62.5
]


def test_all_three_gains_by_hand():
    rate = error = last = FIRST
    for (end, records, processing, scheduling), expected in ALL_GAINS:
        rate, error, last, is_result = pid_rate(
            rate, error, last, end, records, processing, scheduling, 2000, 0.5, 0.1, 0.25, 10
        )
        assert (rate, error, is_result) == expected


@pytest.mark.holds("pid_rate", "rules", "the speed that it must come to, within 1 %")
@given(
    speed=st.floats(101, 1e6),
    begin=st.floats(100, 1e6),
    proportional=st.floats(0.1, 1.0),
    derivative=st.floats(0, 0.05),
)
def test_it_comes_to_the_speed_of_the_batches_within_a_percent(
    speed, begin, proportional, derivative
):
    rate, error, last = begin, 0.0, 0.0
    for batch in range(1, 400):
        rate, error, last, _ = pid_rate(
            rate, error, last, 1000 * batch, 10_000, 1e7 / speed, 0, 1000,
            proportional, 0.2, derivative, 100,
        )  # fmt: skip
    assert rate == pytest.approx(speed, rel=0.01)


@given(st.lists(st.tuples(st.integers(-5, 10_000), st.integers(-5, 5000), st.integers(0, 90_000))))
def test_it_is_never_below_its_floor_and_idle_batches_change_nothing(batches):
    rate = error = last = FIRST
    for number, (records, processing, scheduling) in enumerate(batches, 1):
        before = rate, error, last
        rate, error, last, is_result = pid_rate(
            rate, error, last, 1000 * number, records, processing, scheduling, 1000, 1, 0.2, 0, 100
        )
        if records <= 0 or processing <= 0:
            assert (rate, error, last) == before
        if is_result:
            assert rate >= 100


@pytest.mark.parametrize(
    ("rate", "most", "published"),
    [
        (FIRST, 0, -1),  # nothing yet: no limit at all
        (100.9, 0, 100),
        (2000.0, 1500, 1500),
        (2000.0, -1, 2000),
        (0.5, 0, 0),
    ],
)
def test_what_is_published(rate, most, published):
    assert published_rate(rate, most) == published


@pytest.mark.parametrize(
    ("published", "lag", "total", "most", "limit"),
    [
        (-1, 10, 100, 0, -1),  # no result and no limit of its own
        (-1, 10, 100, 40, 80),  # its own limit, times two seconds
        (1000, 10, 100, 0, 200),  # a tenth of 1000, times two
        (1000, 10, 100, 30, 60),
        (1000, 0, 100, 0, 1),  # no lag: the least
        (1000, 1, 3000, 0, 1),  # 0.33 a second is 0.67 of a record: the least
        (1000, 5, 10_000, 0, 1),  # 0.5 a second is one
        (1000, 9, 10_000, 0, 1),  # 0.9 a second is 1.8, truncated
        (1000, 10, 10_000, 0, 2),
        (1000, 10, 0, 0, 1),
    ],
)
def test_what_a_kafka_partition_may_give(published, lag, total, most, limit):
    assert partition_limit(published, lag, total, most, 1, 2000) == limit
