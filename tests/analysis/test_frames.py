"""Lengths of intervals, and the means that are weighted by them."""

from __future__ import annotations

from types import ModuleType

import pytest

from flowcontrol.analysis.frames import (
    end_of,
    in_flight_buffers,
    mean_over_time,
    result_frame,
    second_half_start,
)
from flowcontrol.scenario import JobSpan


def test_an_interval_reaches_back_to_the_sample_before(builder: ModuleType) -> None:
    tables = builder.Results([5.0, 10.0, 12.0]).stage("a").stage("b").tables()
    frame = result_frame(tables, "stages")
    assert frame[frame["stage"] == "b"]["interval_s"].tolist() == [5.0, 5.0, 2.0]


def test_a_sample_left_out_of_one_table_still_bounds_its_intervals(builder: ModuleType) -> None:
    results = builder.Results([5.0, 10.0]).stage("a").latency("a", count=1)
    del results.rows["latency"][0]
    assert result_frame(results.tables(), "latency")["interval_s"].tolist() == [5.0]


def test_means_weigh_by_the_length_of_the_interval(builder: ModuleType) -> None:
    tables = builder.Results([9.0, 10.0]).stage("a", busy_ms_per_s=[100.0, 1000.0]).tables()
    assert mean_over_time(result_frame(tables, "stages"), "busy_ms_per_s") == 190.0


def test_nothing_sampled_has_no_length_and_a_mean_of_zero(builder: ModuleType) -> None:
    tables = builder.Results([]).tables()
    frame = result_frame(tables, "stages")
    assert frame.empty
    assert mean_over_time(frame, "rate_in") == 0.0
    assert end_of(tables) == 0.0
    assert second_half_start(tables) == 0.0


def test_a_missing_table_counts_as_empty() -> None:
    assert list(result_frame({}, "latency").columns)[-2:] == ["max_ms", "interval_s"]


def test_a_missing_column_is_named(builder: ModuleType) -> None:
    tables = builder.Results([1.0]).stage("a").tables()
    tables["stages"] = tables["stages"].drop_columns(["rate_in", "rate_out"])
    with pytest.raises(ValueError, match="result table stages lacks rate_in, rate_out"):
        result_frame(tables, "stages")


@pytest.mark.parametrize(
    ("times", "expected"),
    [
        ([10.0], 0.0),
        ([5.0, 10.0], 5.0),
        ([4.0, 8.0, 10.0], 4.0),
        ([2.0, 4.0, 6.0, 8.0], 4.0),
        ([6.0, 10.0], 0.0),
    ],
)
def test_the_second_half_starts_on_a_sample_at_or_before_the_middle(
    builder: ModuleType, times: list[float], expected: float
) -> None:
    assert second_half_start(builder.Results(times).stage("a").tables()) == expected


@pytest.mark.parametrize(
    ("stop_at_s", "expected"), [(None, [5, 5]), (5, [5, 0]), (4.999999, [0, 0]), (10, [5, 5])]
)
def test_what_a_stopped_job_had_in_flight_is_gone(
    builder: ModuleType, stop_at_s: float | None, expected: list[int]
) -> None:
    stages = {"a": {}, "b": {}, "c": {}, "d": {}}
    scenario = builder.scenario("two", stages, ["a->b", "c->d"])
    spans = (
        JobSpan(name="one", stages=("a", "b")),
        JobSpan(name="two", stages=("c", "d"), stop_at_s=stop_at_s),
    )
    scenario = scenario.model_copy(update={"jobs": spans})
    results = builder.Results([5.0, 10.0])
    for edge in ("a->b", "c->d"):
        results.channel(edge, 0, 0, released=[12, 12], consumed=[7, 7])
    channels = result_frame(results.tables(), "channels")
    found = channels.assign(buffers=in_flight_buffers(channels, scenario))
    assert found[found["edge"] == "a->b"]["buffers"].tolist() == [5, 5]
    assert found[found["edge"] == "c->d"]["buffers"].tolist() == expected
