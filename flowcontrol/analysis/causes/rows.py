"""Vertices of a job from rows of one moment, and the order in which they are walked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import inf
from numbers import Real
from typing import Any, Final

from flowcontrol.analysis.pressure import worst_pressure
from flowcontrol.protocol.monitoring import Pressure

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
