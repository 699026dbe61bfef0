"""Offsets of a log: what is written by a moment, when a record was, and what waits."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flowcontrol.protocol.service import NEVER
from flowcontrol.protocol.tasks.reading import (
    append_up_to,
    lag,
    written_by,
    written_round,
    written_us,
)
from flowcontrol.state.tasks import SourceLog

TEN_A_MS = [[0, 0, 1]]
"""A unit a microsecond; a record is 100 of them."""
STOPS = [[0, 0, 1], [250, 250, 0]]


@pytest.mark.parametrize(("us", "count"), [(0, 0), (99, 0), (100, 1), (250, 2), (1000, 10)])
def test_records_are_written_when_the_integral_passes_them(us: int, count: int) -> None:
    assert written_by(TEN_A_MS, 100, us) == count


def test_a_record_is_written_at_the_first_microsecond_that_counts_it() -> None:
    assert [written_us(TEN_A_MS, 100, offset) for offset in range(3)] == [100, 200, 300]
    assert written_us(STOPS, 100, 1) == 200
    assert written_us(STOPS, 100, 2) == NEVER


@pytest.mark.parametrize(("offset", "number"), [(0, 0), (1, 0), (2, 1), (3, 1), (9, 4)])
def test_a_record_belongs_to_the_round_in_which_it_is_written(offset: int, number: int) -> None:
    assert written_round(TEN_A_MS, 100, offset, 200) == number


@given(rate=st.integers(1, 50), unit=st.integers(1, 5000), offset=st.integers(0, 10_000))
def test_moments_and_counts_agree(rate: int, unit: int, offset: int) -> None:
    rows = [[0, 0, rate]]
    at = written_us(rows, unit, offset)
    assert written_by(rows, unit, at) > offset
    assert written_by(rows, unit, at - 1) <= offset


def test_a_log_grows_and_is_read() -> None:
    log = SourceLog()
    append_up_to(log, 7, -1)
    log.position += 3
    assert lag(log) == 4
    append_up_to(log, 5, -1)  # it never shrinks
    assert log.end == 7
    append_up_to(log, 20, 12)  # all that there is to replay
    assert (log.end, lag(log)) == (12, 9)
