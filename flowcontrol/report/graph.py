"""The job graph as inline SVG: a box per stage, coloured by pressure, with its figures.

It is drawn in ``graph.svg``, ``graph_node.svg`` and ``graph_edge.svg``. Colours of text and lines
come from the page's classes, so the graph follows its theme. The colour of a status is fixed and
carries dark text, which names the status as well.

A **slot** is a place in the drawing that changes: a text, a colour, a bar. The graph is drawn with
the slots of the whole run; the page's script puts those of a sample in their place.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from html import escape
from string import Template
from typing import Any, Final

from flowcontrol.analysis.bottleneck import pressure_of
from flowcontrol.report.figures import PRESSURE_COLOURS
from flowcontrol.report.layout import (
    CLOSE,
    DOWN,
    NODE_HEIGHT,
    NODE_WIDTH,
    WIDE,
    Layout,
    Measures,
    Point,
    layered,
)
from flowcontrol.report.markup import asset
from flowcontrol.report.numbers import number, rate, share_of_time
from flowcontrol.scenario import Edge, Scenario, Stage

Slots = dict[str, str]

BAR_LEFT: Final = 11.0
_BAR_WIDTH: Final = NODE_WIDTH - 2 * BAR_LEFT


@dataclass(frozen=True)
class StageState:
    """A stage over the whole run, or since the sample before."""

    # Back-pressured time of the worst subtask, and the mean (ms/s).
    worst_blocked: float
    blocked: float
    busy: float  # busy, busiest: busy time, the mean and that of the busiest subtask (ms/s)
    busiest: float
    rate_in: float  # rate_in, rate_out: all subtasks together (records/s)
    rate_out: float

    @classmethod
    def of_run(cls, whole: Mapping[str, Any]) -> "StageState":
        """Return the state over the whole run, from a stage's figures in the summary."""
        return cls(
            whole["worst_backpressured_ms_per_s"],
            whole["backpressured_ms_per_s"],
            whole["busy_ms_per_s"],
            whole["busiest_busy_ms_per_s"],
            whole["rate_in"],
            whole["rate_out"],
        )


def stage_slots(stage: Stage, state: StageState, scenario: Scenario) -> Slots:
    """Return what a stage's box shows: title, status, colour, lines and bar."""
    pressure = pressure_of(state.worst_blocked)
    status = f"{pressure.value} · blocked {share_of_time(state.worst_blocked)}"
    busy = BAR_LEFT + _BAR_WIDTH * min(1.0, state.busy / 1000)
    blocked = min(BAR_LEFT + _BAR_WIDTH, busy + _BAR_WIDTH * state.blocked / 1000)
    lines = {f"line{row}": text for row, text in enumerate(_lines(stage, state, scenario))}
    return {
        "title": f"{stage.name}: {status}",
        "status": status,
        "fill": PRESSURE_COLOURS[pressure],
        "busy": f"M{BAR_LEFT:g} 0H{busy:.0f}",
        "blocked": f"M{busy:.0f} 0H{blocked:.0f}",
        **lines,
    }


def _lines(stage: Stage, state: StageState, scenario: Scenario) -> list[str]:
    """Return the lines under a stage's name."""
    noun = "subtask" if stage.parallelism == 1 else "subtasks"
    most = "" if scenario.scaling is None else "≤ "
    lines = [f"{most}{stage.parallelism:,} {noun}, busy {share_of_time(state.busy)}"]
    if stage.parallelism > 1:
        lines.append(f"busiest {share_of_time(state.busiest)}")
    if scenario.inputs(stage.name):
        lines.append(f"in {rate(state.rate_in)}")
    if scenario.outputs(stage.name):
        lines.append(f"out {rate(state.rate_out)}")
    return lines


def edge_slots(edge: Edge, sender_rate: float, in_flight: float, scenario: Scenario) -> Slots:
    """Return what stands at an edge: its rate and its data in flight.

    - ``sender_rate`` (records/s): what its sender emits, each record once.
    - ``in_flight``: buffers, or records where the transport counts those.
    """
    unit = "records" if scenario.system.counts_records else "buffers"
    copies = scenario.stage(edge.receiver).parallelism if edge.partitioner == "broadcast" else 1
    return {"rate": f"{number(sender_rate * copies)}/s", "held": f"{number(in_flight)} {unit}"}


def in_flight_column(scenario: Scenario) -> str:
    """Return the figure of an edge that is its data in flight, in what its transport counts."""
    return "in_flight_records" if scenario.system.counts_records else "in_flight_buffers"


_LEAST_SCALE = 0.5
"""Smallest scale of the graph: what is wider still scrolls."""

_MOST_WIDE_PX = 1424.0
"""Width of a graph from left to right: on a page of 1,280 px its scale is at least 0.8."""

_NAME_LETTERS = 20
"""Characters of a name that fit into a box; the whole name is in its tooltip."""

_FIRST_LINE, _LINE = 64, 17
"""Height of the first figure in a box, and of a line."""

_STEEP = 24.0
"""Difference in height from which an edge's texts stand beside its curve, not on it."""

_FROM_CURVE = {"middle": 0.0, "start": 6.0, "end": -6.0}
"""Distance of a text from the middle of the curve, by its anchor."""

_SLANT, _MOST_BESIDE = 0.4, 60.0
"""How far right of the middle of a slanted curve its texts stand in a graph from top to bottom:
this part of what it moves aside, px at most."""

_ACROSS_Y, _BESIDE_Y = (-6, 15, 29), (-9, 6, 20)
"""Heights of the three texts of an edge from the middle of its curve, on which, or right of which,
they stand."""

_BAR_ABOVE = 9
"""Distance of the bar of a stage's time from the lower edge of its box."""


def job_graphs(summary: Mapping[str, Any], scenario: Scenario) -> str:
    """Return the job graph from left to right, if that fits, and from top to bottom.

    The page shows the first where it has the room, and the other one elsewhere; parameters as
    :func:`job_graph`.
    """
    ways = [way for way in (WIDE, CLOSE) if _laid_out(scenario, way).width <= _MOST_WIDE_PX][:1]
    return "\n".join(job_graph(summary, scenario, way) for way in (*ways, DOWN))


def _laid_out(scenario: Scenario, measures: Measures) -> Layout:
    ends = [(edge.sender, edge.receiver) for edge in scenario.edges]
    return layered([stage.name for stage in scenario.topological()], ends, measures)


def job_graph(summary: Mapping[str, Any], scenario: Scenario, measures: Measures = WIDE) -> str:
    """Return the job graph with the figures of the whole run.

    ``scenario``: its stages and edges are drawn by depth.

    Returns an ``svg`` element; it needs the classes of ``page.css``.
    """
    layout, way = _laid_out(scenario, measures), "down" if measures.is_down else "across"
    edges = [
        _edge(edge, index, summary, scenario, route, way)
        for index, (edge, route) in enumerate(zip(scenario.edges, layout.edges, strict=True))
    ]
    nodes = [
        _node(stage, index, summary, scenario, layout.nodes[stage.name])
        for index, stage in enumerate(scenario.stages)
    ]
    return _drawn(
        "graph.svg",
        name=escape(scenario.name),
        way=way,
        width=f"{layout.width:.6g}",
        height=f"{layout.height:.6g}",
        least_width=f"{_LEAST_SCALE * layout.width:.0f}",
        edges="".join(edges),
        nodes="".join(nodes),
    )


def _drawn(file: str, /, **parts: str) -> str:
    """Return a drawing with its parts, which are escaped, filled in."""
    return Template(asset("flowcontrol.report", file)).substitute(parts)


def _node(
    stage: Stage, index: int, summary: Mapping[str, Any], scenario: Scenario, at: Point
) -> str:
    """Return the box of one stage."""
    state = StageState.of_run(summary["stages"][stage.name]["whole"])
    slots = {name: escape(text) for name, text in stage_slots(stage, state, scenario).items()}
    lines = [name for name in slots if name.startswith("line")]
    figures = [
        f'<text class="figure" x="11" y="{_FIRST_LINE + _LINE * row}" '
        f'data-slot="s{index}.{name}">{slots.pop(name)}</text>'
        for row, name in enumerate(lines)
    ]
    return _drawn(
        "graph_node.svg",
        x=f"{at[0]:.6g}",
        y=f"{at[1]:.6g}",
        width=f"{NODE_WIDTH:g}",
        height=f"{NODE_HEIGHT:g}",
        shown=escape(_shortened(stage.name)),
        kind="node limit" if summary["bottleneck"] == stage.name else "node",
        figures="\n".join(figures),
        slot=f"s{index}",
        bar_y=f"{NODE_HEIGHT - _BAR_ABOVE:g}",
        bar_left=f"{BAR_LEFT:g}",
        bar_right=f"{NODE_WIDTH - BAR_LEFT:g}",
        **slots,
    )


def _edge(
    edge: Edge,
    index: int,
    summary: Mapping[str, Any],
    scenario: Scenario,
    route: list[Point],
    way: str,
) -> str:
    """Return the curve of one edge with its partitioner and its figures."""
    held = summary["edges"][edge.name]["whole"][in_flight_column(scenario)]
    emitted = summary["stages"][edge.sender]["whole"]["rate_out"]
    (left, start), (right, end) = route[:2]
    middle, centre = (start + end) / 2, (left + right) / 2
    above, below = _beside_curve(end - start)
    lines = _ACROSS_Y
    if way == "down":
        above, below, lines = "start", "start", _BESIDE_Y
        centre += min(_MOST_BESIDE, _SLANT * abs(right - left))
    return _drawn(
        "graph_edge.svg",
        name=escape(edge.name),
        partitioner=escape(edge.partitioner),
        way=way,
        path=_path(route, way),
        kind="edge limit" if edge.name == summary["bottleneck_detail"]["edge"] else "edge",
        above_x=f"{centre + _FROM_CURVE[above]:.6g}",
        above=above,
        below_x=f"{centre + _FROM_CURVE[below]:.6g}",
        below=below,
        y=f"{middle + lines[0]:.6g}",
        rate_y=f"{middle + lines[1]:.6g}",
        held_y=f"{middle + lines[2]:.6g}",
        slot=f"e{index}",
        **edge_slots(edge, emitted, held, scenario),
    )


def _path(route: list[Point], way: str) -> str:
    """Return a curve through points that leaves and reaches each in the direction of the graph."""
    (x, y), *rest = route
    path = f"M{x:.6g} {y:.6g}"
    for to_x, to_y in rest:
        if way == "down":
            middle = (y + to_y) / 2
            path += f" C{x:.6g} {middle:.6g} {to_x:.6g} {middle:.6g} {to_x:.6g} {to_y:.6g}"
        else:
            middle = (x + to_x) / 2
            path += f" C{middle:.6g} {y:.6g} {middle:.6g} {to_y:.6g} {to_x:.6g} {to_y:.6g}"
        x, y = to_x, to_y
    return path


def _beside_curve(drop: float) -> tuple[str, str]:
    """Return how the texts above and below the middle of a curve are anchored.

    Where it falls steeply there is room at its upper right and lower left, where it rises at the
    other two; along a flat one, texts are centred.
    """
    if abs(drop) < _STEEP:
        return "middle", "middle"
    return ("start", "end") if drop > 0 else ("end", "start")


def _shortened(name: str) -> str:
    """Return a name that fits into a box."""
    return name if len(name) <= _NAME_LETTERS else name[: _NAME_LETTERS - 1] + "…"
