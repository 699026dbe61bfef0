"""Charts: which one for how many keys, and that each shows its numbers with units."""

from __future__ import annotations

import importlib
import json

import plotly.graph_objects as go
import pytest

from flowcontrol.experiments.sweep.metric import read_metrics
from flowcontrol.experiments.sweep.page import dimensions, sweep_charts
from flowcontrol.report.figures import BLUE, VERMILLION
from flowcontrol.scenario import parse_scenario

SINK = "stages.sink.service_rate"
MAP = "stages.map.service_rate"
SOURCE = "stages.source.emit_rate"
SIZE = "options.taskmanager.memory.segment-size"
SAFE = {"#0072B2", "#D55E00", "#009E73", "#E69F00", "#CC79A7", "#56B4E9"}


@pytest.fixture
def charts(plan, chain, fakes):
    """A function that draws a sweep whose rate is a function of its point."""
    made_table = importlib.import_module("results").made_table

    def draw(vary, rate=lambda *point: point[0], *, texts=("sink.rate_in",), table=None, **more):
        made = plan(vary, **more)
        metrics = read_metrics(texts, parse_scenario(chain))
        drawn = sweep_charts(made_table(made, rate, **(table or {})), made, metrics)
        json.dumps([chart.figure for chart in drawn], allow_nan=False)  # or a browser fails
        return drawn

    return draw


def test_one_key_is_a_line_with_error_bars(charts):
    (chart,) = charts({SINK: [10, 30, 20]}, replications=4)
    line, dots = chart.figure["data"]
    assert (line["mode"], dots["mode"]) == ("lines", "markers")
    assert (dots["x"], dots["y"]) == ([10, 30, 20], [11.5, 31.5, 21.5])
    # 0, 1, 2 and 3 deviate by 1.291; t for three degrees of freedom is 3.182.
    assert dots["error_y"]["array"] == pytest.approx([3.182 * 1.29099 / 2] * 3, rel=1e-4)
    assert "4 replications" in chart.explanation
    assert "95 % confidence interval" in chart.explanation


def test_one_replication_has_no_error(charts):
    (chart,) = charts({SINK: [10, 20]})
    assert "error_y" not in chart.figure["data"][1]
    assert "confidence" not in chart.explanation


def test_axes_carry_units(charts):
    (chart,) = charts({SINK: [10, 20]})
    layout = chart.figure["layout"]
    assert layout["xaxis"]["title"]["text"] == "sink service_rate (records/s per subtask)"
    assert (chart.title, layout["yaxis"]["title"]["text"]) == ("sink.rate_in", "records/s")
    chart, _ = charts({SINK: [10, 20], MAP: [1, 2]})
    bar = chart.figure["layout"]["coloraxis"]["colorbar"]
    assert bar["title"]["text"] == "records/s, high is good (blue)"


@pytest.mark.parametrize("count", [1, 4])
def test_no_title_is_longer_than_its_vertical_axis(charts, count):
    """A letter is about 7 px wide; plotly clips a title that does not fit."""
    vary = {SINK: [10, 20], MAP: [1, 2, 3], SOURCE: [5, 6], SIZE: "4kb,8kb"}
    for text in ("sink.latency_p99_ms_second_half", "sink.floating_buffers_usage_second_half"):
        chart = charts(dict(list(vary.items())[:count]), texts=(text,))[-1]
        layout = chart.figure["layout"]
        height = layout["height"] - layout["margin"]["t"] - layout["margin"]["b"]
        assert 7 * len(layout["yaxis"]["title"]["text"]) < height
        assert text in chart.title


def test_a_point_is_marked_by_what_limits_there(charts):
    limits = {10: "map", 20: "sink", 30: "map", 40: ""}
    (chart,) = charts({SINK: list(limits)}, table={"limit": limits.get})
    marked = {dots["name"]: dots["x"] for dots in chart.figure["data"][1:]}
    assert marked == {"map limits": [10, 30], "sink limits": [20], "nothing limits": [40]}
    styles = {(d["marker"]["color"], d["marker"]["symbol"]) for d in chart.figure["data"][1:]}
    assert len(styles) == 3
    assert {colour for colour, _ in styles} <= SAFE


def test_texts_stand_in_their_order_and_are_not_joined(charts):
    (chart,) = charts({SIZE: "32kb,4kb"}, lambda _: 1.0)
    assert [trace["mode"] for trace in chart.figure["data"]] == ["markers"]
    assert chart.figure["layout"]["xaxis"]["categoryarray"] == ["32kb", "4kb"]


@pytest.mark.parametrize(
    ("values", "kind"),
    [([1, 2, 4, 8], "log"), ([1, 2, 3], "linear"), ([0, 1, 10], "linear"), ([1, 100], "linear")],
)
def test_multiples_are_drawn_on_a_logarithmic_axis(charts, values, kind):
    (chart,) = charts({SINK: values})
    assert chart.figure["layout"]["xaxis"]["type"] == kind


def test_two_keys_are_a_heat_map(charts):
    chart, limits = charts({SINK: [10, 20], MAP: [1, 2, 3]}, lambda x, y: x + y)
    (heat,) = chart.figure["data"]
    assert heat["type"] == "heatmap"
    # The key with more values goes across.
    assert heat["z"] == [[11, 12, 13], [21, 22, 23]]
    assert chart.figure["layout"]["coloraxis"]["colorscale"][-1] == [1, BLUE]
    assert chart.figure["layout"]["xaxis"]["ticktext"] == ["1", "2", "3"]
    assert heat["text"] == [["11", "12", "13"], ["21", "22", "23"]]
    assert limits.title == "What limits"
    assert sum(len(dots["x"]) for dots in limits.figure["data"]) == 6


@pytest.mark.parametrize(
    ("text", "low", "high", "words"),
    [
        ("sink.latency_p99_ms", BLUE, VERMILLION, "ms, low is good (blue)"),
        ("sink.rate_in_second_half", VERMILLION, BLUE, "records/s, high is good (blue)"),
    ],
)
@pytest.mark.parametrize(("sizes", "sample"), [("4kb", None), ("4kb", 3), ("4kb,8kb", None)])
def test_colours_run_from_the_good_end_to_the_bad_one(
    charts, text, low, high, words, sizes, sample
):
    """In a heat map, in dots that were drawn, in heat maps side by side."""
    vary = {SINK: [10, 20], MAP: [1, 2, 3], SIZE: sizes}
    colours = charts(vary, texts=(text,), sample=sample)[0].figure["layout"]["coloraxis"]
    assert (colours["colorscale"][0], colours["colorscale"][-1]) == ([0, low], [1, high])
    assert colours["colorbar"]["title"]["text"] == words


@pytest.mark.parametrize(
    ("text", "best", "words"),
    [("sink.latency_p99_ms", 0, "low is good"), ("sink.rate_in", -1, "high is good")],
)
def test_ribbons_run_from_the_good_end_to_the_bad_one(charts, text, best, words):
    vary = {SINK: [10, 20], MAP: [1, 2, 3], SOURCE: [5, 6], SIZE: "4kb,8kb"}
    ribbons, _ = charts(vary, lambda x, *_: x, texts=(text,))
    colours = ribbons.figure["layout"]["coloraxis"]
    scale = [colour for _, colour in colours["colorscale"]]
    assert (scale[best], scale[-1 - best]) == (BLUE, VERMILLION)
    assert words in colours["colorbar"]["title"]["text"]


def test_a_cell_without_a_value_is_empty(charts):
    chart, limits = charts(
        {SINK: [10, 20], MAP: [1, 2, 3]},
        lambda x, y: None if y == 1 else x + y,
        table={"left_out": lambda x, y: (x, y) == (20, 3)},
    )
    assert chart.figure["data"][0]["z"] == [[None, 12, 13], [None, 22, None]]
    assert sum(len(dots["x"]) for dots in limits.figure["data"]) == 5


@pytest.mark.parametrize(("width", "has_texts"), [(60, True), (61, False)])
def test_small_heat_maps_carry_their_numbers(charts, width, has_texts):
    chart, _ = charts({SINK: f"1:{width}:{width}", MAP: "1,2"})
    assert ("text" in chart.figure["data"][0]) == has_texts


def test_many_even_numbers_stand_on_an_axis_of_numbers(charts):
    chart, _ = charts({SINK: "1000:10000:50", MAP: [1, 2]})
    assert chart.figure["data"][0]["x"][:2] == [1000, 1183.67]
    assert chart.figure["layout"]["xaxis"]["type"] == "linear"
    assert "tickvals" not in chart.figure["layout"]["xaxis"]


def test_three_keys_are_a_heat_map_for_each_value_of_the_shortest(charts):
    (chart,) = charts({SINK: [1, 2, 3], MAP: [10, 20, 30, 40], SIZE: "4kb,8kb"},
                      lambda x, y, size: x + y + (size == "8kb"))  # fmt: skip
    left, right = chart.figure["data"]
    assert left["z"] == [[11, 21, 31, 41], [12, 22, 32, 42], [13, 23, 33, 43]]
    assert right["z"][0] == [12, 22, 32, 42]
    captions = [note["text"] for note in chart.figure["layout"]["annotations"]]
    assert captions == ["segment-size = 4kb", "segment-size = 8kb"]
    assert (left["coloraxis"], right["coloraxis"]) == ("coloraxis", "coloraxis")
    assert (left["xaxis"], right["xaxis"]) == ("x", "x2")


@pytest.mark.parametrize(("count", "kind"), [(9, "facets"), (10, "lines")])
def test_too_many_facets_become_lines(charts, count, kind):
    values = f"1:{count}:{count}"
    drawn = charts({SINK: values, MAP: values, SOURCE: values})
    assert drawn[0].id.startswith(kind)


def columns_of(chart):
    """Return the names of the places of each column, from the bottom."""
    found = {}
    for note in chart.figure["layout"]["annotations"]:
        if note.get("yref") != "paper":
            found.setdefault(note["x"], []).append(note["text"])
    return [names for _, names in sorted(found.items())]


def ribbons_of(chart):
    """Return the colour of each ribbon with the heights at which it passes the columns."""
    found = []
    for trace in chart.figure["data"][:-1]:
        apart = trace["x"].index(None)
        for at in range(0, len(trace["x"]), apart + 1):
            assert trace["x"][at : at + apart + 1] == [*range(apart), None]
            assert trace["y"][at + apart] is None
            found.append((trace["line"]["color"], tuple(trace["y"][at : at + apart])))
    return found


def test_four_keys_are_ribbons_across_a_column_each(charts):
    vary = {SINK: [10, 20], MAP: [1, 2, 3], SOURCE: [5, 6], SIZE: "4kb,8kb"}
    chart, effects = charts(vary, lambda x, *_: x)
    assert columns_of(chart)[:4] == [["10", "20"], ["1", "2", "3"], ["5", "6"], ["4kb", "8kb"]]
    assert columns_of(chart)[4] == [
        "10 to 12", "12 to 14", "14 to 16", "16 to 18", "18 to 20"
    ]  # fmt: skip
    ribbons = ribbons_of(chart)
    assert len(ribbons) == len(set(ribbons)) == 24
    # The rate is that of the sink: its lower half ends in the lowest band, in the bad colour.
    ways = {(colour, heights[0] > 0.5, int(5 * heights[-1])) for colour, heights in ribbons}
    assert ways == {(VERMILLION, False, 0), (BLUE, True, 4)}
    # Each third of the map's column has a third of them, one above the other.
    mapped = sorted(heights[1] for _, heights in ribbons)
    assert [int(3 * height) for height in mapped] == [0] * 8 + [1] * 8 + [2] * 8
    assert len(set(mapped)) == 24
    assert chart.figure["data"][-1]["marker"]["color"] == [10, 20]
    titles = [n["text"] for n in chart.figure["layout"]["annotations"] if n.get("yref") == "paper"]
    assert titles[0] == "sink service_rate<br>(records/s per subtask)"
    assert titles[-1] == "sink.rate_in<br>(records/s)"
    assert len(effects.figure["data"]) == 4
    assert effects.figure["data"][0]["y"] == [10, 20]
    assert effects.figure["data"][1]["y"] == [15, 15, 15]
    assert effects.figure["data"][1]["error_y"]["array"] == [5, 5, 5]


def test_many_values_of_a_key_share_places_in_its_column(charts):
    chart, _ = charts({SINK: "1:50:50", MAP: [1, 2], SOURCE: [1, 2], SIZE: "4kb,8kb"})
    names = columns_of(chart)[0]
    assert (len(names), names[0], names[-1]) == (10, "1 to 5", "46 to 50")
    assert {int(10 * heights[0]) for _, heights in ribbons_of(chart)} == set(range(10))


def test_a_smear_of_ribbons_is_thinned_and_said_so(charts):
    chart, _ = charts({SINK: "1:50:50", MAP: "1:50:50", SOURCE: "1:50:50"}, sample=4001)
    assert len(ribbons_of(chart)) == 1334
    assert "2,667 points are left out" in chart.explanation


@pytest.mark.parametrize("mean", [None, 7.0])
def test_points_that_are_all_alike_have_a_colour_and_none_draw_nothing(charts, mean):
    chart, _ = charts({SINK: [1, 2], MAP: [1, 2], SOURCE: [5, 6], SIZE: "4kb,8kb"}, lambda *_: mean)
    assert bool(chart.figure["data"]) == (mean is not None)
    if mean is not None:
        assert columns_of(chart)[-1] == ["7"]
        assert len({colour for colour, _ in ribbons_of(chart)}) == 1


@pytest.mark.parametrize("count", [1, 2, 3, 4])
@pytest.mark.parametrize("sample", [None, 3])
def test_plotly_takes_every_figure(charts, count, sample):
    vary = {SINK: [10, 20, 40, 80], MAP: [1, 2], SOURCE: [5, 6], SIZE: "4kb,8kb"}
    for chart in charts(dict(list(vary.items())[:count]), sample=sample):
        go.Figure(chart.figure)


def test_points_that_were_drawn_are_dots(charts):
    chart, limits = charts({SINK: "1:50:50", MAP: "1:50:50"}, sample=20)
    (dots,) = chart.figure["data"]
    assert dots["mode"] == "markers"
    assert len(dots["x"]) == 20
    assert dots["marker"]["color"] == dots["y"] or dots["marker"]["color"] == dots["x"]
    assert limits.id == "bottleneck"


def test_a_key_with_one_value_is_no_dimension(plan, charts):
    made = plan({SINK: [1], MAP: [1, 2]})
    assert [varied.label for varied in dimensions(made)] == ["map service_rate"]
    assert charts({SINK: [1], MAP: [1, 2]})[0].id.startswith("line")
    assert charts({SINK: [1]})[0].id.startswith("line")


def test_every_metric_is_drawn_and_every_id_is_an_own_one(charts):
    drawn = charts({SINK: [1, 2], MAP: [1, 2]}, texts=("sink.rate_in", "sink.latency_p99_ms"))
    ids = [chart.id for chart in drawn]
    assert ids == ["heat-sink-rate-in", "heat-sink-latency-p99-ms", "bottleneck"]


@pytest.mark.parametrize("count", [1, 2, 3, 4])
def test_a_metric_without_any_value_is_drawn_empty(charts, count):
    keys = [SINK, MAP, SOURCE, SIZE][:count]
    vary = {key: ("4kb,8kb" if key == SIZE else [1, 2]) for key in keys}
    assert charts(vary, lambda *_: None)


def test_markup_in_a_name_is_no_markup(charts):
    (chart,) = charts({SINK: [1, 2]}, table={"limit": lambda _: "<b>"})
    assert chart.figure["data"][1]["name"] == "&lt;b&gt; limits"
