"""Subtasks over time: a map per stage, whole in its cells, small in the page."""

from __future__ import annotations

import json
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flowcontrol.report import heat
from flowcontrol.report.heat import MOST_CELLS, columns_for, heat_charts
from flowcontrol.report.rundata import RunData
from modules import load


@pytest.fixture(scope="module")
def builder() -> ModuleType:
    """Return the builder of hand-made results."""
    return load("tests/analysis/builder.py")


def chart_of(builder: ModuleType, run: Any, parallelism: int) -> Any:
    stages = {"source": {}, "sink": {"parallelism": parallelism}}
    job = builder.scenario("job", stages, ["source->sink"])
    (chart,) = heat_charts(RunData.of(run.tables(), job))
    return chart


def maps(chart: Any) -> dict[str, dict[str, Any]]:
    return {trace["meta"]: trace for trace in chart.figure["data"]}


@pytest.fixture
def uneven(builder: ModuleType) -> Any:
    """Return a run with samples of 8 and 2 seconds, the second subtask hot in the second."""
    run = builder.Results([8.0, 10.0]).stage("source")
    run.stage("sink", 0, busy_ms_per_s=[100, 200], rate_in=[1234.5, 0.126], input_queue_buffers=3)
    run.stage("sink", 1, busy_ms_per_s=[300, 1000], backpressured_ms_per_s=[0, 400])
    return run


def test_a_row_is_a_subtask_and_a_column_a_sample(builder: ModuleType, uneven: Any) -> None:
    drawn = maps(chart_of(builder, uneven, 2))
    assert list(drawn) == ["busy", "blocked", "rate", "queue"]
    assert drawn["busy"]["z"] == [[10, 20], [30, 100]]
    assert drawn["blocked"]["z"] == [[0, 0], [0, 40]]
    assert drawn["rate"]["z"] == [[1234, 0.13], [0, 0]]
    assert drawn["queue"]["z"] == [[3, 3], [0, 0]]
    assert all(trace["x"] == [0.0, 8.0, 10.0] for trace in drawn.values())


def test_busy_time_is_shown_and_the_others_can_be(builder: ModuleType, uneven: Any) -> None:
    chart = chart_of(builder, uneven, 2)
    assert [name for name, trace in maps(chart).items() if trace["visible"]] == ["busy"]
    for name in maps(chart):
        assert f'value="{name}"' in chart.controls
    assert chart.controls.count(" checked") == 1


def test_every_scale_starts_at_nothing_and_names_its_unit(builder: ModuleType, uneven: Any) -> None:
    drawn = maps(chart_of(builder, uneven, 2))
    units = {name: trace["colorbar"]["title"]["text"] for name, trace in drawn.items()}
    assert units == {
        "busy": "% of time", "blocked": "% of time", "rate": "records/s", "queue": "buffers"
    }  # fmt: skip
    assert all(trace["zmin"] == 0 for trace in drawn.values())
    assert (drawn["busy"]["zmax"], drawn["rate"]["zmax"], drawn["queue"]["zmax"]) == (
        100, 1234.5, 10
    )  # fmt: skip
    assert {trace["colorscale"] for trace in drawn.values()} == {"Cividis"}


def test_a_column_of_several_samples_is_their_mean_over_time(
    builder: ModuleType, uneven: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(heat, "MOST_COLUMNS", 1)
    monkeypatch.setattr(heat, "LEAST_COLUMNS", 1)
    chart = chart_of(builder, uneven, 2)
    assert maps(chart)["busy"]["z"] == [[12], [44]]
    assert maps(chart)["busy"]["x"] == [0.0, 10.0]
    assert "A column is the mean of 2 samples." in chart.explanation


def test_subtasks_that_share_a_row_show_the_largest_of_them(
    builder: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(heat, "MOST_ROWS", 2)
    run = builder.Results([1.0]).stage("source")
    for subtask, busy in enumerate([0, 100, 300, 200, 500]):
        run.stage("sink", subtask, busy_ms_per_s=busy)
    chart = chart_of(builder, run, 5)
    busy = maps(chart)["busy"]
    assert busy["z"] == [[30], [50]]
    assert (busy["y0"], busy["dy"]) == (1.0, 3)
    assert "up to 3 neighbours share a row" in chart.explanation


def test_a_job_without_parallel_stages_has_no_map(experiment: Any, empty: Any) -> None:
    assert heat_charts(RunData.of(experiment.tables, experiment.scenario)) == []
    assert heat_charts(RunData.of(empty.tables, empty.scenario)) == []


def test_a_stage_of_one_subtask_is_left_out_and_named_so(builder: ModuleType, uneven: Any) -> None:
    chart = chart_of(builder, uneven, 2)
    (caption,) = chart.figure["layout"]["annotations"]
    assert caption["text"] == "sink, 2 subtasks"
    assert chart.explanation.endswith("A stage of one subtask has no map.")


def test_the_maps_of_a_job_stand_above_each_other(fan: Any) -> None:
    (chart,) = heat_charts(RunData.of(fan.tables, fan.scenario))
    layout = chart.figure["layout"]
    domains = [axis["domain"] for key, axis in layout.items() if key.startswith("yaxis")]
    assert len(domains) == 5
    edges = [end for low, high in domains for end in (high, low)]
    assert edges == sorted(edges, reverse=True)
    assert 0 <= edges[-1] <= edges[0] <= 1


def test_200_subtasks_in_four_stages_stay_small(synthetic: ModuleType) -> None:
    edges = [("a", "b")]
    tables, scenario = synthetic.job(edges, parallelism=2, samples=2000)
    (chart,) = heat_charts(RunData.of(tables, scenario))
    assert len(maps(chart)["busy"]["z"][0]) <= heat.MOST_COLUMNS
    assert columns_for(200 * 4 * 4) == 93
    cells = 200 * 4 * 4 * columns_for(200 * 4 * 4)
    a_cell = len(json.dumps(chart.figure["data"])) / sum(
        len(trace["z"]) * len(trace["z"][0]) for trace in chart.figure["data"]
    )
    assert cells * a_cell < 3_000_000


@given(st.integers(2, 8 * 4 * heat.MOST_ROWS))
def test_all_rows_of_a_page_keep_to_the_limit(rows: int) -> None:
    columns = columns_for(rows)
    assert heat.LEAST_COLUMNS <= columns <= heat.MOST_COLUMNS
    assert columns == heat.LEAST_COLUMNS or rows * columns <= MOST_CELLS
