"""Latency markers in the table ``latency``: beside the records'."""

from __future__ import annotations

from functools import cache
from io import StringIO
from typing import Any

import pandas as pd
import pytest
from rich.console import Console

from flowcontrol.analysis.frames import combine_latencies, latency_frame
from flowcontrol.analysis.summary import summarise
from flowcontrol.layout.job import Job
from flowcontrol.layout.physical_graph import build_physical_graph
from flowcontrol.records import MARKER
from flowcontrol.report.charts import latency_chart
from flowcontrol.report.rundata import RunData
from flowcontrol.scenario import parse_scenario
from flowcontrol.topics.shown import print_summary
from flowcontrol.virtual import run_job

OPTION = "metrics.latency.interval"


@cache
def job(interval_ms: int = 200, *, is_chained: bool = False, rate: float = 1500) -> Job:
    """Two sources, a map, perhaps chained to them, and a sink that is too slow."""
    scenario = {
        "schema": 1,
        "name": "markers",
        "duration_s": 20,
        "round_ms": 20,
        "sample_interval_s": 2,
        "cluster": {"task_managers": 2},
        "options": {"taskmanager.memory.segment-size": "4kb", OPTION: f"{interval_ms}ms"},
        "stages": [
            {"name": "source", "emit_rate": rate, "record_bytes": 100, "parallelism": 2},
            {"name": "map", "parallelism": 2},
            {"name": "sink", "service_rate": 500, "parallelism": 2, "placement": [1, 1]},
        ],
        "edges": [
            {"from": "source", "to": "map", "partitioner": "forward", "chain": is_chained},
            {"from": "map", "to": "sink"},
        ],
    }
    return build_physical_graph(parse_scenario(scenario))


@cache
def tables(interval_ms: int = 200, *, is_chained: bool = False, rate: float = 1500) -> Any:
    """The result tables of a run of that."""
    return run_job(job(interval_ms, is_chained=is_chained, rate=rate)).tables


def test_they_wait_as_records_do() -> None:
    """All wait behind a slow sink for most of a second, within the time of a flush."""
    records = latency_frame(tables())
    markers = latency_frame(tables(), MARKER)

    def mean(frame: pd.DataFrame) -> float:
        found = combine_latencies(frame[(frame["stage"] == "sink") & (frame["t_s"] > 6)])
        assert found is not None
        return found["mean_ms"]

    assert mean(records) > 500
    assert mean(markers) == pytest.approx(mean(records), rel=0.1)
    chained = latency_frame(tables(is_chained=True), MARKER)
    assert chained[chained["stage"] == "map"]["max_ms"].max() == 0


def test_the_records_own_latencies_are_those_without_markers() -> None:
    """Where buffers are not full, a marker costs no record anything."""
    quick, without = (tables(ms, rate=100) for ms in (200, 0))
    for name in ("count", "mean_ms"):
        one, other = (latency_frame(found)[name] for found in (quick, without))
        assert one.to_numpy() == pytest.approx(other.to_numpy(), rel=0.1)
    assert latency_frame(without, MARKER).empty


def test_markers_that_nobody_asked_for_are_not_logged() -> None:
    assert len(run_job(job(), track=False).tables["latency"]) == 0


def test_the_summary_and_the_page_have_them_beside_the_records() -> None:
    made, found = job(), tables()
    summary = summarise(
        found, made.scenario, clock="virtual", rounds=made.rounds, wall_s=1.0, round_ms=20.0
    )
    sink = summary["stages"]["sink"]["whole"]
    assert sink["markers"]["count"] == len_of(found, "sink")
    assert sink["latency"]["count"] > sink["markers"]["count"]
    assert summary["stages"]["source"]["whole"]["markers"] is None
    chart = latency_chart(RunData.of(found, made.scenario))
    assert [trace["name"] for trace in chart.figure["data"]] == ["p50", "p90", "p99", "markers p50"]
    assert "median of the latency markers" in chart.explanation
    off = job(0)
    none = latency_chart(RunData.of(tables(0), off.scenario))
    assert [trace["name"] for trace in none.figure["data"]] == ["p50", "p90", "p99"]
    assert "markers" not in none.explanation


def len_of(found: dict[str, Any], stage: str) -> int:
    frame = latency_frame(found, MARKER)
    return int(frame[frame["stage"] == stage]["count"].sum())


def test_the_terminal_has_their_median_where_there_are_any() -> None:
    for interval_ms, is_there in ((200, True), (0, False)):
        made = job(interval_ms)
        summary = summarise(
            tables(interval_ms), made.scenario, clock="virtual", rounds=1, wall_s=1, round_ms=20
        )
        console = Console(width=200, file=StringIO())
        print_summary(summary, console)
        assert isinstance(console.file, StringIO)
        assert ("Markers p50" in console.file.getvalue()) == is_there
