"""A figure that is added to the registry is in every place that shows figures."""

from __future__ import annotations

from typing import Any

import pytest

from flowcontrol.analysis import figures, summarise
from flowcontrol.analysis.figures import Figure
from flowcontrol.experiments.advise.advise import advise
from flowcontrol.experiments.compare.result import compare_columns, result_row, results_table
from flowcontrol.experiments.compare.run import Outcome, figures_of
from flowcontrol.experiments.sweep.columns import results_table as swept_table
from flowcontrol.experiments.sweep.columns import variant_rows
from flowcontrol.experiments.sweep.metric import read_metrics
from flowcontrol.experiments.tune.goals import read_goals
from flowcontrol.records import Column
from flowcontrol.results.run import Run
from flowcontrol.scenario import parse_scenario
from flowcontrol.virtual import simulate

CHAIN: dict[str, Any] = {
    "schema": 1, "name": "two", "duration_s": 4, "round_ms": 100, "sample_interval_s": 1,
    "stages": [{"name": "source", "emit_rate": 100}, {"name": "sink", "service_rate": 80}],
    "edges": [{"from": "source", "to": "sink", "partitioner": "rebalance"}],
}  # fmt: skip
OF_STAGE = Figure(Column("first_s", "float64", "s", "Made up."), lambda view: view.window[0])
OF_JOB = Figure(
    Column("made_up", "int64", "records", "Made up."), lambda view: len(view.tables["stages"]),
    of_job=True, is_peak=True, has_half=False,
)  # fmt: skip


@pytest.fixture
def added(monkeypatch: pytest.MonkeyPatch) -> None:
    """Add a figure of a stage and one of the job."""
    monkeypatch.setattr(figures, "FIGURES", (*figures.FIGURES, OF_STAGE, OF_JOB))


@pytest.fixture(scope="module")
def run() -> Run:
    """Return a run of two stages for four samples: eight rows of ``stages``."""
    return simulate(parse_scenario(CHAIN))


@pytest.mark.usefixtures("added")
def test_a_figure_of_a_stage_is_in_summary_sweep_and_search(run: Run) -> None:
    scenario = run.job.scenario
    found = summarise(run.tables, scenario, clock="virtual", rounds=40, wall_s=1.0, round_ms=100)
    assert found["stages"]["sink"]["second_half"]["first_s"] == 2
    assert {"first_s", "first_s_second_half"} <= set(swept_table(()).names)
    row = variant_rows(run, scenario, {})[1]
    assert (row["first_s"], row["first_s_second_half"]) == (0, 2)
    (metric,) = read_metrics(["sink.first_s_second_half"], scenario)
    assert metric.title == "sink.first_s_second_half (s)"
    goals = read_goals([("minimise", "sink.first_s")], ["sink.first_s_second_half<=3"], scenario)
    assert [one.name for one in goals.measures] == ["sink.first_s", "sink.first_s_second_half"]


@pytest.mark.usefixtures("added")
def test_a_figure_of_the_job_is_in_all_of_them(run: Run) -> None:
    scenario = run.job.scenario
    found = summarise(run.tables, scenario, clock="virtual", rounds=40, wall_s=1.0, round_ms=100)
    assert found["figures"] == {"made_up": 8}
    assert [row["made_up"] for row in variant_rows(run, scenario, {})] == [8, 8]
    goals = read_goals([("maximise", "made_up")], [], scenario)
    assert [one.name for one in goals.measures] == ["made_up"]
    outcome = Outcome("flink", "ran", figures=figures_of(run, scenario, None))
    assert result_row(outcome)["made_up"] == 8
    assert "made_up" in results_table().names
    (column,) = [one for one in compare_columns() if one.figure == "made_up"]
    assert outcome.figures is not None
    assert (column.title, column.cell(outcome.figures)) == ("made_up (records)", "8")


@pytest.mark.usefixtures("added")
def test_advice_has_it_too(run: Run, tmp_path: Any) -> None:
    found = advise(CHAIN, out=tmp_path / "advice", rules=(), simulate=lambda _: run, quiet=True)
    assert found.before.made_up == 8
    assert found.summary["before"]["made_up"] == 8


def test_names_are_unique() -> None:
    for of_job in (False, True):
        names = [one.column.name for one in figures.FIGURES if one.of_job == of_job]
        assert len(names) == len(set(names))
