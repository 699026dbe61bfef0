"""Lag: whether a source kept up with its log, caught up, or is behind; and who is to blame."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import pytest

from flowcontrol.analysis import find_bottleneck, summarise
from flowcontrol.analysis.lag import find_lags

TIMES = [10, 20, 30, 40, 50]


def job(builder: ModuleType, parallelism: int = 1) -> Any:
    source = {"arrival_rate": 100, "emit_rate": 150, "parallelism": parallelism}
    return builder.scenario("log", {"source": source, "sink": {}}, ["source->sink"])


def results(builder: ModuleType, **source: Any) -> Any:
    return builder.Results(TIMES).stage("source", **source).stage("sink").channel("source->sink")


@pytest.mark.parametrize(
    ("records", "ages", "sentence"),
    [
        (
            [3, 0, 80, 1, 2],
            [0.03, 0, 0.8, 0.01, 0.02],
            "source kept up with its log: at most 80 records, 0.8 s behind.",
        ),
        (
            [0, 1000, 2000, 1000, 0],
            [0, 10, 20, 10, 0.1],
            "source fell 2,000 records, 20 s behind its log and caught up after 20 s (from 30 s "
            "on).",
        ),
        (
            [0, 2000, 0, 0, 300],
            [0, 20, 0, 0, 3],
            "source fell 2,000 records, 20 s behind its log and caught up after 10 s (from 20 s "
            "on); at the end it is 300 records, 3 s behind again.",
        ),
        (  # most records wait long before the oldest of all is read
            [0, 2000, 1500, 1000, 0],
            [0, 10, 18, 26, 0],
            "source fell 2,000 records behind its log and caught up after 30 s (from 20 s on); at "
            "40 s it was 26 s behind.",
        ),
        (
            [0, 1000, 2000, 3000, 4000],
            [0, 10, 20, 30, 40],
            "source has not caught up with its log: 4,000 records, 40 s behind at the end.",
        ),
        (
            [0, 1000, 4000, 3000, 2000],
            [0, 10, 40, 30, 20],
            "source has not caught up with its log: 2,000 records, 20 s behind at the end.",
        ),
    ],
)
def test_what_becomes_of_a_lag_is_said(
    builder: ModuleType, records: list[int], ages: list[float], sentence: str
) -> None:
    tables = results(builder, lag_records=records, lag_s=ages).tables()
    [found] = find_lags(tables, job(builder))
    assert found.sentence == sentence
    summary = summarise(tables, job(builder), clock="live", rounds=5, wall_s=1, round_ms=100)
    assert summary["lags"] == [found.document()]
    assert summary["stages"]["source"]["whole"]["lag_records"] == sum(records) / 5
    assert "lag_records" not in summary["stages"]["sink"]["whole"]


def test_a_stage_is_as_far_behind_as_its_worst_subtask(builder: ModuleType) -> None:
    made = results(builder, lag_records=[0, 30, 0, 0, 0], lag_s=[0, 3, 0, 0, 0])
    made.stage("source", 1, lag_records=[0, 90, 0, 0, 0], lag_s=[0, 9, 0, 0, 0])
    [found] = find_lags(made.tables(), job(builder, 2))
    assert (found.max_records, found.max_s) == (120, 9)


def test_a_run_without_logs_or_samples_has_none(builder: ModuleType) -> None:
    plain = builder.scenario("plain", {"source": {}, "sink": {}}, ["source->sink"])
    assert find_lags(results(builder).tables(), plain) == []
    assert find_lags(builder.Results([]).tables(), job(builder)) == []


# ---------------------------------------------------------------- the bottleneck


def test_a_source_that_reads_too_slowly_is_the_bottleneck(builder: ModuleType) -> None:
    lag = {"lag_records": [500, 1000, 1500, 2000, 2500], "lag_s": [5, 10, 15, 20, 25]}
    tables = results(builder, busy_ms_per_s=1000, rate_out=150, **lag).tables()
    found = find_bottleneck(tables, job(builder))
    assert (found.stage, found.limited_s) == ("source", 50)
    assert found.sentence == (
        "Bottleneck: source — it read as fast as it could, 150 records/s, in all 50 s, and was up "
        "to 2,500 records, 25 s, behind its log."
    )
    assert found.details == (
        "Nothing after source held it back.",
        "Let source read faster, or spread its log over more partitions.",
    )


def test_one_partition_that_is_behind_is_named(builder: ModuleType) -> None:
    made = results(builder, busy_ms_per_s=300)
    made.stage("source", 1, busy_ms_per_s=1000, rate_out=150, lag_records=500, lag_s=5)
    found = find_bottleneck(made.tables(), job(builder, 2))
    assert found.subtasks == (1,)
    assert found.sentence.startswith("Bottleneck: subtask 1 of source — it read as fast as")


def test_a_source_that_is_blocked_points_downstream(builder: ModuleType) -> None:
    made = builder.Results(TIMES).channel("source->sink").stage("sink", busy_ms_per_s=1000)
    lag = {"lag_records": [0, 500, 1000, 1500, 2000], "lag_s": [0, 5, 10, 15, 20]}
    tables = made.stage("source", busy_ms_per_s=400, backpressured_ms_per_s=600, **lag).tables()
    found = find_bottleneck(tables, job(builder))
    assert found.stage == "sink"
    assert "while source was blocked 60 %" in found.sentence
    assert "behind its log" not in found.sentence  # the sentence about the log has it


def test_a_source_that_keeps_up_is_none(builder: ModuleType) -> None:
    tables = results(builder, busy_ms_per_s=950, rate_out=100, lag_records=1).tables()
    found = find_bottleneck(tables, job(builder))
    assert found.stage is None
    assert found.sentence.startswith(
        "No bottleneck: source set the pace at what is written to its log, 100 records/s"
    )
