"""Place a job graph: columns by depth, rows near the neighbours, edges in between.

A layered drawing (Sugiyama's): a stage is one column right of its furthest input; an edge that
spans columns gets a waypoint in each column that it crosses, so it never runs through a stage. A
few sweeps move stages and waypoints near the mean height of their neighbours.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

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
