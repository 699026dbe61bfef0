"""What each chart draws, against the tables it was made from."""

from __future__ import annotations

from typing import Any

import plotly.graph_objects as go
import pytest

from flowcontrol.report.charts import all_charts
from flowcontrol.report.figures import Chart, figure
from flowcontrol.report.rundata import RunData

IDS = ["rates", "channels", "in-flight", "pools", "shares", "latency"]


def charts_of(run: Any) -> dict[str, Chart]:
    data = RunData.of(run.tables, run.scenario, run.summary["bottleneck"])
    return {chart.id: chart for chart in all_charts(data)}


def traces(chart: Chart, name: str) -> list[dict[str, Any]]:
    return [trace for trace in chart.figure["data"] if trace["name"] == name]


@pytest.fixture(scope="module")
def charts(experiment: Any) -> dict[str, Chart]:
    return charts_of(experiment)


@pytest.mark.parametrize("name", ["experiment", "fan", "large", "hostile"])
def test_plotly_takes_every_figure(name: str, request: pytest.FixtureRequest) -> None:
    drawn = charts_of(request.getfixturevalue(name))
    assert list(drawn) == IDS
    for chart in drawn.values():
        assert len(go.Figure(chart.figure).data) == len(chart.figure["data"]) > 0


@pytest.mark.parametrize("name", ["experiment", "fan", "large"])
def test_every_axis_has_a_unit_and_every_chart_says_how_to_read_it(
    name: str, request: pytest.FixtureRequest
) -> None:
    for chart in charts_of(request.getfixturevalue(name)).values():
        layout = chart.figure["layout"]
        assert layout["xaxis"]["title"]["text"] == "emulated time (s)"
        value_axes = [axis for key, axis in layout.items() if key.startswith("yaxis")]
        assert value_axes
        for axis in value_axes:
            assert axis["title"]["text"] or axis["ticksuffix"] == " %"
        assert chart.explanation.endswith(".")
        assert len(chart.explanation) > 80


def test_rates_of_producer_and_consumer_with_what_they_could(charts: dict[str, Chart]) -> None:
    chart = charts["rates"]
    (emits,) = traces(chart, "producer emits")
    assert emits["y"][1:21] == [600.0] * 20
    assert emits["y"][31:41] == [300.0] * 10
    (able,) = traces(chart, "consumer could")
    assert able["x"] == [0.0, 20.0, 40.0, 60.0, 80.0, 100.0]
    assert able["y"] == [1200.0, 300.0, 1200.0, 300.0, 1200.0, 1200.0]
    assert able["line"]["shape"] == "hv"
    assert emits["line"]["shape"] == "vh"


def test_the_changes_of_phase_are_vertical_lines_in_every_chart(charts: dict[str, Chart]) -> None:
    for chart in charts.values():
        shapes = chart.figure["layout"]["shapes"]
        assert [shape["x0"] for shape in shapes] == [20.0, 40.0, 60.0, 80.0]
        assert all(shape["x0"] == shape["x1"] for shape in shapes)


def test_credit_and_backlog_stand_above_each_other(charts: dict[str, Chart]) -> None:
    credit, backlog = traces(charts["channels"], "producer-&gt;consumer [0 to 0]")
    assert (credit["yaxis"], backlog["yaxis"]) == ("y", "y2")
    assert credit["y"][30] == 0.0
    assert backlog["y"][30] == 26.0
    assert [credit["showlegend"], backlog["showlegend"]] == [True, False]


def test_in_flight_is_drawn_with_what_the_pools_hold(charts: dict[str, Chart]) -> None:
    buffers, records = traces(charts["in-flight"], "producer-&gt;consumer")
    assert max(buffers["y"]) == 52.0
    assert max(records["y"]) == 52.0 * 20
    (room,) = traces(charts["in-flight"], "producer-&gt;consumer can hold")
    assert room["y"] == [52.0, 52.0]


def test_pools_are_in_per_cent_and_only_where_there_are_any(charts: dict[str, Chart]) -> None:
    (producer,) = traces(charts["pools"], "producer")
    (consumer,) = traces(charts["pools"], "consumer")
    assert (consumer["yaxis"], producer["yaxis"]) == ("y", "y2")
    assert max(consumer["y"]) == 100.0
    assert producer["showlegend"]
    assert consumer["showlegend"]


def test_time_shares_fill_up_and_blocked_is_hatched(charts: dict[str, Chart]) -> None:
    chart = charts["shares"]
    layers = [trace for trace in chart.figure["data"] if trace["yaxis"] == "y"]
    assert [trace["name"] for trace in layers] == ["busy", "blocked", "idle"]
    assert [trace["fillpattern"]["shape"] for trace in layers] == ["", "/", ""]
    for index in (10, 30, 70):
        assert sum(trace["y"][index] for trace in layers) == pytest.approx(100.0)
    captions = [note["text"] for note in chart.figure["layout"]["annotations"]]
    assert captions == ["producer", "consumer"]


def test_latency_has_a_line_for_each_percentile(charts: dict[str, Chart]) -> None:
    data = charts["latency"].figure["data"]
    assert [trace["name"] for trace in data] == ["p50", "p90", "p99"]
    assert len({trace["line"]["dash"] for trace in data}) == 3
    assert data[0]["y"][30] <= data[1]["y"][30] <= data[2]["y"][30]


def test_several_sinks_are_named_in_the_legend(fan: Any) -> None:
    names = {trace["name"] for trace in charts_of(fan)["latency"].figure["data"]}
    assert names == {f"{sink} {p}" for sink in ("store", "sink") for p in ("p50", "p90", "p99")}


def test_subtasks_of_a_sink_are_combined_sample_by_sample(fan: Any) -> None:
    (p50,) = traces(charts_of(fan)["latency"], "sink p50")
    assert p50["y"] == [80.0, *(80.0 + sample for sample in range(20))]


def test_rates_add_the_subtasks(fan: Any) -> None:
    (emits,) = traces(charts_of(fan)["rates"], "left emits")
    assert emits["y"][1] == 2 * 3000
    (able,) = traces(charts_of(fan)["rates"], "left could")
    assert able["y"] == [20000.0, 20000.0]


def test_of_many_channels_the_fullest_and_the_typical_are_drawn(fan: Any) -> None:
    chart = charts_of(fan)["channels"]
    assert len([t for t in chart.figure["data"] if t["yaxis"] == "y"]) == 6
    (_credit, backlog) = traces(chart, "median of all")
    picked = [t for t in chart.figure["data"] if t["yaxis"] == "y2"][:5]
    assert [trace["y"][0] for trace in picked] == [8.0, 8.0, 8.0, 8.0, 7.0]
    assert backlog["y"][0] == 6.5
    assert "Of the 16 channels the 5 with the largest backlog are drawn" in chart.explanation


def test_of_many_stages_the_ends_and_the_limit_are_drawn(large: Any) -> None:
    charts = charts_of(large)
    shown = [note["text"] for note in charts["shares"].figure["layout"]["annotations"]]
    assert len(shown) == 8
    assert shown == sorted(shown)
    assert {"stage-00", "stage-11", large.summary["bottleneck"]} <= set(shown)
    assert "Of the 12 stages 8 are drawn" in charts["shares"].explanation
    assert "The 8 fullest edges are drawn, 3 are left out." in charts["in-flight"].explanation


def test_nothing_is_said_to_be_left_out_when_all_is_drawn(charts: dict[str, Chart]) -> None:
    for chart in charts.values():
        assert "drawn, " not in chart.explanation
        assert " are drawn" not in chart.explanation.replace("sources are drawn thick", "")


def test_names_cannot_be_markup_in_a_chart(hostile: Any) -> None:
    for chart in charts_of(hostile).values():
        for trace in chart.figure["data"]:
            assert "<" not in trace["name"]
        for note in chart.figure["layout"]["annotations"]:
            assert "<" not in note["text"]


def test_a_run_without_samples_draws_no_measured_line(empty: Any) -> None:
    for chart in charts_of(empty).values():
        for trace in chart.figure["data"]:
            assert trace["name"] == "full" or trace["x"] == trace["y"] == []


@pytest.mark.parametrize(("count", "last"), [(1, "y"), (2, "y2"), (8, "y8")])
def test_plots_above_each_other_share_the_time_axis_below(count: int, last: str) -> None:
    names = [str(row) for row in range(count)]
    layout = figure([], [{} for _ in names], until_s=1, captions=names)["layout"]
    assert (layout["grid"]["rows"], layout["grid"]["columns"]) == (count, 1)
    assert layout["xaxis"]["anchor"] == last
    assert layout["annotations"][-1]["yref"] == f"{last} domain"
