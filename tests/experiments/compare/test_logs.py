"""Sources that read logs in a comparison: the limit with catching up, latency, columns."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from flowcontrol.experiments.base import as_base
from flowcontrol.experiments.compare.compare import compare
from flowcontrol.experiments.compare.limits import job_limits
from flowcontrol.experiments.compare.result import compare_columns, print_comparison, shown_columns
from flowcontrol.experiments.compare.run import run_one, scenario_of
from flowcontrol.layout.physical_graph import build_physical_graph
from flowcontrol.scenario import parse_scenario

EDGES = [{"from": "source", "to": "sink"}]


def job(source: dict[str, Any], sink: Any, **more: Any) -> dict[str, Any]:
    first = {"name": "source", "emit_rate": 150, "arrival_rate": 100, "record_bytes": 1000}
    last = {"name": "sink", "service_rate": sink}
    return {"schema": 1, "name": "job", "duration_s": 30, "round_ms": 100,
            "stages": [{**first, **source}, last], "edges": EDGES, **more}  # fmt: skip


def limits(mapping: dict[str, Any]) -> list[tuple[float, float]]:
    """Start of each phase, and what the sources can emit in it."""
    phases = job_limits(build_physical_graph(parse_scenario(mapping)))
    assert phases is not None
    assert [later.start_s for later in phases[1:]] == [phase.end_s for phase in phases[:-1]]
    return [(round(p.start_s, 6), round(p.produced, 6)) for p in phases]


PAUSE = {"stalls": [{"at_s": 2, "for_s": 3}]}


@pytest.mark.parametrize(
    ("source", "sink", "expected"),
    [
        ({}, 1000, [(0, 100)]),
        # 300 records wait at 5 s; 150 - 100 of them are read a second.
        (PAUSE, 1000, [(0, 100), (2, 0), (5, 150), (11, 100)]),
        (PAUSE, 120, [(0, 100), (2, 0), (5, 120), (20, 100)]),  # the sink has 20 to spare
        ({"arrival_rate": 200}, 1000, [(0, 150)]),
        ({"arrival_rate": [{"at_s": 0, "rate": 200}, {"at_s": 10, "rate": 50}]}, 1000,
         [(0, 150), (10, 150), (15, 50)]),
        ({"arrival_rate": 0, "emit_rate": 9}, 5, [(0, 0)]),
    ],
)  # fmt: skip
def test_the_limit_knows_what_waits(
    source: dict[str, Any], sink: float, expected: list[tuple[float, float]]
) -> None:
    assert limits(job(source, sink)) == expected


def test_each_subtask_has_its_own_log() -> None:
    """One of two stands still: 300 records wait for it alone."""
    source = {"parallelism": 2, "stalls": [{"at_s": 2, "for_s": 3, "subtasks": [1]}]}
    assert limits(job(source, 1000)) == [(0, 200), (2, 100), (5, 250), (11, 200)]


def test_latency_counts_from_arrival_under_every_system() -> None:
    base = as_base(parse_scenario(job(PAUSE, 1000)), ["round_ms=100"])
    for system in ("flink", "spark-streaming", "storm-1"):
        assert scenario_of(base, system).stage("source").latency_from == "arrival"
        figures = run_one(base, system, "virtual").figures
        assert figures is not None
        assert figures.latency_p99_ms is not None
        assert 2900 <= figures.latency_p99_ms <= 4300  # the pause, and up to a batch
        assert (figures.lag_records, figures.lag_end_records) in [(300, 0), (400, 0), (400, 100)]
    plain = as_base(parse_scenario(job({"arrival_rate": None}, 1000)), [])
    assert scenario_of(plain, "flink").stage("source").latency_from == "emission"


def test_columns_of_logs_are_there_where_there_are_logs(tmp_path: Path) -> None:
    texts = []
    for name, source in (("log", PAUSE), ("plain", {"arrival_rate": None})):
        result = compare(
            parse_scenario(job(source, 1000)), systems=["flink"], out=tmp_path / name, processes=1
        )
        out = io.StringIO()
        print_comparison(result, Console(file=out, width=200))
        texts.append((out.getvalue(), result.report.read_text(), shown_columns(result.outcomes)))
    (shown, page, columns), (bare, without, others) = texts
    assert "lag" in shown
    assert "Behind the log" in page
    of_checkpoints = [column for column in compare_columns() if "checkpoint" in column.figure]
    assert len(of_checkpoints) == 2  # neither job takes any
    assert len(columns) == len(compare_columns()) - 2 == len(others) + 3
    assert "lag" not in bare
    assert "Behind the log" not in without
