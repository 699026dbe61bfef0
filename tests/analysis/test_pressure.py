"""The boundaries of Flink's rule by hand, then the rule over its whole range."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flowcontrol.analysis import Pressure, pressure_of, worst_pressure

SHARES = st.floats(min_value=0, max_value=1000)


@pytest.mark.parametrize(
    ("backpressured_ms_per_s", "expected"),
    [
        (0, Pressure.OK),
        (99.9, Pressure.OK),
        (100, Pressure.OK),
        (100.1, Pressure.LOW),
        (499.9, Pressure.LOW),
        (500, Pressure.LOW),
        (500.1, Pressure.HIGH),
        (1000, Pressure.HIGH),
    ],
)
def test_status_at_the_thresholds(backpressured_ms_per_s: float, expected: Pressure) -> None:
    assert pressure_of(backpressured_ms_per_s) is expected


@pytest.mark.parametrize("figure", [-0.001, -1000, math.nan])
def test_what_is_no_share_of_time_is_refused(figure: float) -> None:
    with pytest.raises(ValueError, match="at least 0 ms/s, not"):
        pressure_of(figure)


@given(SHARES, SHARES)
def test_more_blocked_is_never_a_milder_status(one: float, other: float) -> None:
    low, high = sorted((one, other))
    assert pressure_of(low).rank <= pressure_of(high).rank


@given(st.lists(SHARES, min_size=1))
def test_a_stage_is_as_bad_as_its_worst_subtask(shares: list[float]) -> None:
    assert worst_pressure(shares) is pressure_of(max(shares))


def test_a_stage_without_subtasks_is_ok() -> None:
    assert worst_pressure([]) is Pressure.OK


def test_statuses_are_written_as_their_names() -> None:
    assert [status.value for status in Pressure] == ["OK", "LOW", "HIGH"]
    assert [status.rank for status in Pressure] == [0, 1, 2]
