"""What a round's time goes to, at the limits of 64 bits too."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flowcontrol.protocol.times import (
    blocked_relay_us,
    blocked_source_us,
    busy_us,
    emitting_us,
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
