"""The network memory that a scenario requires and gets, for a terminal of 80 columns."""

from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from itertools import groupby
from textwrap import wrap

from flowcontrol.layout.plan import Grant, ManagerPlan, MemoryPlan, Moment
from flowcontrol.layout.shares import hottest
from flowcontrol.report.numbers import bytes_text, number, percent
from flowcontrol.scenario import Scenario
from flowcontrol.scenario.options import memory_options

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
