"""The job graph: every stage and edge, its status in words and in colour."""

from __future__ import annotations

import re
from typing import Any
from xml.etree import ElementTree

import pytest

from flowcontrol.report.graph import CLOSE, DOWN, WIDE, Measures, job_graph, job_graphs
from flowcontrol.scenario import parse_scenario


def parsed(run: Any) -> ElementTree.Element:
    return ElementTree.fromstring(job_graph(run.summary, run.scenario))


def texts(root: ElementTree.Element, name: str) -> list[str]:
    return [node.text or "" for node in root.iter("text") if node.get("class") == name]


def classes(root: ElementTree.Element, tag: str) -> list[str]:
    return [node.get("class", "") for node in root.iter(tag)]


def test_every_stage_with_its_status_and_figures(experiment: Any) -> None:
    root = parsed(experiment)
    assert texts(root, "name") == ["producer", "consumer"]
    assert texts(root, "status") == ["LOW · blocked 21 %", "OK · blocked 0 %"]
    assert texts(root, "figure") == [
        "1 subtask, busy 4 %",
        "out 661 records/s",
        "1 subtask, busy 85 %",
        "in 661 records/s",
    ]


def test_statuses_have_their_colours(experiment: Any) -> None:
    fills = [node.get("fill") for node in parsed(experiment).iter("path") if node.get("fill")]
    assert fills == ["#E69F00", "#009E73"]


def test_high_pressure_is_vermillion(experiment: Any) -> None:
    stages = experiment.summary["stages"]
    whole = {**stages["producer"]["whole"], "worst_backpressured_ms_per_s": 510}
    producer = {**stages["producer"], "whole": whole}
    summary = {**experiment.summary, "stages": {**stages, "producer": producer}}
    drawn = job_graph(summary, experiment.scenario)
    assert "#D55E00" in drawn
    assert "HIGH · blocked" in drawn


def test_the_bottleneck_is_framed(experiment: Any) -> None:
    assert classes(parsed(experiment), "rect") == ["node", "node limit"]


def test_an_exchange_that_limits_is_marked(experiment: Any) -> None:
    detail = {**experiment.summary["bottleneck_detail"], "edge": "producer->consumer"}
    summary = {**experiment.summary, "bottleneck": None, "bottleneck_detail": detail}
    root = ElementTree.fromstring(job_graph(summary, experiment.scenario))
    assert classes(root, "rect") == ["node", "node"]
    assert "edge limit" in classes(root, "path")


@pytest.mark.parametrize("measures", [WIDE, CLOSE, DOWN])
@pytest.mark.parametrize("name", ["fan", "large"])
def test_each_way_shows_the_same_in_other_places(
    measures: Measures, name: str, request: pytest.FixtureRequest
) -> None:
    run = request.getfixturevalue(name)
    drawn = ElementTree.fromstring(job_graph(run.summary, run.scenario, measures))
    assert sorted("".join(drawn.itertext()).split()) == sorted(
        "".join(parsed(run).itertext()).split()
    )
    ends = [path.get("marker-end") for path in drawn.iter("path") if path.get("class") == "edge"]
    [marker] = drawn.iter("marker")
    assert set(ends) == {f"url(#{marker.get('id')})"}


def chain_of(run: Any, count: int) -> str:
    """Return the graphs of a chain of stages, each with the figures of a run's one."""
    stages = [
        {"name": f"s{n}", "service_rate": 9} if n else {"name": "s0", "emit_rate": 1}
        for n in range(count)
    ]
    edges = [
        {"from": f"s{n}", "to": f"s{n + 1}", "partitioner": "forward"} for n in range(count - 1)
    ]
    given = {"schema": 1, "name": "chain", "duration_s": 1, "stages": stages, "edges": edges}
    scenario = parse_scenario(given)
    [stage, *_], [edge] = run.summary["stages"].values(), run.summary["edges"].values()
    summary = run.summary | {
        "stages": {one.name: stage for one in scenario.stages},
        "edges": {one.name: edge for one in scenario.edges},
    }
    return job_graphs(summary, scenario)


@pytest.mark.parametrize(("count", "ways"), [(4, 2), (5, 2), (6, 1)])
def test_a_graph_from_left_to_right_is_there_where_it_can_be_read(
    experiment: Any, count: int, ways: int
) -> None:
    """On a page of 1,280 px it has 1,139; from top to bottom a chain has room on a telephone."""
    drawn = [
        ElementTree.fromstring(f"{text}</svg>")
        for text in chain_of(experiment, count).split("</svg>")[:-1]
    ]
    assert [one.get("class") for one in drawn] == ["graph across", "graph down"][-ways:]
    assert float(drawn[-1].get("width", 0)) < 364
    assert all(1139 / float(one.get("width", 0)) >= 0.79 for one in drawn)


def test_every_edge_with_its_partitioner(fan: Any) -> None:
    root = parsed(fan)
    assert classes(root, "path").count("edge") == len(fan.scenario.edges) == 4
    assert texts(root, "partitioner") == ["rebalance"] * 4
    assert len(texts(root, "name")) == 5


def test_names_are_escaped_and_long_ones_shortened_with_the_whole_in_a_tooltip(
    hostile: Any,
) -> None:
    root = parsed(hostile)
    assert texts(root, "name") == ["<b>x</b>", '"><script>alert(1)<…']
    titles = [node.text or "" for node in root.iter("title")]
    assert any(title.startswith('"><script>alert(1)</script>: OK') for title in titles)


@pytest.mark.parametrize("name", ["experiment", "fan", "large", "hostile", "empty"])
def test_everything_lies_inside_the_drawing(name: str, request: pytest.FixtureRequest) -> None:
    root = parsed(request.getfixturevalue(name))
    width, height = float(root.get("width", 0)), float(root.get("height", 0))
    for group in root.iter("g"):
        place = re.fullmatch(r"translate\((\S+) (\S+)\)", group.get("transform", "translate(0 0)"))
        assert place is not None
        for node in [*group.iter("rect"), *group.iter("text")]:
            x, y = (float(place[at]) + float(node.get("xy"[at - 1], -1)) for at in (1, 2))
            assert 0 <= x <= x + float(node.get("width", 0)) <= width
            assert 0 <= y <= y + float(node.get("height", 0)) <= height


def test_the_band_of_a_box_is_as_wide_as_the_box(experiment: Any) -> None:
    """The path of the band is drawn for one width; the layout decides it."""
    (group, *_) = (group for group in parsed(experiment).iter("g") if group.get("transform"))
    band, box = next(group.iter("path")), next(group.iter("rect"))
    (end,) = re.findall(r"H(\d+) q8", band.get("d", ""))
    assert int(end) + 8 == float(box.get("width", 0))


def test_texts_of_a_steep_edge_stand_beside_its_curve(fan: Any, experiment: Any) -> None:
    """Upper right and lower left where it falls, upper left and lower right where it rises."""
    sides = set()
    for group in parsed(fan).iter("g"):
        if group.find("path[@class='edge']") is None:
            continue
        above, below = (node.get("text-anchor") for node in [*group.iter("text")][:2])
        heights = [float(y) for y in re.findall(r"[M ]\S+ (\S+)", group.find("path").get("d"))]
        sides.add((above, below, heights[-1] > heights[0]))
    assert sides == {("start", "end", True), ("end", "start", False)}
    flat = {node.get("text-anchor") for node in parsed(experiment).iter("text")} - {None}
    assert flat == {"middle"}
