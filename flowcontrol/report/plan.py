"""Before a run, on a terminal: its network memory, and the graphs of its scenario."""

from collections import Counter
from collections.abc import Hashable, Iterator, Mapping, Sequence
from itertools import groupby
from textwrap import wrap

from flowcontrol.deployment.deploy import Deployment, Slot
from flowcontrol.graphs.execution import Subtask
from flowcontrol.layout.plan import Grant, ManagerPlan, MemoryPlan, Moment
from flowcontrol.layout.shares import hottest
from flowcontrol.report.markup import bytes_text, number, percent
from flowcontrol.scenario import Scenario
from flowcontrol.scenario.options import memory_options

# --- The network memory that a scenario requires and gets, for a terminal of 80 columns.


_HEADS = ("SUBTASKS", "CHANNELS", "REQUIRED", "WANTED", "GRANTED", "EXCLUSIVE")
WIDTH = 80
"""Characters of a line."""

_WIDTHS = (9, 8, 8, 7, 7, 9)
_BETWEEN = 2
_NAME = WIDTH - sum(_WIDTHS) - _BETWEEN * len(_WIDTHS)
"""Characters of the first column; a longer name gets a line of its own."""
_LABEL = 14


def describe_plan(plan: MemoryPlan, options: Mapping[object, object]) -> str:
    """Return the plan of a scenario's network memory as text.

    Returns a table per task manager, or for several whose figures are equal, for each moment at
    which a job starts or stops; the exact need next to the classic rule; the option to change.
    """
    scenario = plan.scenario
    count = scenario.cluster.task_managers
    segment = scenario.options.segment_bytes
    head = (
        f"network memory of {scenario.name}: {number(count)} task manager{'s' * (count > 1)}, "
        f"{number(scenario.options.network_buffers)} buffers of {bytes_text(segment)} each"
    )
    lines = wrap(head, WIDTH)
    lines.append("Rows count each subtask alone; a gate's figures hold its exclusive buffers.")
    for moment in plan.moments:
        lines += _moment(moment)
    lines += ["", *_footer(plan, options)]
    return "\n".join(line.rstrip() for line in lines)


def _moment(moment: Moment) -> list[str]:
    lines = []
    if moment.events:
        lines = ["", f"at {number(moment.at_s)} s: {', '.join(moment.events)}"]
    alike: dict[Hashable, list[ManagerPlan]] = {}
    for manager in moment.managers:
        figures = frozenset(Counter(map(_group, manager.grants)).items())
        alike.setdefault((manager.total, figures), []).append(manager)
    for managers in alike.values():
        lines += _table(managers)
    return lines


def _table(managers: Sequence[ManagerPlan]) -> list[str]:
    """Return the lines of task managers that are alike; subtasks with equal figures share one."""
    plan = managers[0]
    lines = ["", *_head([manager.manager for manager in managers])]
    if not plan.grants:
        return [*lines, "  nothing runs here"]
    ordered = sorted(plan.grants, key=_group)  # stable: subtasks stay in their order
    rows = {key: list(grants) for key, grants in groupby(ordered, key=_group)}
    for key in dict.fromkeys(_group(grant) for grant in plan.grants):
        lines += _grants(rows[key], is_one=len(managers) == 1)
    exclusive = sum(grant.demand.unpooled for grant in plan.grants)
    totals = ["", "", number(plan.required), number(plan.wanted), number(plan.granted)]
    lines += _row(f"total of {number(plan.total)}", [*totals, number(exclusive)])
    missing = plan.required - plan.total
    if missing > 0:
        lines.append(f"  {number(missing)} of the {number(plan.required)} required are missing")
    return lines


def _head(managers: Sequence[int]) -> list[str]:
    """Return the heads of a table below the numbers of its task managers."""
    first, last, count = managers[0], managers[-1], len(managers)
    if count == 1:
        return _row(f"TASK MANAGER {first}", _HEADS)
    numbers = ", ".join(map(str, managers))
    if count > 2 and last - first == count - 1:
        numbers = f"{first}-{last}"
    *lines, name = wrap(f"TASK MANAGERS {numbers}", WIDTH)
    return [*lines, *_row(name, _HEADS)]


def _group(grant: Grant) -> tuple[object, ...]:
    demand = grant.demand
    most = -1 if demand.maximum is None else demand.maximum
    granted = -1 if grant.granted is None else grant.granted
    figures = (demand.channels, demand.required, most, granted, demand.unpooled)
    return (demand.edge, demand.is_gate, *figures)


def _grants(grants: Sequence[Grant], *, is_one: bool) -> list[str]:
    """Return the row of subtasks that are alike, by number if they are of one task manager."""
    grant = grants[0]
    demand, extra = grant.demand, grant.demand.unpooled
    most = "no limit" if demand.maximum is None else number(demand.maximum + extra)
    return _row(
        f"{'in ' if demand.is_gate else 'out'} {demand.edge}",
        [
            _subtasks([one.demand.subtask for one in grants]) if is_one else f"{len(grants)} each",
            number(demand.channels),
            number(demand.required + extra),
            most,
            "none" if grant.granted is None else number(grant.granted + extra),
            number(extra) if demand.is_gate else "",
        ],
    )


def _subtasks(numbers: Sequence[int]) -> str:
    """Return subtasks as ``0``, ``0,2,4``, or how many there are: ``50 each``."""
    text = ",".join(map(str, numbers))
    return text if len(text) <= _WIDTHS[0] else f"{len(numbers)} each"


def _row(name: str, cells: Sequence[str]) -> list[str]:
    filled = "".join(
        " " * _BETWEEN + cell.rjust(width) for cell, width in zip(cells, _WIDTHS, strict=True)
    )
    if len(name) <= _NAME:
        return [name.ljust(_NAME) + filled]
    return [name, " " * _NAME + filled]


def _footer(plan: MemoryPlan, options: Mapping[object, object]) -> list[str]:
    """Return the lines below the tables: need, rule, option."""
    scenario, slots = plan.scenario, plan.slots
    managers, total = scenario.cluster.task_managers, scenario.options.network_buffers
    segment = scenario.options.segment_bytes
    lines = [
        ("exact need", f"{number(plan.required)} buffers on a task manager to start, "),
        ("", f"{number(plan.wanted)} for every pool at its maximum"),
        (
            "classic rule",
            f"slots^2 x task managers x 4 = {slots}^2 x {managers} x 4 = {number(plan.rule)}",
        ),
        ("there are", f"{number(total)}, {verdict(plan)}"),
        *_change("to change" if plan.wanted > total else "would do", plan.wanted, options, segment),
    ]
    if plan.required > total:
        lines += _change("at the least", plan.required, options, segment)
    lines += _skew(scenario)
    return [label.ljust(_LABEL) + text for label, text in lines]


def _skew(scenario: Scenario) -> list[tuple[str, str]]:
    """Return, for each edge with uneven shares, which subtask gets most records, and how many."""
    lines = []
    for edge in scenario.edges:
        receivers = scenario.stage(edge.receiver).parallelism
        subtask, share = hottest(edge, receivers)
        if share * receivers > 1:
            text = (
                f"subtask {subtask} gets {percent(float(share))} of the records, "
                f"{number(float(share * receivers))} x an even share"
            )
            lines += [("hottest", edge.name), ("", text)]
            if edge.key_distribution is not None:
                lines.append(("", f"of {edge.key_distribution}"))
    return lines


def verdict(plan: MemoryPlan) -> str:
    """Return whether a task manager's buffers are enough."""
    total = plan.scenario.options.network_buffers
    if plan.required > total:
        return "too few: not everything starts"
    if plan.wanted > total:
        return "enough to start, with smaller pools"
    return "enough for every pool at its maximum"


def _change(
    label: str, buffers: int, options: Mapping[object, object], segment: int
) -> list[tuple[str, str]]:
    """Return the options that give so many buffers; the label stands at the first."""
    stated = memory_options(options, buffers, segment)
    labels = [label, *[""] * len(stated)]
    return [(at, f"{key}: {text}") for at, (key, text) in zip(labels, stated.items(), strict=False)]


# --- The graphs of a scenario on a terminal: operators, vertices, subtasks and channels, slots.


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
