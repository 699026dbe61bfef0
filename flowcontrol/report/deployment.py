"""The graphs of a scenario on a terminal: operators, vertices, subtasks and channels, slots."""

from collections.abc import Iterator, Sequence
from textwrap import wrap

from flowcontrol.deployment.deploy import Deployment, Slot
from flowcontrol.graphs.execution import Subtask
from flowcontrol.report.numbers import bytes_text, number

_LEAST_WIDTH, _MOST_WIDTH = 40, 100
_MOST_SHOWN = 40
"""Slots and regions that are printed one by one."""


def describe_deployment(found: Deployment, width: int) -> str:
    """Return the four graphs of a scenario as text.

    ``width``: characters of a line, at least 40 and at most 100 are used.

    Returns a sentence, and a section for each graph. A vertex has a letter, by which the later
    sections name it; a subtask is ``A0``.
    """
    columns = min(max(width, _LEAST_WIDTH), _MOST_WIDTH)
    lines = [
        sentence(found),
        "",
        "STREAM GRAPH",
        *_stream(found),
        "",
        "JOB GRAPH",
        *_job(found),
        "",
        "EXECUTION GRAPH",
        *_execution(found),
        "",
        "SLOTS",
        *_slots(found),
    ]
    return "\n".join(part for line in lines for part in _wrapped(line, columns))


def sentence(found: Deployment) -> str:
    """Return what becomes of the operators, in a sentence."""
    job = found.graph.job
    counts = (
        (len(job.stream.nodes), "operator"),
        (len(job.vertices), "vertex"),
        (len(found.graph.subtasks), "subtask"),
        (found.channel_count, "channel"),
        (len(found.slots), "slot"),
    )
    operators, *rest = [counted(count, noun) for count, noun in counts]
    return f"{found.name}: {operators} become {', '.join(rest[:-1])}, in {rest[-1]}."


def counted(count: int, noun: str) -> str:
    """Return ``1 vertex``, ``4 vertices``."""
    plural = "vertices" if noun == "vertex" else f"{noun}s"
    return f"{number(count)} {noun if count == 1 else plural}"


def letters(found: Deployment) -> dict[str, str]:
    """Return a letter for each vertex by its name: A to Z, then A2 ..."""
    names = [vertex.name for vertex in found.graph.vertices]
    return {
        name: chr(ord("A") + place % 26) + (f"{place // 26 + 1}." if place >= 26 else "")
        for place, name in enumerate(names)
    }


def memory_text(slot: Slot) -> str:
    """Return the share of the memory that a slot has."""
    managed = "" if slot.managed_bytes is None else f", {bytes_text(slot.managed_bytes)} managed"
    return f"{bytes_text(slot.network_bytes)} network{managed}"


def max_text(most: int, *, is_fixed: bool) -> str:
    """Return the key groups of a vertex, and who chose their number."""
    return f"{counted(most, 'key group')}{'' if is_fixed else ' by default'}"


def _wrapped(line: str, columns: int) -> list[str]:
    inner = len(line) - len(line.lstrip())
    indent = " " * (inner + 4 if inner else 0)
    return wrap(line, columns, subsequent_indent=indent, break_long_words=False) or [""]


def _stream(found: Deployment) -> Iterator[str]:
    stream = found.graph.job.stream
    for node in stream.nodes:
        most = "" if node.max_parallelism is None else f", max {node.max_parallelism}"
        yield (
            f"  {node.operator_name}: parallelism {node.parallelism}{most}, chaining "
            f"{node.chaining}, slot group {node.slot_group}"
        )
    for edge in stream.edges:
        second = f", input {edge.input}" if edge.input else ""
        yield f"  {edge.source} -> {edge.target}: {edge.partitioner}{second}"


def _job(found: Deployment) -> Iterator[str]:
    names = letters(found)
    for vertex in found.graph.job.vertices:
        yield f"  {names[vertex.name]}  {vertex.name} ({counted(vertex.parallelism, 'subtask')})"
    for edge in found.graph.job.edges:
        pattern = edge.pattern.lower().replace("_", " ")
        yield (
            f"  {names[edge.source]} -> {names[edge.target]}: {edge.ship}, {pattern}, "
            f"{edge.exchange}"
        )
    for one in found.not_chained():
        yield (
            f"  not chained: {one['source']} -> {one['target']}, condition {one['condition']}: "
            f"{one['text']}"
        )


def _execution(found: Deployment) -> Iterator[str]:
    graph, names = found.graph, letters(found)
    for vertex in graph.vertices:
        most = max_text(vertex.max_parallelism, is_fixed=vertex.is_max_fixed)
        yield (f"  {names[vertex.name]}  {counted(vertex.parallelism, 'subtask')}, {most}")
    for edge in graph.edges:
        channels = counted(graph.channel_count(edge), "channel")
        yield f"  {names[edge.source]} -> {names[edge.target]}: {channels}"
    regions = graph.regions()
    yield f"  {counted(len(regions), 'pipelined region')}"
    if len(regions) > 1:
        for region in regions[:_MOST_SHOWN]:
            yield f"    {_tasks([task for task in graph.subtasks if task in region], found)}"
        yield from _left(len(regions), "region")


def _slots(found: Deployment) -> Iterator[str]:
    there = found.task_managers * found.slots_each
    yield (
        f"  {len(found.slots)} of {there} in use: {counted(found.task_managers, 'task manager')} "
        f"with {counted(found.slots_each, 'slot')} each"
    )
    yield f"  share of a slot: {memory_text(found.slots[0])}"
    for slot in found.slots[:_MOST_SHOWN]:
        group = "" if slot.group == "default" else f" ({slot.group})"
        yield (
            f"  task manager {slot.task_manager}, slot {slot.slot}{group}: "
            f"{_tasks(slot.tasks, found)}"
        )
    yield from _left(len(found.slots), "slot")


def _left(count: int, noun: str) -> Iterator[str]:
    if count > _MOST_SHOWN:
        yield f"    and {counted(count - _MOST_SHOWN, noun)} more, all in graphs.json"


def _tasks(tasks: Sequence[Subtask], found: Deployment) -> str:
    names = letters(found)
    return " ".join(f"{names[name]}{subtask}" for name, subtask in tasks)
