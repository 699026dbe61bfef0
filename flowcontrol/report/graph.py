"""The job graph as inline SVG: a box per stage, coloured by pressure, with its figures.

Colours of text and lines come from the page's classes, so the graph follows its theme. The colour
of a status is fixed and carries dark text, which names the status as well.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from flowcontrol.analysis.pressure import Pressure
from flowcontrol.report.colours import PRESSURE_COLOURS
from flowcontrol.report.layout import NODE_HEIGHT, NODE_WIDTH, layered
from flowcontrol.report.numbers import percent, rate
from flowcontrol.report.svg import coordinate, element, text

if TYPE_CHECKING:
    from flowcontrol.scenario import Edge, Scenario, Stage

_HEADER = 26.0
_PADDING = 11.0
_LINE = 19.0
_LEAST_SCALE = 0.8
"""Smallest scale of the graph on a narrow page, which then scrolls."""

_NAME_LETTERS = 20
"""Characters of a name that fit into a box; the whole name is in its tooltip."""


def job_graph(summary: Mapping[str, Any], scenario: Scenario) -> str:
    """Return the job graph with the figures of the whole run.

    Parameters
    ----------
    summary : mapping
        From :func:`flowcontrol.analysis.summarise`.
    scenario : Scenario
        Its stages and edges are drawn, from left to right by depth.

    Returns
    -------
    str
        An ``svg`` element; it needs the classes of ``page.css``.
    """
    names = [stage.name for stage in scenario.topological()]
    ends = [(edge.sender, edge.receiver) for edge in scenario.edges]
    layout = layered(names, ends)
    edges = [
        _edge(edge, route, is_limit=edge.name == summary["bottleneck_detail"]["edge"])
        for edge, route in zip(scenario.edges, layout.edges, strict=True)
    ]
    nodes = [
        _node(stage, summary, scenario, *layout.nodes[stage.name])
        for stage in scenario.topological()
    ]
    return element(
        "svg",
        element("title", text(f"Job graph of {scenario.name}")),
        _arrow_head(),
        *edges,
        *nodes,
        class_="graph",
        role="img",
        width=layout.width,
        height=layout.height,
        style=f"min-width:{_LEAST_SCALE * layout.width:.0f}px",
        viewBox=f"0 0 {coordinate(layout.width)} {coordinate(layout.height)}",
    )


def _node(stage: Stage, summary: Mapping[str, Any], scenario: Scenario, x: float, y: float) -> str:
    """Return the box of one stage."""
    figures = summary["stages"][stage.name]
    pressure = Pressure(figures["pressure"])
    is_limit = summary["bottleneck"] == stage.name
    lines = [
        _line(content, y + _HEADER + 20 + _LINE * (number + 1), x)
        for number, content in enumerate(_figures(stage, figures, scenario))
    ]
    return element(
        "g",
        element("title", text(f"{stage.name}: {_status(pressure, figures)}")),
        element(
            "rect",
            class_="node limit" if is_limit else "node",
            x=x,
            y=y,
            width=NODE_WIDTH,
            height=NODE_HEIGHT,
            rx=8,
        ),
        _header(pressure, _status(pressure, figures), x, y),
        element(
            "text",
            text(_shortened(stage.name)),
            class_="name",
            x=x + _PADDING,
            y=y + _HEADER + 20,
        ),
        *lines,
    )


def _header(pressure: Pressure, status: str, x: float, y: float) -> str:
    """Return the coloured band at the top of a box with the status in words."""
    corner, right, bottom = 8.0, x + NODE_WIDTH, y + _HEADER
    band = (
        f"M{coordinate(x)} {coordinate(bottom)} V{coordinate(y + corner)} "
        f"q0 {-corner:g} {corner:g} {-corner:g} H{coordinate(right - corner)} "
        f"q{corner:g} 0 {corner:g} {corner:g} V{coordinate(bottom)} Z"
    )
    return element("path", d=band, fill=PRESSURE_COLOURS[pressure]) + element(
        "text", text(status), class_="status", x=x + _PADDING, y=y + 18
    )


def _status(pressure: Pressure, figures: Mapping[str, Any]) -> str:
    """Return the status with the figure that decides it: the worst subtask's."""
    blocked = figures["whole"]["worst_backpressured_ms_per_s"] / 1000
    return f"{pressure.value} · blocked {percent(blocked)}"


def _figures(stage: Stage, figures: Mapping[str, Any], scenario: Scenario) -> list[str]:
    """Return the lines under a stage's name."""
    whole = figures["whole"]
    noun = "subtask" if stage.parallelism == 1 else "subtasks"
    lines = [f"{stage.parallelism:,} {noun}, busy {percent(whole['busy_ms_per_s'] / 1000)}"]
    if scenario.inputs(stage.name):
        lines.append(f"in {rate(whole['rate_in'])}")
    if scenario.outputs(stage.name):
        lines.append(f"out {rate(whole['rate_out'])}")
    return lines


def _line(content: str, y: float, x: float) -> str:
    return element("text", text(content), class_="figure", x=x + _PADDING, y=y)


def _edge(edge: Edge, route: list[tuple[float, float]], *, is_limit: bool) -> str:
    """Return the curve of one edge with its partitioner beside it."""
    (x, y), *rest = route
    path = f"M{coordinate(x)} {coordinate(y)}"
    for to_x, to_y in rest:
        middle = coordinate((x + to_x) / 2)
        path += f" C{middle} {coordinate(y)} {middle} {coordinate(to_y)} {coordinate(to_x)} "
        path += coordinate(to_y)
        x, y = to_x, to_y
    (from_x, from_y), (to_x, to_y) = route[0], route[1]
    return element(
        "g",
        element("title", text(f"{edge.name}, {edge.partitioner}")),
        element(
            "path", d=path, class_="edge limit" if is_limit else "edge", marker_end="url(#arrow)"
        ),
        element(
            "text",
            text(edge.partitioner),
            class_="partitioner",
            x=(from_x + to_x) / 2,
            y=(from_y + to_y) / 2 - 6,
            text_anchor="middle",
        ),
    )


def _arrow_head() -> str:
    """Return the marker at the end of every edge."""
    return element(
        "defs",
        element(
            "marker",
            element("path", d="M0 0 L10 5 L0 10 z", class_="arrow"),
            id="arrow",
            viewBox="0 0 10 10",
            refX=9,
            refY=5,
            markerWidth=8,
            markerHeight=8,
            orient="auto",
        ),
    )


def _shortened(name: str) -> str:
    """Return a name that fits into a box."""
    return name if len(name) <= _NAME_LETTERS else name[: _NAME_LETTERS - 1] + "…"
