"""The static picture: well formed, complete, and the same for the same run."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture
def parsed(drawing: Any) -> Callable[[Any], ElementTree.Element]:
    """Return a function that draws a run and reads the drawing."""
    return lambda run: ElementTree.fromstring(drawing.picture(run.tables, run.scenario))


def texts(root: ElementTree.Element) -> list[str]:
    return [node.text or "" for node in root.iter(f"{SVG}text")]


def polyline(node: ElementTree.Element) -> list[tuple[float, float]]:
    pairs = (point.split(",") for point in node.get("points", "").split())
    return [(float(x), float(y)) for x, y in pairs]


def test_it_names_its_lines_its_axes_and_their_units(parsed: Any, experiment: Any) -> None:
    shown = texts(parsed(experiment))
    for name in ("producer", "producer could", "consumer", "producer->consumer"):
        assert name in shown
    assert {"records per second", "buffers in flight", "emulated time (s)"} <= set(shown)
    assert {"1,000", "100", "producer->consumer can hold"} <= set(shown)


def test_the_changes_of_phase_are_marked_in_both_plots(parsed: Any, experiment: Any) -> None:
    lines = [n for n in parsed(experiment).iter(f"{SVG}line") if n.get("x1") == n.get("x2")]
    assert len(lines) == 8
    assert len({node.get("x1") for node in lines}) == 4


def test_rates_rise_where_the_interval_starts(parsed: Any, experiment: Any) -> None:
    lines = [polyline(node) for node in parsed(experiment).iter(f"{SVG}polyline")]
    assert len(lines) == 6
    for line in lines[:4]:
        assert all(x == next_x or y == next_y for (x, y), (next_x, next_y) in pairs(line))


def pairs(line: list[Any]) -> list[tuple[Any, Any]]:
    return list(itertools.pairwise(line))


@pytest.mark.parametrize("name", ["experiment", "fan", "large", "hostile"])
def test_nothing_leaves_the_picture(parsed: Any, name: str, request: pytest.FixtureRequest) -> None:
    root = parsed(request.getfixturevalue(name))
    width, height = float(root.get("width", 0)), float(root.get("height", 0))
    for node in root.iter(f"{SVG}polyline"):
        for x, y in polyline(node):
            assert 0 <= x <= width
            assert 0 <= y <= height
    for node in root.iter(f"{SVG}text"):
        assert 0 <= float(node.get("x", -1)) <= width
        assert 0 <= float(node.get("y", -1)) <= height


def test_a_long_legend_takes_more_rows(parsed: Any, fan: Any, large: Any) -> None:
    assert float(parsed(large).get("height", 0)) > float(parsed(fan).get("height", 0))


def test_names_are_text_and_not_markup(parsed: Any, drawing: Any, hostile: Any) -> None:
    assert "<b>x</b>" in texts(parsed(hostile))
    assert "<b>" not in drawing.picture(hostile.tables, hostile.scenario)


def test_the_same_run_gives_the_same_picture(drawing: Any, experiment: Any, synthetic: Any) -> None:
    assert drawing.picture(*synthetic.experiment()) == drawing.picture(
        experiment.tables, experiment.scenario
    )


def test_a_run_without_samples_is_an_empty_picture(parsed: Any, empty: Any) -> None:
    root = parsed(empty)
    measured = [node for node in root.iter(f"{SVG}polyline") if not node.get("stroke-dasharray")]
    assert measured == []


@pytest.mark.parametrize(
    ("peak", "at_most", "expected"),
    [
        (100, 10, [0, 10, 20, 30, 40, 50, 60, 70, 80, 90, 100]),
        (100, 5, [0, 20, 40, 60, 80, 100]),
        (1260, 5, [0, 500, 1000]),
        (0.5, 5, [0, 0.1, 0.2, 0.3, 0.4, 0.5]),
        (0, 5, [0]),
    ],
)
def test_ticks(drawing: Any, peak: float, at_most: int, expected: list[float]) -> None:
    assert drawing.ticks(peak, at_most) == expected


@given(st.floats(1e-6, 1e12), st.integers(1, 12))
def test_ticks_are_few_even_and_within_the_axis(drawing: Any, peak: float, at_most: int) -> None:
    values = drawing.ticks(peak, at_most)
    assert values[0] == 0
    assert 1 <= len(values) <= at_most + 1
    assert values[-1] <= peak * (1 + 1e-6)
    steps = [b - a for a, b in itertools.pairwise(values)]
    assert all(step == pytest.approx(steps[0], rel=1e-6) for step in steps)
