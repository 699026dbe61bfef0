"""Flink's reading of one moment of a job: where it is slow, and why.

Pool usages of Flink's network metrics and the figures of its processes, read as the monitoring
post of July 2019 does. It needs no scenario: the rows may be those of a real job.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from flowcontrol.analysis.causes.rows import Vertex, by_vertex, walked
from flowcontrol.analysis.causes.shares import uneven_work
from flowcontrol.analysis.wording import percent
from flowcontrol.protocol.monitoring import POOL_HIGH

Found = Literal["downstream", "network", "skew", "cpu", "gc", "external", "checkpoint", "none"]

BUSY: Final = 0.9
"""Share of the time from which a subtask that is busy or blocked has none to spare."""

AT_WORK: Final = 0.5
"""Share of the time from which a task is slow with its task manager: not mostly idle."""

HIGH: Final = POOL_HIGH
"""Pool usage from which a pool is full."""

GC_ABOVE: Final = 100.0
"""Time of garbage collection above which it slows every task of a task manager, ms/s."""

CPU_NEAR: Final = 0.8
"""Load over cores from which the processors limit."""

CPU_LOW: Final = 0.5
"""Load over cores below which busy tasks wait for something that is not a processor."""


@dataclass(frozen=True)
class Finding:
    """Where a job is slow and why.

    Attributes
    ----------
    vertex : str or None
        The vertex that limits; of a network the receiving one. None if nothing does.
    subtask : int or None
        The subtask, if it is one of several.
    cause : str
        downstream, network, skew, cpu, gc, external, checkpoint or none.
    evidence : tuple of str
        Sentences with the figures.
    advice : str
        What helps.
    """

    vertex: str | None
    subtask: int | None
    cause: Found
    evidence: tuple[str, ...]
    advice: str


_ADVICE: Final[Mapping[Found, str]] = {
    "downstream": "profile its task: its figures do not tell what it waits for",
    "network": "raise the bandwidth or the buffers of a channel, or place both ends together",
    "skew": "spread the keys more evenly, or give the hot ones a stage of their own",
    "cpu": "give its task manager more cores, or move tasks to another one",
    "gc": "give the task manager more memory, or keep less on its heap",
    "external": "make its calls asynchronous or in batches, or raise the parallelism",
    "checkpoint": "let barriers overtake (unaligned checkpoints), or checkpoint less often",
    "none": "nothing is blocked: the sources set the pace",
}


def root_cause(tables: Mapping[str, Any]) -> Finding:
    """Return where a job is slow at one moment, and why.

    Parameters
    ----------
    tables : mapping
        ``edges``: pairs of vertices; ``stages``: rows of the table ``stages`` at one moment with
        ``task_manager`` besides, records_in being those of the time watched; ``processes``: rows
        of task_manager, cpu_share (load over cores, ratio) and gc_ms_per_s (ms/s), may be empty.
        Rows are mappings.

    Returns
    -------
    Finding
        The suspect is the first vertex behind back-pressured ones that is not back-pressured
        itself, or is at work behind full inputs while its output pools have room; of several the
        busiest. It is busy: gc, skew, cpu or external, and downstream where its figures do not
        tell which. It is not: network if its input pools are low while those that send to it have
        full ones, checkpoint if it has input that it does not take. If all are back-pressured to
        the end, the cause is downstream of the last.

    Raises
    ------
    ValueError
        If a table or a figure is missing, or an edge names a vertex without rows.

    Notes
    -----
    Section 5.4 of the reference: "How to identify the source of backpressure" (July 2019) and
    FLIP-161's shares of time (Flink 1.13).

    Examples
    --------
    >>> row = {"busy_ms_per_s": 0, "backpressured_ms_per_s": 0, "idle_ms_per_s": 1000,
    ...        "in_pool_usage": 0, "out_pool_usage": 0, "records_in": 0, "subtask": 0,
    ...        "task_manager": 0}
    >>> slow = {"busy_ms_per_s": 1000, "idle_ms_per_s": 0, "in_pool_usage": 1}
    >>> held = {"backpressured_ms_per_s": 1000, "idle_ms_per_s": 0, "out_pool_usage": 1}
    >>> root_cause({
    ...     "edges": [("source", "sink")],
    ...     "stages": [{**row, **held, "stage": "source"}, {**row, **slow, "stage": "sink"}],
    ...     "processes": [{"task_manager": 0, "cpu_share": 0.97, "gc_ms_per_s": 3}],
    ... }).cause
    'cpu'
    """
    vertices = by_vertex(tables)
    edges: list[tuple[str, str]] = [(str(a), str(b)) for a, b in tables["edges"]]
    order = walked(list(vertices), edges)
    blocked = [name for name in order if vertices[name].is_blocked]
    if not blocked:
        text = "No vertex is back-pressured for more than 10 % of the time."
        return Finding(None, None, "none", (text,), _ADVICE["none"])
    suspects = [
        name for name in order
        if (not vertices[name].is_blocked or _is_at_work(vertices[name]))
        and any((a, name) in edges for a in blocked)
    ]  # fmt: skip
    if not suspects:
        last = vertices[blocked[-1]]
        share = f"{last.name} is back-pressured for {percent(last.blocked)} of the time"
        text = f"{share}, and no vertex of the tables behind it is free of back pressure."
        return Finding(last.name, None, "downstream", (text,), "look at what it sends to")
    found = vertices[max(suspects, key=lambda name: (vertices[name].busy, -order.index(name)))]
    senders = [vertices[a] for a, b in edges if b == found.name and vertices[a].is_blocked]
    behind = _behind(found, senders)
    processes = {row["task_manager"]: row for row in tables["processes"]}
    subtask, cause, shown = _of_busy(found, vertices, processes) or _of_waiting(found, senders)
    return Finding(found.name, subtask, cause, (behind, *shown), _ADVICE[cause])


_Why = tuple[int | None, Found, tuple[str, ...]]


def _is_at_work(vertex: Vertex) -> bool:
    """Tell whether a subtask holds its senders up itself: in high, out low, and mostly busy.

    A share of blocked time has no value at which its task would cease to be the slow one.
    """
    return any(
        row["in_pool_usage"] >= HIGH > row["out_pool_usage"]
        and row["busy_ms_per_s"] > row["backpressured_ms_per_s"]
        for row in vertex.rows
    )


def _has_no_time(row: Mapping[str, Any]) -> bool:
    """Tell whether a subtask is busy whenever it may be."""
    busy, blocked = float(row["busy_ms_per_s"]), float(row["backpressured_ms_per_s"])
    return busy > blocked and busy + blocked >= 1000 * BUSY


def _behind(found: Vertex, senders: Sequence[Vertex]) -> str:
    blocked = ", ".join(f"{one.name} {percent(one.blocked)}" for one in senders)
    return (
        f"Back-pressured are {blocked} of the time, and {found.name} only {percent(found.blocked)}."
    )


def _of_busy(
    found: Vertex, vertices: Mapping[str, Vertex], processes: Mapping[Any, Mapping[str, Any]]
) -> _Why | None:
    """Return why a vertex is busy; None if it is not."""
    busy = [row for row in found.rows if _has_no_time(row)]
    if not busy:
        return None
    top = max(busy, key=lambda row: row["busy_ms_per_s"])
    only = int(top["subtask"]) if len(busy) == 1 < len(found.rows) else None
    least = min(BUSY, *(row["busy_ms_per_s"] / 1000 for row in busy))
    shown = (
        f"{len(busy)} of {len(found.rows)} subtasks of {found.name} are busy for "
        f"{percent(least)} or more."
    )
    collected = _collecting(busy, vertices, processes)
    if collected is not None:
        machine, gc = collected
        text = f"Task manager {machine} collects garbage for {gc:.0f} ms/s, and all its tasks wait."
        return only, "gc", (shown, text)
    skewed = uneven_work(found.rows)
    if skewed is not None:
        return skewed.subtask, "skew", (shown, skewed.sentence(found.name))
    machines = sorted({row["task_manager"] for row in busy}, key=str)
    loads = [float(processes[one]["cpu_share"]) for one in machines if one in processes]
    if not loads:
        text = "There are no figures of its task manager."
        return only, "downstream", (shown, text)
    load = sum(loads) / len(loads)
    names = ", ".join(map(str, machines))
    text = f"The load of the cores of task manager {names} is {percent(load)}."
    if load >= CPU_NEAR:
        return only, "cpu", (shown, text)
    return only, "external" if load < CPU_LOW else "downstream", (shown, text)


def _collecting(
    busy: Sequence[Mapping[str, Any]],
    vertices: Mapping[str, Vertex],
    processes: Mapping[Any, Mapping[str, Any]],
) -> tuple[Any, float] | None:
    """Return a task manager of busy subtasks whose garbage collection slows all its tasks."""
    tasks: dict[Any, list[float]] = defaultdict(list)
    for vertex in vertices.values():
        for row in vertex.rows:
            active = row["busy_ms_per_s"] + row["backpressured_ms_per_s"]
            tasks[row["task_manager"]].append(active)
    for machine in dict.fromkeys(row["task_manager"] for row in busy):
        gc = float(processes.get(machine, {}).get("gc_ms_per_s", 0.0))
        if gc > GC_ABOVE and min(tasks[machine]) >= 1000 * AT_WORK:
            return machine, gc
    return None


def _of_waiting(found: Vertex, senders: Sequence[Vertex]) -> _Why:
    """Return why a vertex that is not busy holds others up."""
    full = max(senders, key=lambda one: one.usage("out_pool_usage"))
    out, into = full.usage("out_pool_usage"), found.usage("in_pool_usage")
    text = (
        f"{found.name} is busy {percent(found.busy)} of the time; the output pools of {full.name} "
        f"are used to {percent(out)}, its own input pools to {percent(into)}."
    )
    if into < HIGH:
        return None, "network" if out >= HIGH else "downstream", (text,)
    full_rows = [row for row in found.rows if row["in_pool_usage"] >= HIGH]
    waiting = max(row["idle_ms_per_s"] for row in full_rows) / 1000
    if waiting >= AT_WORK:
        idle = percent(waiting)
        more = f"It is idle {idle} of the time beside full inputs: they wait for barriers."
        return None, "checkpoint", (text, more)
    return None, "downstream", (text,)
