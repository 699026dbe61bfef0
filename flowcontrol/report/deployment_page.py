"""The page of a scenario's graphs: the four side by side, self-contained, without a script.

The places come from :mod:`flowcontrol.report.graph`, which goes from left to right, turned.
"""

from collections.abc import Mapping, Sequence
from html import escape
from itertools import groupby
from string import Template

from flowcontrol.deployment.deploy import Deployment, Slot
from flowcontrol.report.figures import PALETTE
from flowcontrol.report.graph import NODE_HEIGHT, NODE_WIDTH, Layout, Point, layered
from flowcontrol.report.markup import asset, html_table
from flowcontrol.report.plan import counted, letters, max_text, memory_text, sentence

_ALONE, _BESIDE_OTHERS, _HEIGHT = 240.0, 164.0, 66.0
"""Width of a box where no two stand in a row, and where some do; height; pixels."""

_GAP, _DROP = 14.0, 58.0
"""Room beside and below a box, pixels."""

_MARGIN = 6.0
_LETTER = 8.8
"""Room of a character of a name, pixels; what does not fit is in the tooltip."""

_ARROW = "arrow-of-this-drawing"
"""Name of the head of an edge until it is in a drawing."""

_ROW_LETTERS = 34
"""Characters of a name above a row of subtasks."""

_LEAST_SCALE = 0.75
"""Smallest scale of a drawing in a narrow column, which then scrolls."""

MOST_SUBTASKS = 12
"""Subtasks of a vertex that are drawn; the others are counted."""

_CELL, _CELL_HEIGHT, _ROW = 28.0, 26.0, 104.0
"""Size of a subtask, and from one row of them to the next, pixels."""

_BESIDE = 5.0
"""Between two subtasks, pixels."""


def stream_drawing(found: Deployment) -> str:
    """Return the stream graph: an operator a box."""
    stream = found.graph.job.stream
    vertices, names = found.graph.job, letters(found)
    boxes = {
        node.name: (
            node.operator_name,
            [
                f"parallelism {node.parallelism}"
                + ("" if node.max_parallelism is None else f", max {node.max_parallelism}"),
                f"{node.chaining} · {node.slot_group}",
            ],
            names[vertices.vertex(node.name).name],
        )
        for node in stream.in_order()
    }
    edges = [(edge.source, edge.target, edge.partitioner) for edge in stream.edges]
    return _drawing("Stream graph", boxes, edges)


def job_drawing(found: Deployment) -> str:
    """Return the job graph: a vertex a box."""
    names = letters(found)
    boxes = {
        vertex.name: (
            vertex.name,
            [
                f"parallelism {vertex.parallelism}",
                f"max {vertex.max_parallelism}{'' if vertex.is_max_fixed else ', by default'}",
            ],
            names[vertex.name],
        )
        for vertex in found.graph.vertices
    }
    edges = [(edge.source, edge.target, edge.ship) for edge in found.graph.edges]
    return _drawing("Job graph", boxes, edges)


def execution_drawing(found: Deployment) -> str:
    """Return the execution graph: a vertex a row, a subtask a box, a channel a line."""
    graph, names = found.graph, letters(found)
    rows = {vertex.name: row for row, vertex in enumerate(graph.vertices)}
    most = min(MOST_SUBTASKS, max(vertex.parallelism for vertex in graph.vertices))
    width = 2 * _MARGIN + max(_ALONE + 20, most * (_CELL + _BESIDE) + 32)
    lines, cells = [], []
    for edge in graph.edges:
        for receiver in range(min(MOST_SUBTASKS, graph.vertex(edge.target).parallelism)):
            for sender, place in graph.gate(edge, receiver):
                if sender < MOST_SUBTASKS:
                    start = _cell(rows[edge.source], sender)
                    end = _cell(rows[edge.target], receiver)
                    title = f"{names[edge.source]}{sender}, subpartition {place}"
                    lines.append(_channel(start, end, f"{title} to {names[edge.target]}{receiver}"))
    for vertex in graph.vertices:
        x, y = _cell(rows[vertex.name], 0)
        title = f"{vertex.name}, {max_text(vertex.max_parallelism, is_fixed=vertex.is_max_fixed)}"
        cells.append(
            f'<text class="name row" x="{_MARGIN:g}" y="{y - 8:.6g}">{names[vertex.name]} '
            f"{escape(_shortened(vertex.name, _ROW_LETTERS))}<title>{escape(title)}</title></text>"
        )
        for subtask in range(min(MOST_SUBTASKS, vertex.parallelism)):
            x, y = _cell(rows[vertex.name], subtask)
            name = f"{names[vertex.name]}{subtask}"
            cells.append(
                f'<g data-subtask="{name}"><rect class="node" x="{x:.6g}" y="{y:.6g}" '
                f'width="{_CELL:g}" height="{_CELL_HEIGHT:g}" rx="4"/>'
                f'<rect x="{x:.6g}" y="{y:.6g}" width="{_CELL:g}" height="5" rx="2" '
                f'fill="{colour(rows[vertex.name])}"/>'
                f'<text class="cell" x="{x + _CELL / 2:.6g}" y="{y + 20:.6g}" '
                f'text-anchor="middle">{name}</text></g>'
            )
        left = vertex.parallelism - MOST_SUBTASKS
        if left > 0:
            x, y = _cell(rows[vertex.name], MOST_SUBTASKS)
            cells.append(f'<text class="figure" x="{x:.6g}" y="{y + 18:.6g}">+{left:,}</text>')
    height = _cell(len(rows) - 1, 0)[1] + _CELL_HEIGHT + _MARGIN
    return _svg("Execution graph", width, height, "".join([*lines, *cells]))


def colour(row: int) -> str:
    """Return the colour of a vertex; its letter is always beside it."""
    return PALETTE[row % len(PALETTE)]


def _cell(row: int, subtask: int) -> Point:
    return _MARGIN + subtask * (_CELL + _BESIDE), 22 + row * _ROW


def _channel(start: Point, end: Point, title: str) -> str:
    """Return the curve of a channel, from below its sender to above its receiver."""
    x, y = start[0] + _CELL / 2, start[1] + _CELL_HEIGHT
    to_x, to_y = end[0] + _CELL / 2, end[1]
    bend = (to_y - y) / 2
    return (
        f'<path class="channel" d="M{x:.6g} {y:.6g} C{x:.6g} {y + bend:.6g} {to_x:.6g} '
        f'{to_y - bend:.6g} {to_x:.6g} {to_y:.6g}"><title>{escape(title)}</title></path>'
    )


def _drawing(
    title: str,
    boxes: Mapping[str, tuple[str, Sequence[str], str]],
    edges: Sequence[tuple[str, str, str]],
) -> str:
    """Draw boxes of a name, two lines and the letter of a vertex, and edges with a word each."""
    layout = layered(list(boxes), [edge[:2] for edge in edges])
    wide = _ALONE if len({y for _, y in layout.nodes.values()}) == 1 else _BESIDE_OTHERS
    rows = {letter: row for row, letter in enumerate(dict.fromkeys(b[2] for b in boxes.values()))}
    order = sorted(rows)  # letters follow the vertices' order
    drawn = []
    for edge, route in zip(edges, layout.edges, strict=True):
        points = [_turned(point, wide) for point in route]
        drawn.append(_edge(points, edge))
    for name, (shown, lines, letter) in boxes.items():
        x, y = _turned_box(layout.nodes[name], wide)
        texts = "".join(
            f'<text class="figure" x="{x + 12:.6g}" y="{y + 41 + 16 * k:.6g}">{escape(line)}</text>'
            for k, line in enumerate(lines)
        )
        drawn.append(
            f"<g><title>{escape(shown)}</title>"
            f'<rect class="node" x="{x:.6g}" y="{y:.6g}" width="{wide:g}" '
            f'height="{_HEIGHT:g}" rx="6"/><rect x="{x:.6g}" y="{y:.6g}" width="5" '
            f'height="{_HEIGHT:g}" rx="2" fill="{colour(order.index(letter))}"/>'
            f'<text class="name" x="{x + 12:.6g}" y="{y + 21:.6g}">{letter} '
            f"{escape(_shortened(shown, int(wide / _LETTER)))}</text>{texts}</g>"
        )
    left, width, height = _size(layout, wide)
    return _svg(title, width, height, "".join(drawn), left)


def _edge(points: Sequence[Point], edge: tuple[str, str, str]) -> str:
    (x, y), *rest = points
    path = f"M{x:.6g} {y:.6g}"
    for to_x, to_y in rest:
        middle = (y + to_y) / 2
        path += f" C{x:.6g} {middle:.6g} {to_x:.6g} {middle:.6g} {to_x:.6g} {to_y:.6g}"
        x, y = to_x, to_y
    (left, top), (right, bottom) = points[:2]
    text_x, text_y = (left + right) / 2 + 6, (top + bottom) / 2 + 4
    return (
        f"<g><title>{escape(f'{edge[0]} -> {edge[1]}, {edge[2]}')}</title>"
        f'<path class="edge" d="{path}" marker-end="url(#{_ARROW})"/>'
        f'<text class="partitioner" x="{text_x:.6g}" y="{text_y:.6g}">{escape(edge[2])}</text></g>'
    )


def _size(layout: Layout, wide: float) -> tuple[float, float, float]:
    """Return the left end, the width and the height of a drawing."""
    corners = [_turned_box(at, wide) for at in layout.nodes.values()]
    ends = [_turned(point, wide) for route in layout.edges for point in route]
    left = min([x for x, _ in corners] + [x - 8 for x, _ in ends]) - _MARGIN
    right = max([x + wide for x, _ in corners] + [x + 8 for x, _ in ends]) + _MARGIN
    return left, right - left, max(y + _HEIGHT for _, y in corners) + _MARGIN


def _turned_box(corner: Point, wide: float) -> Point:
    """Return the upper left corner of a box: its column is its row, its height its place in it."""
    centre = _across(corner[1] + NODE_HEIGHT / 2, wide)
    return centre - wide / 2, _turned((corner[0], 0), wide)[1]


def _turned(point: Point, wide: float) -> Point:
    """Return a point of the layout, turned: from left to right becomes from top to bottom."""
    from_left = point[0] - _LEFT
    column = int(from_left // _COLUMN)
    inside = (from_left - column * _COLUMN) / NODE_WIDTH
    return _across(point[1], wide), _MARGIN + column * (_HEIGHT + _DROP) + inside * _HEIGHT


def _across(y: float, wide: float) -> float:
    return _MARGIN + (y - _TOP) * (wide + _GAP) / _LINE


_PAIR = layered(["a", "b", "c"], [("a", "b"), ("a", "c")])
_LEFT = _PAIR.nodes["a"][0]
_COLUMN = _PAIR.nodes["b"][0] - _LEFT
_TOP = min(y for _, y in _PAIR.nodes.values())
_LINE = abs(_PAIR.nodes["c"][1] - _PAIR.nodes["b"][1])
"""Measures of the layout: its margins, and from one box to the next."""


def _shortened(name: str, most: int) -> str:
    return name if len(name) <= most else name[: most - 1] + "…"


def _svg(title: str, width: float, height: float, drawn: str, left: float = 0.0) -> str:
    """Return a drawing; markers have names of their own, since four drawings share a page."""
    own = f"arrow-{title.split()[0].lower()}"
    return (
        f'<svg class="graph" role="img" width="{width:.0f}" height="{height:.0f}" '
        f'style="min-width:{_LEAST_SCALE * width:.0f}px" '
        f'viewBox="{left:.6g} 0 {width:.0f} {height:.0f}"><title>{title}</title><defs>'
        f'<marker id="{own}" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="8" '
        'markerHeight="8" orient="auto"><path d="M0 0 L10 5 L0 10 z" class="arrow"/></marker>'
        f"</defs>{drawn.replace(_ARROW, own)}</svg>"
    )


_REPORT = "flowcontrol.report"

MOST_SLOTS = 200
"""Slots that are drawn; the others are counted."""

MOST_CHANNELS = 2_000
"""Channels up to which they are drawn as lines."""


def deployment_page(found: Deployment) -> str:
    """Return the page.

    Returns HTML with the four graphs, and below them why edges are not chained.
    """
    regions = found.graph.regions()
    widest = max(vertex.parallelism for vertex in found.graph.vertices)
    cut = f" The first {MOST_SUBTASKS} of a vertex are drawn." if widest > MOST_SUBTASKS else ""
    slots = f"{found.task_managers * found.slots_each:,}"
    body = Template(asset(_REPORT, "deployment.html")).substitute(
        stream=stream_drawing(found),
        job=job_drawing(found),
        execution=execution_drawing(found),
        slots=_slots(found),
        stream_note=_note(found, "operators"),
        job_note=_note(found, "vertices"),
        execution_note=(
            f"{counted(len(found.graph.subtasks), 'subtask')}, "
            f"{counted(found.channel_count, 'channel')}, "
            f"{counted(len(regions), 'pipelined region')}.{cut}"
        ),
        slots_note=(
            f"{len(found.slots):,} of {slots} in use, "
            f"{counted(found.task_managers, 'task manager')}. A slot's share of the memory: "
            f"{escape(memory_text(found.slots[0]))}."
        ),
        chained=_not_chained(found),
    )
    return Template(asset(_REPORT, "shell.html")).substitute(
        title=escape(f"{found.name}: graphs and slots"),
        run="Flink's stream graph, job graph, execution graph and slots; nothing was run.",
        sentence=escape(sentence(found)),
        headline_class="",
        below="",
        noscript="",
        css=asset(_REPORT, "page.css") + asset(_REPORT, "deployment.css"),
        body=body,
        figures="{}",
        packed="",
        plotly="",
        script="",
    )


def _note(found: Deployment, which: str) -> str:
    job = found.graph.job
    if which == "operators":
        return f"{counted(len(job.stream.nodes), 'operator')}, as the program says."
    results = counted(len(found.graph.results), "result")
    return f"{counted(len(job.vertices), 'vertex')}: what is chained runs in one task. {results}."


def _slots(found: Deployment) -> str:
    """Return the task managers with their slots; a task has the colour and letter of its vertex."""
    names = letters(found)
    places = {name: place for place, name in enumerate(names)}
    parts = []
    shown = found.slots[:MOST_SLOTS]
    for manager, slots in groupby(shown, key=lambda slot: slot.task_manager):
        used = {slot.slot: slot for slot in slots}
        boxes = [
            _slot(used.get(number), number, names, places)
            for number in range(max(found.slots_each if len(shown) < MOST_SLOTS else 0, *used, 0))
        ]
        parts.append(
            f'<article class="manager"><h3>task manager {manager}</h3>'
            f'<div class="slots">{"".join(boxes)}</div></article>'
        )
    empty = found.task_managers - len({slot.task_manager for slot in found.slots})
    if empty:
        parts.append(f'<p class="how">{counted(empty, "task manager")} without a task.</p>')
    left = len(found.slots) - len(shown)
    if left > 0:
        parts.append(f'<p class="how">{counted(left, "slot")} more, in graphs.json.</p>')
    return "".join(parts)


def _slot(slot: Slot | None, number: int, names: dict[str, str], places: dict[str, int]) -> str:
    if slot is None:
        return f'<div class="slot free"><small>slot {number}, free</small></div>'
    chips = "".join(
        f'<span class="task" title="{escape(name)}" '
        f'style="border-left-color:{colour(places[name])}">{names[name]}{subtask}</span>'
        for name, subtask in slot.tasks
    )
    group = "" if slot.group == "default" else f", {escape(slot.group)}"
    return f'<div class="slot"><small>slot {number}{group}</small>{chips}</div>'


def _not_chained(found: Deployment) -> str:
    """Return a table of the edges that are not chained, and why."""
    rows = [
        [
            escape(f"{one['source']} → {one['target']}"),
            str(one["condition"]),
            f'<span class="wide">{escape(one["text"])}</span>',
        ]
        for one in found.not_chained()
    ]
    if not rows:
        return "<p>Every edge is chained.</p>"
    return html_table(["Edge", "Condition", "Why"], rows)
