"""Combined percentiles: exact where they can be, never too low where they cannot."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flowcontrol.analysis import combine_latencies

PERCENTILES = {"p50_ms": 50, "p90_ms": 90, "p99_ms": 99}


def row(values: list[float]) -> dict[str, float]:
    """Return the latency row of one interval, percentiles by nearest rank."""
    figures = {
        name: float(np.percentile(values, q, method="inverted_cdf"))
        for name, q in PERCENTILES.items()
    }
    return {
        "count": len(values),
        "mean_ms": float(np.mean(values)),
        "max_ms": max(values),
    } | figures


def test_one_interval_gives_back_its_own_figures() -> None:
    figures = {
        "count": 7, "mean_ms": 3.5, "p50_ms": 3.0, "p90_ms": 6.0, "p99_ms": 6.5, "max_ms": 7.0
    }  # fmt: skip
    assert combine_latencies(pd.DataFrame([figures])) == figures


def test_no_record_is_none_and_not_zero() -> None:
    assert combine_latencies(pd.DataFrame([row([1.0])]).iloc[:0]) is None


def test_the_mean_weighs_by_count_and_the_maximum_is_the_largest() -> None:
    frame = pd.DataFrame([row([10.0] * 30), row([50.0] * 10)])
    combined = combine_latencies(frame)
    assert combined is not None
    assert combined["mean_ms"] == 20.0
    assert combined["max_ms"] == 50.0
    assert combined["count"] == 40
    assert combined["p50_ms"] == 10.0
    assert combined["p90_ms"] == 50.0


def test_each_record_counts_with_the_next_known_figure() -> None:
    # 100 records: 50 at 1, 40 at 2, 9 at 3, 1 at 4; and 100 all at 2.5
    spread = {"count": 100, "mean_ms": 1.6, "p50_ms": 1, "p90_ms": 2, "p99_ms": 3, "max_ms": 4}
    level = {
        "count": 100, "mean_ms": 2.5, "p50_ms": 2.5, "p90_ms": 2.5, "p99_ms": 2.5, "max_ms": 2.5
    }  # fmt: skip
    combined = combine_latencies(pd.DataFrame([spread, level]))
    assert combined is not None
    assert combined["p50_ms"] == 2.5  # 90 of 200 at or below 2
    assert combined["p90_ms"] == 2.5
    assert combined["p99_ms"] == 3


INTERVALS = st.lists(
    st.lists(st.floats(min_value=0, max_value=1e6), min_size=1, max_size=40), min_size=1, max_size=8
)


@given(INTERVALS)
def test_never_below_the_truth_and_never_above_the_maximum(intervals: list[list[float]]) -> None:
    combined = combine_latencies(pd.DataFrame([row(values) for values in intervals]))
    assert combined is not None
    everything = [value for values in intervals for value in values]
    # an interval's p99 may stand for all but one of its records: that many ranks of slack
    slack = len(intervals)
    for name, q in PERCENTILES.items():
        rank = max(0, int(np.ceil(len(everything) * q / 100)) - 1 - slack)
        assert combined[name] >= sorted(everything)[rank]
        assert combined[name] <= max(everything)
    assert combined["p50_ms"] <= combined["p90_ms"] <= combined["p99_ms"] <= combined["max_ms"]
    assert combined["mean_ms"] == pytest.approx(np.mean(everything), rel=1e-9, abs=1e-9)


@given(INTERVALS)
def test_the_order_of_the_rows_does_not_matter(intervals: list[list[float]]) -> None:
    frame = pd.DataFrame([row(values) for values in intervals])
    assert combine_latencies(frame) == pytest.approx(combine_latencies(frame.iloc[::-1]))
