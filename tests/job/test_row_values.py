"""Values of a column as whole numbers: which power of ten, what they give back."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flowcontrol.layout.row_values import (
    MOST_DECIMALS,
    WindowValues,
    decimals_of,
    sums_within,
    values_of,
)
from flowcontrol.protocol.windows.contents import NO_VALUE
from flowcontrol.state.tasks import MAX_TIME, MIN_TIME


def column(values: list[Any], kind: Any = None, first: int = 0, rows: int = 1) -> Any:
    return first, pa.chunked_array([pa.array(values, kind)]), np.full(len(values), rows, np.int64)


@pytest.mark.parametrize(
    ("values", "rows", "decimals"),
    [
        ([], 1, 0),
        ([0.0], 1, 0),
        ([3.0, -7.0], 1, 0),
        ([0.5], 1, 1),
        ([0.1, 0.25], 1000, 2),
        ([5.37, 12.5], 336_776, 2),
        ([1e-9], 1, 9),
        ([1 / 3], 1, 16),
        ([1 / 3], 10**6, 13),
        ([4.6e18], 1, 0),
        ([4.7e18], 1, -1),
        ([1e300], 10, -283),
    ],
)
def test_the_power_is_the_least_in_which_all_are_whole(
    values: list[float], rows: int, decimals: int
) -> None:
    assert decimals_of(np.array(values, np.float64), rows) == decimals


def test_whole_numbers_stay() -> None:
    found = values_of([column([5, None, -7], pa.int64())], 3)
    assert (found.of_ids.tolist(), found.is_whole) == ([5, NO_VALUE, -7], True)
    assert found.numbers(np.array([5])).tolist() == [5]
    assert found.means(np.array([5]), np.array([0]), np.array([2])).tolist() == [2.5]


def test_decimals_are_units() -> None:
    found = values_of([column([0.1, None, float("nan"), -2.25])], 4)
    assert found.of_ids.tolist() == [10, NO_VALUE, NO_VALUE, -225]
    assert found.numbers(np.array([100, -225])).tolist() == [1.0, -2.25]
    assert found.means(np.array([100]), np.array([0]), np.array([4])).tolist() == [0.25]


@pytest.mark.parametrize("values", [[17 * 10**17] * 8, [-(2**63) + 2] * 5, [2**62] * 2])
def test_a_sum_beyond_64_bits_stops_and_its_mean_is_right(values: list[int]) -> None:
    wraps, sums = divmod(sum(values) + 2**63, 2**64)
    own, found = WindowValues(np.zeros(0, np.int64)), (np.array([sums - 2**63]), np.array([wraps]))
    assert own.means(*found, np.array([len(values)])).tolist() == [float(values[0])]
    assert sums_within(*found).tolist() == [MAX_TIME if values[0] > 0 else MIN_TIME]


def test_sources_follow_one_another() -> None:
    """One with doubles makes all of them doubles; ids of others have no value."""
    found = values_of([column([1, 2], pa.int64()), column([0.5], first=3)], 5)
    assert found.of_ids.tolist() == [10, 20, NO_VALUE, 5, NO_VALUE]


def test_a_column_without_values_is_no_trouble() -> None:
    found = values_of([column([None, None], pa.float64())], 2)
    assert found.of_ids.tolist() == [NO_VALUE] * 2


def test_no_values_are_asked_for() -> None:
    assert len(WindowValues(np.zeros(0, np.int64)).of_ids) == 0


DECIMALS = st.builds(lambda n, d: n / 10**d, st.integers(-(10**6), 10**6), st.integers(0, 6))


@given(values=st.lists(DECIMALS, min_size=1), rows=st.integers(1, 1000))
def test_decimals_come_back_as_they_were(values: list[float], rows: int) -> None:
    found = values_of([column(values, pa.float64(), rows=rows)], len(values))
    assert found.numbers(found.of_ids).tolist() == values
    assert sum(abs(unit) * rows for unit in found.of_ids.tolist()) < 1 << 63


@given(values=st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1))
def test_any_double_is_within_half_a_unit(values: list[float]) -> None:
    found = values_of([column(values, pa.float64())], len(values))
    assert found.decimals <= MOST_DECIMALS
    assert sum(map(abs, found.of_ids.tolist())) < 1 << 63
    unit = 10.0**-found.decimals
    back = found.numbers(found.of_ids)
    assert (np.abs(back - values) <= 0.5 * unit + 1e-15 * np.abs(values)).all()
