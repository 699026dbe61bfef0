"""Hand-made tables of checkpoints: source -> map -> sink, whose every duration is stated."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from flowcontrol.records import CHECKPOINT_RESULTS
from flowcontrol.scenario import Scenario, parse_scenario
from modules import load

SUBTASKS = (("source", 0), ("map", 0), ("map", 1), ("sink", 0))


def scenario(interval: str = "10s", **keys: Any) -> Scenario:
    """Return the scenario: two subtasks of map, one each of source and sink."""
    option = "execution.checkpointing."
    return parse_scenario(
        {
            "schema": 1, "name": "checkpointed", "duration_s": 100,
            "options": {f"{option}interval": interval, f"{option}timeout": "9s"},
            "stages": [{"name": "source", "emit_rate": 100}, {"name": "map", "parallelism": 2},
                       {"name": "sink"}],
            "edges": [{"from": "source", "to": "map", "partitioner": "rebalance"},
                      {"from": "map", "to": "sink", "partitioner": "rebalance"}],
            **keys,
        }
    )  # fmt: skip


class Taken:
    """Checkpoints, one after the other, and what their subtasks reported."""

    def __init__(self) -> None:
        self.checkpoints: list[dict[str, Any]] = []
        self.tasks: list[dict[str, Any]] = []

    def checkpoint(self, at_s: float, status: str, e2e_ms: float | None, **figures: Any) -> Taken:
        """Add one; ``e2e_ms`` None is one that was in progress at the end."""
        sizes = dict.fromkeys(("state_bytes", "processed_bytes", "persisted_bytes"), 0)
        row = {
            "checkpoint_id": len(self.checkpoints) + 1, "kind": "checkpoint", "status": status,
            "triggered_s": at_s, "ended_s": None if e2e_ms is None else at_s + e2e_ms / 1000,
            "e2e_ms": e2e_ms, "acknowledged": 4, "subtasks": 4, **sizes, **figures,
        }  # fmt: skip
        self.checkpoints.append(row | {"is_unaligned": row["persisted_bytes"] > 0})
        return self

    def task(
        self, stage: str, subtask: int, *parts: float | None, e2e_ms: float | None = None,
        **sizes: int,
    ) -> Taken:  # fmt: skip
        """Add a subtask of the last one: start delay, alignment, sync and async part, in ms."""
        row = self.checkpoints[-1]
        total = sum(part or 0.0 for part in parts) if e2e_ms is None else e2e_ms
        names = ("start_delay_ms", "alignment_ms", "sync_ms", "async_ms")
        none = dict.fromkeys(("processed_bytes", "persisted_bytes", "state_bytes"), 0)
        self.tasks.append(
            {
                "checkpoint_id": row["checkpoint_id"], "stage": stage, "subtask": subtask,
                "acknowledged_s": row["triggered_s"] + total / 1000, "e2e_ms": total,
                **dict(zip(names, parts, strict=True)), **none, **sizes,
            }
        )  # fmt: skip
        return self

    def all(self, *parts: tuple[float, float, float, float]) -> Taken:
        """Add all subtasks of the last one, in the order of SUBTASKS."""
        for (stage, subtask), own in zip(SUBTASKS, parts, strict=True):
            self.task(stage, subtask, *own)
        return self

    def tables(self) -> dict[str, pa.Table]:
        """Return the two tables."""
        rows = {"checkpoints": self.checkpoints, "checkpoint_tasks": self.tasks}
        return {
            name: pa.Table.from_pylist(own, schema=CHECKPOINT_RESULTS[name].arrow_schema())
            for name, own in rows.items()
        }


def samples(**in_flight: Any) -> dict[str, pa.Table]:
    """Return stages and channels at 1, 2, ... 100 s.

    ``in_flight``: records of 100 bytes of the channels, as ``source_map=(left, right)`` and
    ``map_sink=(from left, from right)``, a number or one per sample.
    """
    builder = load("tests/analysis/builder.py")
    made = builder.Results([float(second) for second in range(1, 101)])
    made.stage("source", rate_out=100, backpressured_ms_per_s=800)
    made.stage("map", rate_in=50, rate_out=50).stage("map", 1, rate_in=50, rate_out=50)
    made.stage("sink", rate_in=100, busy_ms_per_s=1000)
    for edge, own in (("source->map", (0, 1)), ("map->sink", (1, 0))):
        held = in_flight.get(edge.replace("->", "_"), (0, 0))
        for index, records in enumerate(held):
            levels = records if isinstance(records, list) else [records] * 100
            sizes = [100 * level for level in levels]
            figures = {"in_flight_records": levels, "in_flight_bytes": sizes}
            made.channel(edge, index * own[0], index * own[1], **figures)
    return dict(made.tables())
