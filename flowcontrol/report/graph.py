"""The job graph as inline SVG: a box per stage, coloured by pressure, with its figures.

It is drawn in ``graph.svg``, ``graph_node.svg`` and ``graph_edge.svg``. Colours of text and lines
come from the page's classes, so the graph follows its theme. The colour of a status is fixed and
carries dark text, which names the status as well.

A **slot** is a place in the drawing that changes: a text, a colour, a bar. The graph is drawn with
the slots of the whole run; the page's script puts those of a sample in their place.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from itertools import pairwise
from string import Template
from typing import Any, Final

from flowcontrol.analysis.bottleneck import pressure_of
from flowcontrol.report.figures import PRESSURE_COLOURS
from flowcontrol.report.markup import asset, number, rate, share_of_time
from flowcontrol.scenario import Edge, Scenario, Stage

# --- Place a job graph: columns by depth, rows near the neighbours, edges in between.
#
# A layered drawing (Sugiyama's): a stage is one column right of its furthest input; an edge that
# spans columns gets a waypoint in each column that it crosses, so it never runs through a stage. A
# few sweeps move stages and waypoints near the mean height of their neighbours.


NODE_WIDTH = 196.0
"""The band in ``graph_node.svg`` is drawn for this width."""

NODE_HEIGHT = 136.0
_ROW_GAP = 30.0
_MARGIN = 10.0
_SWEEPS = 6

Point = tuple[float, float]
Item = str | tuple[int, int]
"""A stage by name, or the waypoint (edge, column)."""


@dataclass(frozen=True)
class Measures:
    """Sizes of a drawing, px, as of one from left to right."""

    width: float  # width, height: of a stage
    height: float
    gap: float  # Between two columns: what is written at an edge stands there
    waypoint: float  # Height that is kept free for an edge that passes a column
    ports: float  # Height over which the ends of several edges are spread at one stage
    # Whether the drawing is turned: then it runs from top to bottom, and a height is a width.
    is_down: bool = False


WIDE = Measures(NODE_WIDTH, NODE_HEIGHT, 144.0, 40.0, 52.0)
CLOSE = Measures(NODE_WIDTH, NODE_HEIGHT, 100.0, 40.0, 52.0)
DOWN = Measures(NODE_HEIGHT, NODE_WIDTH, 76.0, 90.0, 90.0, is_down=True)


@dataclass(frozen=True)
class Layout:
    """Positions in pixels from the upper left corner."""

    width: float  # width, height: size of the drawing
    height: float
    nodes: Mapping[str, Point]  # Upper left corner of each stage's box
    # For each edge the points that its curve passes, from the sender's right side to the receiver's
    # left side, or from its lower to its upper side; between two of a pair that face each other it
    # runs straight.
    edges: list[list[Point]]


def layered(
    stages: Sequence[str], edges: Sequence[tuple[str, str]], measures: Measures = WIDE
) -> Layout:
    """Place a graph without cycles from left to right, or from top to bottom.

    ``edges``: sender and receiver of each edge.
    """
    depth = _depths(stages, edges)
    columns, links = _columns(stages, edges, depth)
    for sweep in range(_SWEEPS):
        _sort_by_neighbours(columns, links, forward=sweep % 2 == 0)
    centres, height = _centres(columns, measures)
    lefts = [_MARGIN + at * (measures.width + measures.gap) for at in range(len(columns))]
    nodes = {stage: (lefts[depth[stage]], centres[stage] - measures.height / 2) for stage in stages}
    width = lefts[-1] + measures.width + _MARGIN
    layout = Layout(width, height, nodes, _routes(edges, depth, centres, lefts, measures))
    return _turned(layout) if measures.is_down else layout


def _turned(layout: Layout) -> Layout:
    """Return a layout from left to right as one from top to bottom."""
    nodes = {stage: (y, x) for stage, (x, y) in layout.nodes.items()}
    edges = [[(y, x) for x, y in route] for route in layout.edges]
    return Layout(layout.height, layout.width, nodes, edges)


def _depths(stages: Sequence[str], edges: Sequence[tuple[str, str]]) -> dict[str, int]:
    """Return the column of each stage: the length of the longest way to it."""
    depth = dict.fromkeys(stages, 0)
    for stage in stages:
        before = [depth[sender] for sender, receiver in edges if receiver == stage]
        depth[stage] = max((other + 1 for other in before), default=0)
    return depth


def _columns(
    stages: Sequence[str], edges: Sequence[tuple[str, str]], depth: Mapping[str, int]
) -> tuple[list[list[Item]], list[tuple[Item, Item]]]:
    """Return the items of each column, and the links between neighbouring columns."""
    columns: list[list[Item]] = [[] for _ in range(max(depth.values(), default=0) + 1)]
    for stage in stages:
        columns[depth[stage]].append(stage)
    links: list[tuple[Item, Item]] = []
    for index, (sender, receiver) in enumerate(edges):
        stops = _stops(index, (sender, receiver), depth)
        for column, waypoint in enumerate(stops[1:-1], start=depth[sender] + 1):
            columns[column].append(waypoint)
        links += pairwise(stops)
    return columns, links


def _sort_by_neighbours(
    columns: list[list[Item]], links: Sequence[tuple[Item, Item]], *, forward: bool
) -> None:
    """Sort each column by the mean place of its items' neighbours on one side."""
    order = range(1, len(columns)) if forward else range(len(columns) - 2, -1, -1)
    for index in order:
        before = columns[index - 1 if forward else index + 1]
        place = {item: (rank + 0.5) / len(before) for rank, item in enumerate(before)}
        here = {
            item: (rank + 0.5) / len(columns[index]) for rank, item in enumerate(columns[index])
        }
        means = {}
        for item in columns[index]:
            pairs = (link if forward else link[::-1] for link in links)
            near = [place[other] for other, own in pairs if own == item and other in place]
            means[item] = sum(near) / len(near) if near else here[item]
        columns[index].sort(key=means.__getitem__)


def _centres(
    columns: Sequence[Sequence[Item]], measures: Measures
) -> tuple[dict[Item, float], float]:
    """Return the height of each item's middle, each column centred, and the whole height."""

    def tall(item: Item) -> float:
        return measures.height if isinstance(item, str) else measures.waypoint

    heights = [sum(map(tall, column)) + _ROW_GAP * (len(column) - 1) for column in columns]
    tallest = max(heights, default=0.0)
    centres: dict[Item, float] = {}
    for column, height in zip(columns, heights, strict=True):
        y = _MARGIN + (tallest - height) / 2
        for item in column:
            centres[item] = y + tall(item) / 2
            y += tall(item) + _ROW_GAP
    return centres, tallest + 2 * _MARGIN


def _routes(
    edges: Sequence[tuple[str, str]],
    depth: Mapping[str, int],
    centres: Mapping[Item, float],
    lefts: Sequence[float],
    measures: Measures,
) -> list[list[Point]]:
    """Return the points of each edge; several ends at one stage are spread out."""
    stops = [_stops(index, edge, depth) for index, edge in enumerate(edges)]
    routes = []
    for index, (sender, receiver) in enumerate(edges):
        leaving = [n for n, edge in enumerate(edges) if edge[0] == sender]
        arriving = [n for n, edge in enumerate(edges) if edge[1] == receiver]
        leaving.sort(key=lambda n: centres[stops[n][1]])
        arriving.sort(key=lambda n: centres[stops[n][-2]])
        out, into = (_port(ends, index) * measures.ports for ends in (leaving, arriving))
        start = (lefts[depth[sender]] + measures.width, centres[sender] + out)
        end = (lefts[depth[receiver]], centres[receiver] + into)
        crossed = [
            (lefts[depth[sender] + 1 + number] + across, centres[stop])
            for number, stop in enumerate(stops[index][1:-1])
            for across in (0.0, measures.width)
        ]
        routes.append([start, *crossed, end])
    return routes


def _stops(index: int, edge: tuple[str, str], depth: Mapping[str, int]) -> list[Item]:
    """Return the stops of an edge: sender, a waypoint in each column between, receiver."""
    sender, receiver = edge
    between = range(depth[sender] + 1, depth[receiver])
    return [sender, *((index, column) for column in between), receiver]


def _port(edges: Sequence[int], edge: int) -> float:
    """Return how far from a stage's middle one of its edges ends, between -0.5 and 0.5."""
    return edges.index(edge) / (len(edges) - 1) - 0.5 if len(edges) > 1 else 0.0


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
