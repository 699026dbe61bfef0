"""Hand-made results: a scenario from a few words, and tables whose every figure is stated."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from flowcontrol.records import RESULTS, TIME
from flowcontrol.scenario import Scenario, parse_scenario

TABLES = {**RESULTS, TIME.name: TIME}
NO_FIGURE = dict.fromkeys(column.name for column in TIME.columns if column.nullable)
Value = Any  # one number for all samples, or a list with one per sample


def scenario(name: str, stages: dict[str, dict[str, Any]], edges: Sequence[str]) -> Scenario:
    """Return a scenario; edges are written as results call them, ``source->sink``."""
    pairs = [edge.split("->") for edge in edges]
    receivers = {receiver for _, receiver in pairs}
    made = [
        {"name": stage, **({} if stage in receivers else {"emit_rate": 10000}), **keys}
        for stage, keys in stages.items()
    ]
    return parse_scenario(
        {
            "schema": 1,
            "name": name,
            "duration_s": 100,
            "stages": made,
            "edges": [
                {"from": sender, "to": receiver, "partitioner": "rebalance"}
                for sender, receiver in pairs
            ],
        }
    )


@dataclass
class Results:
    """Tables of a run with samples at the given times; what is not stated is 0.

    There is a table ``time`` if it has rows; its watermarks are null if they are not stated.
    """

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

    def time(
        self, stage: str, subtask: int = 0, watermark_s: Value = None, **columns: Value
    ) -> Results:
        marks = watermark_s if isinstance(watermark_s, list) else [watermark_s] * len(self.times)
        lags = [
            None if mark is None else 1000 * (t_s - mark)
            for t_s, mark in zip(self.times, marks, strict=True)
        ]
        figures = {**NO_FIGURE, "is_idle": False, "watermark_s": marks, "watermark_lag_ms": lags}
        self.rows.setdefault("time", [])
        return self._add("time", {"stage": stage, "subtask": subtask}, figures | columns)

    def _add(self, table: str, owner: dict[str, Any], columns: dict[str, Value]) -> Results:
        unknown = set(columns) - set(TABLES[table].names)
        assert not unknown, f"no such column: {unknown}"
        for index, t_s in enumerate(self.times):
            figures = {
                key: value[index] if isinstance(value, list) else value
                for key, value in columns.items()
            }
            zeros = dict.fromkeys(TABLES[table].names, 0)
            kind = {"kind": "record"} if "kind" in zeros else {}
            self.rows[table].append({**zeros, **kind, "t_s": t_s, **owner, **figures})
        return self

    def tables(self) -> dict[str, pa.Table]:
        return {
            name: pa.Table.from_pylist(rows, schema=TABLES[name].arrow_schema())
            for name, rows in self.rows.items()
        }
