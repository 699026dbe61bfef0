"""Comparisons and sweeps of a job that checkpoints: how long they took, and how many failed."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from flowcontrol.errors import ScenarioError
from flowcontrol.experiments.compare.result import result_row, shown_columns
from flowcontrol.experiments.compare.run import Outcome, figures_of
from flowcontrol.experiments.sweep.columns import variant_rows
from flowcontrol.experiments.sweep.metric import read_metrics
from flowcontrol.experiments.sweep.plan import Plan
from flowcontrol.experiments.sweep.store import run_variant
from flowcontrol.results.run import Run
from flowcontrol.scenario import Scenario, load_scenario, parse_scenario
from flowcontrol.virtual import simulate

CONF = Path(__file__).resolve().parents[2] / "conf"
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
        rows = variant_rows(run, own, {})
        wanted = expected(run) if has else (None, None)
        assert [tuple(row[name] for name in FIGURES) for row in rows] == [wanted] * 2


def test_a_metric_of_checkpoints_needs_some() -> None:
    found = read_metrics(list(FIGURES), scenario(**CHECKPOINTING))
    assert [metric.name for metric in found] == list(FIGURES)
    assert [metric.steady for metric in found] == list(found)
    with pytest.raises(ScenarioError, match=r"state the option execution\.checkpointing\.interval"):
        read_metrics(["checkpoints_failed"], scenario())


def test_a_sweep_has_what_was_persisted(runs: dict[bool, Run]) -> None:
    run = simulate(scenario(**CHECKPOINTING, **{f"{OPTION}unaligned.enabled": True}))
    own = run.tables["checkpoints"].to_pandas()
    done = own[own.status == "completed"]
    assert done.persisted_bytes.mean() > 10_000
    assert row_of(run)["checkpoint_persisted_bytes"] == pytest.approx(done.persisted_bytes.mean())
    assert row_of(runs[False])["checkpoint_persisted_bytes"] is None
    none = scenario(**CHECKPOINTING | {f"{OPTION}timeout": "10ms"})
    assert row_of(simulate(none))["checkpoint_persisted_bytes"] is None


def row_of(run: Run) -> dict[str, Any]:
    """The row of the sink, as a sweep has it."""
    plan = SimpleNamespace(scenario=lambda *_: run.job.scenario, varied=())
    variant: Any = SimpleNamespace(id="a", point=(), seed=1, replication=0)
    return run_variant(cast(Plan, plan), variant, lambda _: run)[-1]


def test_a_sweep_has_what_failures_cost() -> None:
    run = simulate(load_scenario(CONF / "recovery.yaml"))
    (failure,) = run.tables["restarts"].to_pylist()
    row = row_of(run)
    assert row["downtime_s"] == pytest.approx(failure["running_s"] - failure["failed_s"])
    assert row["records_reprocessed"] == failure["records_reprocessed"] > 1000
    assert row["catch_up_s"] == pytest.approx(failure["caught_up_s"] - failure["running_s"])


def test_without_failures_they_cost_nothing_and_one_that_is_never_made_up_has_no_time(
    runs: dict[bool, Run],
) -> None:
    figures = ("downtime_s", "records_reprocessed", "catch_up_s")
    assert [row_of(runs[True])[name] for name in figures] == [0, 0, 0]
    assert [row_of(runs[False])[name] for name in figures] == [None] * 3
    short = load_scenario(CONF / "recovery.yaml", overrides=("duration_s=40",))
    assert row_of(simulate(short))["catch_up_s"] is None


def test_a_metric_of_failures_is_the_jobs_and_needs_some() -> None:
    (found,) = read_metrics(["downtime_s"], load_scenario(CONF / "recovery.yaml"))
    assert found.name == "downtime_s"
    with pytest.raises(ScenarioError, match="nothing fails, and the job takes no checkpoints"):
        read_metrics(["downtime_s"], scenario())
