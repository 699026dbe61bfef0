"""What a round's time goes to, at the limits of 64 bits too."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flowcontrol.protocol.service import (
    blocked_relay_us,
    blocked_source_us,
    busy_us,
    emitting_us,
    flush_ticks,
    next_flush_us,
)


@pytest.mark.parametrize(
    ("free_us", "records", "cost_ns", "expected"),
    [
        (1_000, 6, 4_068, 24),  # of 24,408 ns, rounded down
        (1_000, 245, 4_068, 996),
        (1_000, 246, 4_068, 1_000),  # of 1,000,728 ns
        (1_000, 10**12, 4_068, 1_000),
        (0, 5, 4_068, 0),
        (1_000, 0, 4_068, 0),
        (1_000, 10**12, 0, 0),
        (1_000, 1, 999_999, 999),
        (1_000, 1, 1_000_000, 1_000),
    ],
)
def test_by_hand(free_us: int, records: int, cost_ns: int, expected: int) -> None:
    assert emitting_us(free_us, records, cost_ns) == expected


@given(st.integers(0, 10**15), st.integers(0, 10**15), st.integers(0, 10**18))
def test_it_is_the_cost_of_all_records_or_all_the_time(
    narrow: type[int], free_us: int, records: int, cost_ns: int
) -> None:
    found = emitting_us(narrow(free_us), narrow(records), cost_ns)
    assert found == min(free_us, records * cost_ns // 1000)


MOST = 1 << 61
ROUND = 10**12
"""Longest round, microseconds."""


@given(st.integers(1, ROUND), st.integers(1, MOST), st.floats(0, 1))
def test_blocked_time_is_the_share_of_what_was_not_done(
    narrow: type[int], whole: int, due: int, share: float
) -> None:
    done = min(due, int(due * share))
    numbers = narrow(whole), narrow(due), narrow(done)
    assert blocked_source_us(*numbers, 1, 0) == whole * (due - done) // due
    assert blocked_relay_us(narrow(whole), narrow(due), narrow(done), 1) == (
        whole * due // (done + due)
    )


@given(st.integers(1, ROUND), st.integers(0, MOST), st.integers(1, MOST), st.floats(0, 2))
def test_busy_time_is_the_share_of_the_work(
    narrow: type[int], whole: int, start: int, work: int, share: float
) -> None:
    """A server whose rate has many digits counts work in parts so small that they fill 61 bits."""
    ready = start + int(work * share)
    found = busy_us(narrow(whole), narrow(start), narrow(start + work), narrow(ready), 1, 0, 1)
    assert found == whole * min(work, ready - start) // work


def test_a_rate_of_many_digits_in_a_long_round(narrow: type[int]) -> None:
    """1,183.673469 records/s for 200 ms: 236.7 records, of which 208 keep it busy for 175 ms."""
    unit, rate = 10**12, 1_183_673_469
    assert busy_us(
        narrow(200_000), narrow(0), narrow(rate * 200_000), narrow(208 * unit), 0, 0, 1
    ) == (175_724)


def ticks(interval_us: int, phase_us: int, until_us: int) -> list[int]:
    """Moments at which a flusher runs, looked for microsecond by microsecond."""
    return [t for t in range(1, until_us) if flush_ticks(t - 1, t, interval_us, phase_us) > 0]


@pytest.mark.parametrize(
    ("interval_us", "phase_us", "period_us"),
    [(1000, 0, 995), (1000, 1, 990), (1000, 5, 985), (1000, 9, 995), (90, 7, 90), (1, 0, 1)],
)
def test_a_flusher_by_hand(interval_us: int, phase_us: int, period_us: int) -> None:
    """It runs first after its phase, then after a period that its phase shortens a little."""
    first = phase_us or interval_us
    found = ticks(interval_us, phase_us, first + 3 * period_us + 1)
    assert found == [first + n * period_us for n in range(4)]


@given(st.integers(1, 5_000), st.integers(0, 10**6), st.integers(0, 10**6), st.integers(0, 10**6))
def test_the_ticks_of_a_span_are_those_that_come_next_in_it(
    interval_us: int, phase: int, start_us: int, length_us: int
) -> None:
    phase_us, end_us = phase % interval_us, start_us + length_us % (3 * interval_us)
    count, at = 0, next_flush_us(start_us, interval_us, phase_us)
    while at <= end_us:
        assert at > start_us
        count, at = count + 1, next_flush_us(at, interval_us, phase_us)
    assert flush_ticks(start_us, end_us, interval_us, phase_us) == count
    assert end_us - start_us < interval_us or count > 0 or start_us < interval_us


@pytest.mark.parametrize("phase_us", [0, 1, 499_999, 500_000, 999_999])
@pytest.mark.parametrize("beat", [1, 2, 3])
def test_records_of_the_same_beat_wait_half_an_interval_whatever_the_phase(
    phase_us: int, beat: int
) -> None:
    """Evenly spaced, one or some an interval: over 400 intervals of a second."""
    interval_us = 1_000_000
    records = range(interval_us, 400 * interval_us, interval_us // beat)
    waits = [next_flush_us(at - 1, interval_us, phase_us) - at for at in records]
    assert max(waits) <= interval_us
    assert sum(waits) / len(waits) == pytest.approx(interval_us / 2, rel=0.03)
