"""Hand-made results: a scenario from a few words, and tables whose every figure is stated."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import pyarrow as pa

from flowcontrol.records import RESULTS

Value = Any  # one number for all samples, or a list with one per sample


@dataclass(frozen=True)
class Phase:
    at_us: int
    rate: Fraction


@dataclass(frozen=True)
class Schedule:
    phases: tuple[Phase, ...]


@dataclass(frozen=True)
class Stage:
    name: str
    parallelism: int
    emit_rate: tuple[Schedule, ...] | None
    service_rate: tuple[Schedule, ...] | None
    placement: tuple[int, ...]


@dataclass(frozen=True)
class Edge:
    sender: str
    receiver: str
    partitioner: str = "rebalance"

    @property
    def name(self) -> str:
        return f"{self.sender}->{self.receiver}"


@dataclass(frozen=True)
class Options:
    exclusive_buffers: int = 2
    floating_buffers: int = 8


@dataclass(frozen=True)
class Scenario:
    name: str
    stages: tuple[Stage, ...]
    edges: tuple[Edge, ...]
    duration_s: float = 100.0
    options: Options = field(default_factory=Options)

    def stage(self, name: str) -> Stage:
        return next(stage for stage in self.stages if stage.name == name)

    def inputs(self, name: str) -> tuple[Edge, ...]:
        return tuple(edge for edge in self.edges if edge.receiver == name)

    def outputs(self, name: str) -> tuple[Edge, ...]:
        return tuple(edge for edge in self.edges if edge.sender == name)

    def topological(self) -> tuple[Stage, ...]:
        done: list[Stage] = []
        while len(done) < len(self.stages):
            names = {stage.name for stage in done}
            done.extend(
                stage
                for stage in self.stages
                if stage not in done and all(e.sender in names for e in self.inputs(stage.name))
            )
        return tuple(done)


def schedule(value: Value) -> Schedule:
    if not isinstance(value, list):
        value = [(0, value)]
    return Schedule(tuple(Phase(int(at * 1_000_000), Fraction(rate)) for at, rate in value))


def scenario(name: str, stages: dict[str, dict[str, Any]], edges: Sequence[str]) -> Scenario:
    """Return a scenario; stages by name with parallelism, emit_rate, service_rate."""
    made = []
    for index, (stage, keys) in enumerate(stages.items()):
        count = keys.get("parallelism", 1)
        rates = {
            key: tuple(schedule(keys[key]) for _ in range(count)) if key in keys else None
            for key in ("emit_rate", "service_rate")
        }
        placement = tuple(keys.get("placement", [index % 2] * count))
        made.append(Stage(stage, count, rates["emit_rate"], rates["service_rate"], placement))
    return Scenario(name, tuple(made), tuple(Edge(*edge.split("->")) for edge in edges))


@dataclass
class Results:
    """Tables of a run with samples at the given times; what is not stated is 0."""

    times: Sequence[float]
    rows: dict[str, list[dict[str, Any]]] = field(
        default_factory=lambda: {name: [] for name in RESULTS}
    )

    def stage(self, stage: str, subtask: int = 0, **columns: Value) -> Results:
        return self._add("stages", {"stage": stage, "subtask": subtask}, columns)

    def channel(self, edge: str, sender: int = 0, receiver: int = 0, **columns: Value) -> Results:
        owner = {"edge": edge, "sender": sender, "receiver": receiver}
        return self._add("channels", owner, columns)

    def latency(self, stage: str, subtask: int = 0, **columns: Value) -> Results:
        return self._add("latency", {"stage": stage, "subtask": subtask}, columns)

    def _add(self, table: str, owner: dict[str, Any], columns: dict[str, Value]) -> Results:
        unknown = set(columns) - set(RESULTS[table].names)
        assert not unknown, f"no such column: {unknown}"
        for index, t_s in enumerate(self.times):
            figures = {
                key: value[index] if isinstance(value, list) else value
                for key, value in columns.items()
            }
            zeros = dict.fromkeys(RESULTS[table].names, 0)
            self.rows[table].append({**zeros, "t_s": t_s, **owner, **figures})
        return self

    def tables(self) -> dict[str, pa.Table]:
        return {
            name: pa.Table.from_pylist(rows, schema=RESULTS[name].arrow_schema())
            for name, rows in self.rows.items()
        }
