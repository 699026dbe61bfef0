"""Figures of single subtasks: each its own, the largest beside the mean, Flink's data skew."""

from __future__ import annotations

import math
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flowcontrol.analysis import data_skew, summarise
from flowcontrol.analysis.frames import panel_of
from flowcontrol.analysis.subtasks import FIGURES, largest, spread, subtask_figures
from flowcontrol.records import RESULTS

FIGURE = st.integers(0, 10**12)


@pytest.fixture
def results(builder: ModuleType) -> Any:
    """Return a run of two samples, 8 s and 2 s long, of a stage with two subtasks."""
    made = builder.Results([8.0, 10.0])
    made.stage("source", records_out=[800, 900])
    made.stage("sink", 0, records_in=[600, 700], busy_ms_per_s=[500, 1000], in_pool_usage=[1, 0.5])
    made.stage("sink", 1, records_in=[100, 200], busy_ms_per_s=[100, 0], input_queue_buffers=5)
    return made


def sink_rows(results: Any) -> Any:
    return panel_of(results.tables(), "stages").of("stage", "sink")


def test_each_subtask_has_its_own_figures(results: Any) -> None:
    first, second = subtask_figures(sink_rows(results), (0.0, 10.0))
    assert (first.subtask, first.records_in, first.rate_in) == (0, 700, 70.0)
    assert (second.subtask, second.records_in, second.rate_in) == (1, 200, 20.0)
    assert first.busy_ms_per_s == (500 * 8 + 1000 * 2) / 10
    assert first.in_pool_usage == pytest.approx(0.9)
    assert second.input_queue_buffers == 5


def test_a_window_counts_growth_from_its_start(results: Any) -> None:
    first, second = subtask_figures(sink_rows(results), (8.0, 10.0))
    assert (first.records_in, first.rate_in, first.busy_ms_per_s) == (100, 50.0, 1000.0)
    assert (second.records_in, second.busy_ms_per_s) == (100, 0.0)


def test_without_samples_there_are_no_subtasks(results: Any) -> None:
    assert subtask_figures(sink_rows(results).take(slice(0, 0)), (0.0, 0.0)) == []
    assert largest([]) == dict.fromkeys(FIGURES, 0)
    assert spread([]) == {"data_skew_percent": 0.0, "records_in_max_over_mean": 0.0}


def test_every_column_of_numbers_is_a_figure() -> None:
    assert set(FIGURES) == set(RESULTS["stages"].names) - {"t_s", "stage", "subtask"}


def test_the_summary_has_the_largest_beside_the_mean(results: Any, builder: ModuleType) -> None:
    job = builder.scenario("two", {"source": {}, "sink": {"parallelism": 2}}, ["source->sink"])
    summary = summarise(
        results.tables(), job, clock="virtual", rounds=10, wall_s=1.0, round_ms=1.0
    )  # fmt: skip
    whole = summary["stages"]["sink"]["whole"]
    assert whole["busy_ms_per_s"] == 340.0
    assert whole["max_over_subtasks"]["busy_ms_per_s"] == whole["busiest_busy_ms_per_s"] == 600.0
    assert whole["max_over_subtasks"]["rate_in"] == 70.0
    assert whole["max_over_subtasks"]["input_queue_buffers"] == 5.0
    assert whole["data_skew_percent"] == pytest.approx(100 * 250 / 450, abs=1e-6)
    assert whole["records_in_max_over_mean"] == pytest.approx(700 / 450, abs=1e-6)
    assert summary["stages"]["source"]["whole"]["records_in_max_over_mean"] == 0.0


@pytest.mark.parametrize(
    ("figures", "percent"),
    [
        ([], 0.0),
        ([7], 0.0),
        ([0, 0, 0], 0.0),
        ([100, 100, 100, 200], 30.0),
        ([50, 150], 50.0),
        ([0, 0, 0, 400], 100.0),
    ],
)
def test_data_skew_is_that_of_flink(figures: list[float], percent: float) -> None:
    """The mean distance from the mean over the mean, as DoubleAccumulator.DoubleDataSkew has it."""
    assert data_skew(figures) == percent


@pytest.mark.parametrize("figure", [-1.0, math.nan])
def test_what_is_no_rate_is_refused(figure: float) -> None:
    with pytest.raises(ValueError, match="at least 0"):
        data_skew([1.0, figure])


@given(st.lists(FIGURE, min_size=1, max_size=20), st.integers(1, 1000))
def test_data_skew_is_a_share_and_has_no_unit(figures: list[int], factor: int) -> None:
    score = data_skew(figures)
    assert 0 <= score <= 100
    assert data_skew([factor * figure for figure in figures]) == pytest.approx(score)


@given(FIGURE, st.integers(1, 20))
def test_equal_subtasks_are_not_skewed(figure: int, count: int) -> None:
    assert data_skew([figure] * count) == pytest.approx(0.0, abs=1e-9)
