"""The page of a scenario's graphs: the four side by side, self-contained, without a script."""

from html import escape
from itertools import groupby
from string import Template

from flowcontrol.deployment.deploy import Deployment, Slot
from flowcontrol.report.deployment import counted, letters, memory_text, sentence
from flowcontrol.report.deployment_page import (
    MOST_SUBTASKS,
    colour,
    execution_drawing,
    job_drawing,
    stream_drawing,
)
from flowcontrol.report.markup import asset, html_table

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
