"""Structured Streaming's limits, AIMD, frontiers and blocking queues, by hand."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flowcontrol.systems.throttles import aimd_rate as a
from flowcontrol.systems.throttles import controller as e
from flowcontrol.systems.throttles import frontier_lag as f
from flowcontrol.systems.throttles import static_admission as s
from flowcontrol.systems.transports import blocking_queue as q


@pytest.mark.parametrize(
    ("backlog", "since", "is_skipped"),
    [(99, 0, 1), (100, 0, 0), (99, 900_000, 0), (99, 899_999, 1), (0, 1_700_000_000_000, 0)],
)
def test_a_batch_waits_for_rows_or_for_time(backlog, since, is_skipped):
    assert s.is_skipped(backlog, 100, since, 900_000) == is_skipped


@pytest.mark.holds("static_admission", "rules", "Spark's shares of Kafka partitions by hand")
def test_kafka_shares_by_backlog_and_rounds_as_spark_does():
    sizes = [1, 10, 90, 0, 899]
    shares = [s.partition_share(size, sum(sizes), 100) for size in sizes]
    assert shares == [1, 1, 9, 0, 89]  # 0.1 up, 1.0, 9.0, nothing, 89.9 down
    assert [s.partition_share(size, 5, 5) for size in (2, 3)] == [2, 3]


@pytest.mark.holds("static_admission", "rules", "Spark's shares of Kafka partitions by hand")
@pytest.mark.parametrize(
    ("size", "total", "most", "share"),
    [
        (290, 1000, 100, 28),  # 0.29 * 100 is 28.999999999999996
        (710, 1000, 100, 71),
        (290, 1000, 1000, 290),
        (29, 100, 100, 28),  # a limit that covers everything leaves one, too
        (71, 100, 100, 71),
        (29, 100, 1000, 29),  # never past the end
        (0, 100, 100, 0),
        (0, 0, 100, 0),
        (1, 10**9, 1, 1),  # a share below one is a record
        (1, 3, 3, 1),
    ],
)
def test_a_share_is_a_product_of_doubles_as_in_spark(size, total, most, share):
    assert s.partition_share(size, total, most) == share
    assert isinstance(s.partition_share(size, total, most), int)


@given(st.integers(1, 1 << 40), st.integers(0, 1 << 40), st.integers(1, 1 << 40), st.integers(0, 9))
def test_a_share_differs_from_the_exact_one_by_a_record_at_most(size, others, most, near):
    total = size + others
    most = max(1, total - near) if near else most
    exact = max(1, most * size // total)
    assert abs(s.partition_share(size, total, most) - min(exact, size)) <= 1


@pytest.mark.parametrize(
    ("started", "ended", "interval", "begins"),
    [(0, 400, 1000, 1000), (0, 1000, 1000, 1000), (0, 1001, 1000, 1001), (1001, 1500, 1000, 2000),
     (70, 90, 0, 90)],
)  # fmt: skip
def test_a_late_batch_is_followed_at_once(started, ended, interval, begins):
    assert s.next_trigger(started, ended, interval) == begins


def next_rate(rate, outcome, used=1e9, since=1 << 40):
    return a.next_rate(rate, outcome, used, since, 500.0, 3500.0, 100.0, 0.5, 20_000, 0.8)


@pytest.mark.holds("aimd_rate", "rules", "steps by hand")
@pytest.mark.parametrize(
    ("rate", "outcome", "used", "since", "expected"),
    [
        (500, a.GOOD, 400, 0, (600, 0)),
        (500, a.GOOD, 399, 0, (500, 0)),  # it does not use what it has
        (3450, a.GOOD, 3450, 0, (3500, 0)),
        (3500, a.BAD, 0, 20_000, (1750, 1)),
        (1750, a.BAD, 0, 19_999, (1750, 0)),  # it has just fallen
        (800, a.BAD, 0, 20_000, (500, 1)),
        (3500, a.TIMEOUT, 0, 20_000, (500, 1)),
        (3500, a.TIMEOUT, 0, 5, (3500, 0)),
    ],
)
def test_a_rate_grows_by_steps_and_falls_by_half(rate, outcome, used, since, expected):
    assert next_rate(rate, outcome, used, since) == expected


@given(st.lists(st.sampled_from([a.GOOD, a.BAD, a.TIMEOUT]), max_size=80))
def test_a_rate_stays_within_its_bounds(outcomes):
    rate = 500.0
    for outcome in outcomes:
        rate, _ = next_rate(rate, outcome)
        assert 500 <= rate <= 3500


@pytest.mark.holds("frontier_lag", "rules", "batches by hand")
def test_a_source_is_so_many_batches_ahead_of_the_frontier():
    assert [f.may_begin(number, 3, 2) for number in range(7)] == [1, 1, 1, 1, 1, 0, 0]


@pytest.mark.parametrize(
    ("oldest", "first_open"), [(0, 4), (100, 4), (101, 5), (200, 5), (201, 6), (300, 6), (-1, 7)]
)
def test_the_frontier_is_the_batch_of_the_oldest_record(oldest, first_open):
    """Batches 4, 5 and 6 ended at 100, 200 and 300."""
    assert f.frontier(4, [100, 200, 300], oldest) == first_open


def test_the_frontier_of_nothing_stands():
    assert [f.frontier(4, [], oldest) for oldest in (-1, 0, 9)] == [4, 4, 4]


@pytest.mark.parametrize(("age", "met"), [(-1, a.GOOD), (20_000, a.GOOD), (20_000.1, a.BAD)])
def test_what_the_oldest_request_has_met(age, met):
    assert a.outcome(age, 20_000) == met


def test_the_rate_that_was_used():
    assert [a.used_rate(sent, 10_000) for sent in (0, 1, 4000)] == [0.0, 0.1, 400.0]


@pytest.mark.parametrize(
    ("rate", "gap"),
    [
        (1000, 1_000_000),
        (3, 333_333_334),
        (0.5, 2_000_000_000),
        (1e12, 1),
        (1e-300, 1 << 61),
        (0.0, 1 << 61),
    ],
)
def test_a_gap_is_never_shorter_than_the_rate(rate, gap):
    assert e.rate_gap_ns(rate) == gap


@given(st.floats(1e-3, 1e9))
def test_gaps_come_to_the_rate(rate):
    gap = e.rate_gap_ns(rate)
    assert gap - 1 < 1e9 / rate * (1 + 1e-12)
    assert gap * (1 + 1e-12) >= 1e9 / rate


@pytest.mark.parametrize(
    ("sleep", "rate", "gap"),
    [(0, 100, 0), (1, 100, 11_000_000), (5, 0, 5_000_000), (20, 3, 353_333_334)],
)
def test_a_sleep_adds_to_the_time_of_a_record(sleep, rate, gap):
    assert e.sleep_gap_ns(sleep, rate) == gap


@pytest.mark.holds("blocking_queue", "rules", "steps by hand")
def test_queues_that_block():
    assert [q.free_slots(queued, 1024) for queued in (0, 1023, 1024, 1030)] == [1024, 1, 0, 0]
