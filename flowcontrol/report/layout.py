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
_COLUMN_GAP = 144.0
_ROW_GAP = 30.0
_WAYPOINT_HEIGHT = 40.0
_PORT_SPREAD = 52.0
"""Height over which the ends of several edges are spread at one stage."""

_MARGIN = 10.0
_SWEEPS = 6

Point = tuple[float, float]
Item = str | tuple[int, int]
"""A stage by name, or the waypoint (edge, column)."""


@dataclass(frozen=True)
class Layout:
    """Positions in pixels from the upper left corner.

    Attributes
    ----------
    width, height : float
        Size of the drawing.
    nodes : mapping of str to (x, y)
        Upper left corner of each stage's box.
    edges : list of list of (x, y)
        For each edge the points that its curve passes, from the sender's right side to the
        receiver's left side; between two of a pair at the same height it runs straight.
    """

    width: float
    height: float
    nodes: Mapping[str, Point]
    edges: list[list[Point]]


def layered(stages: Sequence[str], edges: Sequence[tuple[str, str]]) -> Layout:
    """Place a graph without cycles from left to right.

    Parameters
    ----------
    stages : sequence of str
        Names, senders before receivers.
    edges : sequence of (str, str)
        Sender and receiver of each edge.

    Returns
    -------
    Layout
        The same for the same input.
    """
    depth = _depths(stages, edges)
    columns, links = _columns(stages, edges, depth)
    for sweep in range(_SWEEPS):
        _sort_by_neighbours(columns, links, forward=sweep % 2 == 0)
    centres, height = _centres(columns)
    nodes = {stage: (_left(depth[stage]), centres[stage] - NODE_HEIGHT / 2) for stage in stages}
    width = _left(len(columns) - 1) + NODE_WIDTH + _MARGIN
    return Layout(width, height, nodes, _routes(edges, depth, centres))


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


def _centres(columns: Sequence[Sequence[Item]]) -> tuple[dict[Item, float], float]:
    """Return the height of each item's middle, each column centred, and the whole height."""
    heights = [sum(map(_item_height, column)) + _ROW_GAP * (len(column) - 1) for column in columns]
    tallest = max(heights, default=0.0)
    centres: dict[Item, float] = {}
    for column, height in zip(columns, heights, strict=True):
        y = _MARGIN + (tallest - height) / 2
        for item in column:
            centres[item] = y + _item_height(item) / 2
            y += _item_height(item) + _ROW_GAP
    return centres, tallest + 2 * _MARGIN


def _routes(
    edges: Sequence[tuple[str, str]], depth: Mapping[str, int], centres: Mapping[Item, float]
) -> list[list[Point]]:
    """Return the points of each edge; several ends at one stage are spread out."""
    stops = [_stops(index, edge, depth) for index, edge in enumerate(edges)]
    routes = []
    for index, (sender, receiver) in enumerate(edges):
        leaving = [n for n, edge in enumerate(edges) if edge[0] == sender]
        arriving = [n for n, edge in enumerate(edges) if edge[1] == receiver]
        leaving.sort(key=lambda n: centres[stops[n][1]])
        arriving.sort(key=lambda n: centres[stops[n][-2]])
        start = (_left(depth[sender]) + NODE_WIDTH, centres[sender] + _port(leaving, index))
        end = (_left(depth[receiver]), centres[receiver] + _port(arriving, index))
        crossed = [
            (_left(depth[sender] + 1 + number) + across, centres[stop])
            for number, stop in enumerate(stops[index][1:-1])
            for across in (0.0, NODE_WIDTH)
        ]
        routes.append([start, *crossed, end])
    return routes


def _stops(index: int, edge: tuple[str, str], depth: Mapping[str, int]) -> list[Item]:
    """Return the stops of an edge: sender, a waypoint in each column between, receiver."""
    sender, receiver = edge
    between = range(depth[sender] + 1, depth[receiver])
    return [sender, *((index, column) for column in between), receiver]


def _port(edges: Sequence[int], edge: int) -> float:
    """Return how far from a stage's middle one of its edges ends."""
    if len(edges) < 2:
        return 0.0
    return _PORT_SPREAD * (edges.index(edge) / (len(edges) - 1) - 0.5)


def _left(column: int) -> float:
    return _MARGIN + column * (NODE_WIDTH + _COLUMN_GAP)


def _item_height(item: Item) -> float:
    return NODE_HEIGHT if isinstance(item, str) else _WAYPOINT_HEIGHT
