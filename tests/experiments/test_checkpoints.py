"""Comparisons and sweeps of a job that checkpoints: how long they took, and how many failed."""

from __future__ import annotations

from typing import Any

import pytest

from flowcontrol.analysis import summarise
from flowcontrol.errors import ScenarioError
from flowcontrol.experiments.compare.columns import result_row, shown_columns
from flowcontrol.experiments.compare.figures import figures_of
from flowcontrol.experiments.compare.run import Outcome
from flowcontrol.experiments.sweep.columns import variant_rows
from flowcontrol.experiments.sweep.metric import read_metrics
from flowcontrol.job.run import Run
from flowcontrol.scenario import Scenario, parse_scenario
from flowcontrol.virtual import simulate

OPTION = "execution.checkpointing."
FIGURES = ("checkpoint_e2e_p50_ms", "checkpoints_failed")
CHECKPOINTING = {
    f"{OPTION}interval": "2s",
    f"{OPTION}timeout": "2500ms",
    f"{OPTION}tolerable-failed-checkpoints": 100,
}


def scenario(**options: Any) -> Scenario:
    """A sink that lets every second checkpoint expire, if there are any."""
    stated = {"taskmanager.memory.segment-size": "4kb", **options}
    return parse_scenario(
        {
            "schema": 1, "name": "slow", "duration_s": 20, "round_ms": 10, "options": stated,
            "stages": [{"name": "source", "emit_rate": 1000, "record_bytes": 1000},
                       {"name": "sink", "service_rate": 30}],
            "edges": [{"from": "source", "to": "sink", "partitioner": "rebalance"}],
        }
    )  # fmt: skip


@pytest.fixture(scope="module")
def runs() -> dict[bool, Run]:
    """Return a run with checkpoints and one without."""
    return {True: simulate(scenario(**CHECKPOINTING)), False: simulate(scenario())}


def expected(run: Run) -> tuple[float, int]:
    """Return both figures, from the table alone; the case has an even number of completed ones."""
    rows = run.tables["checkpoints"].to_pylist()
    times = sorted(row["e2e_ms"] for row in rows if row["status"] == "completed")
    failed = sum(row["status"] != "completed" for row in rows if row["ended_s"] is not None)
    assert len(times) % 2 == 0
    assert failed >= 4
    return sum(times[len(times) // 2 - 1 : len(times) // 2 + 1]) / 2, failed


def test_a_comparison_has_columns_for_a_job_that_checkpoints_only(runs: dict[bool, Run]) -> None:
    found = {
        has: Outcome("flink", "ran", figures=figures_of(run, run.job.scenario, None))
        for has, run in runs.items()
    }
    row = result_row(found[True])
    assert tuple(row[name] for name in FIGURES) == expected(runs[True])
    assert tuple(result_row(found[False])[name] for name in FIGURES) == (None, None)
    titles = {
        has: {column.figure for column in shown_columns([one])} & set(FIGURES)
        for has, one in found.items()
    }
    assert titles == {True: set(FIGURES), False: set()}
    assert Outcome.from_json(found[True].to_json()) == found[True]


def test_a_sweep_has_the_same_figures_in_all_rows_of_a_variant(runs: dict[bool, Run]) -> None:
    for has, run in runs.items():
        own = run.job.scenario
        summary = summarise(
            run.tables, own, clock="virtual", rounds=run.rounds, wall_s=1.0, round_ms=10.0
        )
        rows = variant_rows(summary, own, {})
        wanted = expected(run) if has else (None, None)
        assert [tuple(row[name] for name in FIGURES) for row in rows] == [wanted] * 2


def test_a_metric_of_checkpoints_needs_some() -> None:
    found = read_metrics(list(FIGURES), scenario(**CHECKPOINTING))
    assert [metric.name for metric in found] == [f"sink.{name}" for name in FIGURES]
    assert [metric.steady for metric in found] == list(found)
    with pytest.raises(ScenarioError, match=r"state the option execution\.checkpointing\.interval"):
        read_metrics(["checkpoints_failed"], scenario())
