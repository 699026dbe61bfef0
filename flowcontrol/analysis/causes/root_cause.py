"""Flink's reading of one moment of a job: where it is slow, and why.

Pool usages of Flink's network metrics and the figures of its processes, read as the monitoring
post of July 2019 does. It needs no scenario: the rows may be those of a real job.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import inf
from numbers import Real
from typing import Any, Final, Literal

from flowcontrol.analysis.bottleneck import worst_pressure
from flowcontrol.analysis.wording import percent
from flowcontrol.protocol.monitoring import POOL_HIGH, Pressure

_TABLES: Final = ("edges", "stages", "processes")
_FIGURES: Final = (
    "stage", "subtask", "task_manager", "records_in", "busy_ms_per_s", "idle_ms_per_s",
    "backpressured_ms_per_s", "in_pool_usage", "out_pool_usage",
)  # fmt: skip
_NAMES: Final = frozenset({"stage", "task_manager"})
"""Columns that are no numbers."""

_PROCESS: Final = ("task_manager", "cpu_share", "gc_ms_per_s")


@dataclass(frozen=True)
class Vertex:
    """The rows of one vertex; of a vertex the worst subtask counts, as in Flink."""

    name: str
    rows: Sequence[Mapping[str, Any]]

    @property
    def busy(self) -> float:
        """Busy share of its busiest subtask, ratio."""
        return float(max(row["busy_ms_per_s"] for row in self.rows)) / 1000

    @property
    def blocked(self) -> float:
        """Back-pressured share of its worst subtask, ratio."""
        return float(max(row["backpressured_ms_per_s"] for row in self.rows)) / 1000

    @property
    def is_blocked(self) -> bool:
        """Whether Flink's page shows it as back-pressured, LOW or HIGH."""
        worst = worst_pressure(row["backpressured_ms_per_s"] for row in self.rows)
        return worst is not Pressure.OK

    def usage(self, name: str) -> float:
        """Return the largest usage of a kind of pool among its subtasks, ratio."""
        return float(max(row[name] for row in self.rows))


def by_vertex(tables: Mapping[str, Any]) -> dict[str, Vertex]:
    """Return the vertices by name, in the order of their first rows.

    ``tables``: as of :func:`flowcontrol.analysis.causes.root_cause`.

    Raises ValueError if a table or a figure is missing or no number, or an edge names a vertex
    without rows.
    """
    for name in _TABLES:
        if name not in tables:
            raise ValueError(f"table {name} is missing: root_cause reads {', '.join(_TABLES)}")
    for table, figures in (("stages", _FIGURES), ("processes", _PROCESS)):
        for index, row in enumerate(tables[table]):
            missing = [name for name in figures if name not in row]
            if missing:
                raise ValueError(f"row {index} of {table} lacks {', '.join(missing)}")
            for name in figures:
                if name not in _NAMES:
                    _check_figure(row[name], f"row {index} of {table}: {name}")
    found: dict[str, list[Mapping[str, Any]]] = {}
    for row in tables["stages"]:
        found.setdefault(str(row["stage"]), []).append(row)
    for sender, receiver in tables["edges"]:
        for name in (sender, receiver):
            if str(name) not in found:
                raise ValueError(f"the edge {sender}->{receiver} names {name!r}, without rows")
    return {name: Vertex(name, rows) for name, rows in found.items()}


def _check_figure(value: Any, place: str) -> None:
    """Raise ValueError for what is not a number from 0 on, such as the NaN of an untimed task."""
    if not isinstance(value, Real) or not 0 <= float(value) < inf:
        raise ValueError(f"{place} is {value!r}: state a number from 0 on, 0 if it is not known")


def walked(names: Sequence[str], edges: Sequence[tuple[str, str]]) -> list[str]:
    """Return vertices from the sources on, each behind all that send to it.

    ``names``: the vertices; of several that may come next the first of these does.

    Raises ValueError if they form a cycle.
    """
    left, done = list(names), list[str]()
    while left:
        free = (name for name in left if not any(b == name and a in left for a, b in edges))
        following = next(free, None)
        if following is None:
            raise ValueError(f"the edges between {', '.join(left)} form a cycle")
        left.remove(following)
        done.append(following)
    return done


LARGER: Final = 1.1
"""Times the mean of the others from which records, or busy time, are uneven."""


@dataclass(frozen=True)
class Uneven:
    """The subtask that has more to do than the others of its stage."""

    subtask: int  # Its index
    share: float  # Of the records that the stage took up (ratio)
    of_even: float  # That over an even share

    def sentence(self, stage: str) -> str:
        """Return its share in words."""
        return (
            f"Subtask {self.subtask} of {stage} took up {percent(self.share)} of its records, "
            f"{self.of_even:.1f} times an even share."
        )


def uneven_work(rows: Sequence[Mapping[str, Any]]) -> Uneven | None:
    """Return the busiest subtask if it is so since it gets more records.

    ``rows``: ``subtask``, ``busy_ms_per_s`` and ``records_in`` of each subtask of a stage.

    Returns None if none is busier than the others, or if it has no more records than they have, as
    a slow slot.
    """
    total = sum(row["records_in"] for row in rows)
    if len(rows) < 2 or not total:
        return None
    top = max(rows, key=lambda row: (row["busy_ms_per_s"], row["records_in"]))
    rest = [row for row in rows if row is not top]
    busier = _over(top["busy_ms_per_s"], [row["busy_ms_per_s"] for row in rest])
    more = _over(top["records_in"], [row["records_in"] for row in rest])
    if more < LARGER or busier < LARGER:
        return None
    share = top["records_in"] / total
    return Uneven(int(top["subtask"]), share, share * len(rows))


def _over(figure: float, others: Sequence[float]) -> float:
    """Return a figure over the mean of others; infinite if they have none."""
    mean = sum(others) / len(others)
    return figure / mean if mean > 0 else float("inf")


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
        text = f"{share}, and no vertex of the tables behind it is free of backpressure."
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
