"""The job graph as inline SVG: a box per stage, coloured by pressure, with its figures.

It is drawn in ``graph.svg``, ``graph_node.svg`` and ``graph_edge.svg``. Colours of text and lines
come from the page's classes, so the graph follows its theme. The colour of a status is fixed and
carries dark text, which names the status as well.
"""

from collections.abc import Mapping
from html import escape
from string import Template
from typing import Any

from flowcontrol.analysis.pressure import Pressure
from flowcontrol.report.colours import PRESSURE_COLOURS
from flowcontrol.report.layout import NODE_HEIGHT, NODE_WIDTH, Point, layered
from flowcontrol.report.markup import asset
from flowcontrol.report.numbers import percent, rate
from flowcontrol.scenario import Edge, Scenario, Stage

_LEAST_SCALE = 0.8
"""Smallest scale of the graph on a narrow page, which then scrolls."""

_NAME_LETTERS = 20
"""Characters of a name that fit into a box; the whole name is in its tooltip."""

_FIRST_LINE, _LINE = 65, 19
"""Height of the first figure in a box, and of a line."""


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
    stages = scenario.topological()
    ends = [(edge.sender, edge.receiver) for edge in scenario.edges]
    layout = layered([stage.name for stage in stages], ends)
    edges = [
        _edge(edge, route, is_limit=edge.name == summary["bottleneck_detail"]["edge"])
        for edge, route in zip(scenario.edges, layout.edges, strict=True)
    ]
    nodes = [_node(stage, summary, scenario, layout.nodes[stage.name]) for stage in stages]
    return _drawn(
        "graph.svg",
        name=escape(scenario.name),
        width=f"{layout.width:.6g}",
        height=f"{layout.height:.6g}",
        least_width=f"{_LEAST_SCALE * layout.width:.0f}",
        edges="".join(edges),
        nodes="".join(nodes),
    )


def _drawn(file: str, /, **parts: str) -> str:
    """Return a drawing with its parts, which are escaped, filled in."""
    return Template(asset("flowcontrol.report", file)).substitute(parts)


def _node(stage: Stage, summary: Mapping[str, Any], scenario: Scenario, at: Point) -> str:
    """Return the box of one stage."""
    figures = summary["stages"][stage.name]
    pressure = Pressure(figures["pressure"])
    blocked = figures["whole"]["worst_backpressured_ms_per_s"] / 1000
    lines = [
        f'<text class="figure" x="11" y="{_FIRST_LINE + _LINE * number}">{escape(content)}</text>'
        for number, content in enumerate(_figures(stage, figures["whole"], scenario))
    ]
    return _drawn(
        "graph_node.svg",
        x=f"{at[0]:.6g}",
        y=f"{at[1]:.6g}",
        width=f"{NODE_WIDTH:g}",
        height=f"{NODE_HEIGHT:g}",
        name=escape(stage.name),
        shown=escape(_shortened(stage.name)),
        kind="node limit" if summary["bottleneck"] == stage.name else "node",
        colour=PRESSURE_COLOURS[pressure],
        status=f"{pressure.value} · blocked {percent(blocked)}",  # of the worst subtask
        figures="\n".join(lines),
    )


def _figures(stage: Stage, whole: Mapping[str, Any], scenario: Scenario) -> list[str]:
    """Return the lines under a stage's name."""
    noun = "subtask" if stage.parallelism == 1 else "subtasks"
    lines = [f"{stage.parallelism:,} {noun}, busy {percent(whole['busy_ms_per_s'] / 1000)}"]
    if scenario.inputs(stage.name):
        lines.append(f"in {rate(whole['rate_in'])}")
    if scenario.outputs(stage.name):
        lines.append(f"out {rate(whole['rate_out'])}")
    return lines


def _edge(edge: Edge, route: list[Point], *, is_limit: bool) -> str:
    """Return the curve of one edge with its partitioner beside it."""
    (x, y), *rest = route
    path = f"M{x:.6g} {y:.6g}"
    for to_x, to_y in rest:
        middle = (x + to_x) / 2
        path += f" C{middle:.6g} {y:.6g} {middle:.6g} {to_y:.6g} {to_x:.6g} {to_y:.6g}"
        x, y = to_x, to_y
    return _drawn(
        "graph_edge.svg",
        name=escape(edge.name),
        partitioner=escape(edge.partitioner),
        path=path,
        kind="edge limit" if is_limit else "edge",
        x=f"{(route[0][0] + route[1][0]) / 2:.6g}",
        y=f"{(route[0][1] + route[1][1]) / 2 - 6:.6g}",
    )


def _shortened(name: str) -> str:
    """Return a name that fits into a box."""
    return name if len(name) <= _NAME_LETTERS else name[: _NAME_LETTERS - 1] + "…"
