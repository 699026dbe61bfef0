"""Small jobs run in memory, and their ledgers as tables: what the tests of two folders share."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa

from flowcontrol.layout.job import Job
from flowcontrol.layout.physical_graph import build_physical_graph
from flowcontrol.records import LEDGER
from flowcontrol.scenario import check_clock, parse_scenario
from staged_runs import RoundRows, run_staged

SEGMENT = "taskmanager.memory.segment-size"
EXCLUSIVE = "taskmanager.network.memory.buffers-per-channel"
FLOATING = "taskmanager.network.memory.floating-buffers-per-gate"
QUOTA = "taskmanager.network.memory.max-buffers-per-channel"
OVERDRAFT = "taskmanager.network.memory.max-overdraft-buffers-per-gate"
THRESHOLD = "taskmanager.network.memory.read-buffer.required-per-gate.max"
BUFFERS = "taskmanager.network.numberOfBuffers"
FLUSH = "execution.buffer-timeout.interval"

COMMITTED = datetime(2026, 1, 1, tzinfo=UTC)

BASE: dict[str, Any] = {
    "schema": 1,
    "name": "small",
    "duration_s": 4,
    "round_ms": 100,
    "options": {SEGMENT: "4kb", FLUSH: "100ms"},
}


def job(
    stages: list[dict[str, Any]],
    edges: Iterable[tuple[Any, ...]],
    options: Mapping[str, Any] | None = None,
    **keys: Any,
) -> Job:
    """Lay out a job; an edge is (from, to, partitioner) and perhaps its other keys."""
    mapping = {**copy.deepcopy(BASE), **keys}
    mapping["options"] = {**mapping["options"], **(options or {})}
    mapping["stages"] = [{"record_bytes": 400, **stage} for stage in stages]
    mapping["edges"] = [
        {"from": edge[0], "to": edge[1], "partitioner": edge[2], **dict(*edge[3:])}
        for edge in edges
    ]
    scenario = parse_scenario(mapping)
    assert check_clock(scenario, "live") == []
    return build_physical_graph(scenario)


def source(rate: Any, **keys: Any) -> dict[str, Any]:
    return {"name": "source", "emit_rate": rate, **keys}


def sink(rate: Any, **keys: Any) -> dict[str, Any]:
    return {"name": "sink", "service_rate": rate, **keys}


def single() -> Job:
    """One channel whose sink falls behind for a second."""
    slow = [{"at_s": 0, "rate": 500}, {"at_s": 1, "rate": 50}, {"at_s": 2, "rate": 500}]
    return job([source(300), sink(slow)], [("source", "sink", "forward")])


def fan_in() -> Job:
    """Three senders compete for the four floating buffers of one gate."""
    stages = [source([600, 100, 300], parallelism=3, placement=[0, 1, 2]), sink(400, placement=[3])]
    cluster = {"task_managers": 4}
    return job(stages, [("source", "sink", "rebalance")], {FLOATING: 4}, cluster=cluster)


def two_by_two() -> Job:
    """Two senders to two receivers, one of them slow; a quota of three buffers a channel."""
    stages = [
        source(500, parallelism=2, placement=[0, 1]),
        sink([400, 60], parallelism=2, placement=[2, 3]),
    ]
    cluster = {"task_managers": 4}
    return job(stages, [("source", "sink", "rebalance")], {QUOTA: 3}, cluster=cluster)


def local() -> Job:
    """Both ends on one task manager."""
    stages = [source(600, placement=[0]), sink(200, placement=[0])]
    return job(stages, [("source", "sink", "forward")])


def slow_sink() -> Job:
    """Records of two and a half buffers: overdraft is used."""
    stages = [source(40, record_bytes=10_000), sink(8)]
    return job(stages, [("source", "sink", "forward")])


def mixed() -> Job:
    """Of two receivers one is local; a map in between, whose sink does not keep up."""
    stages = [
        source(300, placement=[0]),
        {"name": "map", "parallelism": 2, "placement": [0, 1], "selectivity": 1.5},
        sink(250, placement=[1]),
    ]
    cluster = {"task_managers": 2}
    edges = [("source", "map", "rebalance"), ("map", "sink", "rebalance")]
    return job(stages, edges, cluster=cluster)


GOOD = {made.__name__: made for made in (single, fan_in, two_by_two, local, slow_sink, mixed)}
"""Runs that keep every rule, by name."""


def ledger_rows(rounds: Iterable[RoundRows], edge: str = "source->sink") -> list[dict[str, Any]]:
    """Return a link's rows as its ledger holds them."""
    return [
        dict.fromkeys(LEDGER.names)
        | {**row, "side": side, "batch_id": batch.number, "committed_at": COMMITTED}
        for batch in rounds
        for side in ("sender", "receiver")
        for row in batch.rows[edge][side]
    ]


def table(rows: list[dict[str, Any]]) -> pa.Table:
    """Return rows as a table with the ledger's columns."""
    return pa.Table.from_pylist(rows, schema=LEDGER.arrow_schema())


def run(made: Job) -> list[RoundRows]:
    """Run a job to its end."""
    return list(run_staged(made))


def seen(rows: list[dict[str, Any]]) -> set[str]:
    """Name what happened in a run that makes it count."""
    found = set()
    for row in rows:
        state = json.loads(row["channel_state"])
        task = json.loads(row["task_state"] or "null") or {"gates": [], "partitions": []}
        if row["side"] == "receiver":
            marks = {
                "floating buffers held": row["floating_held"] > 0,
                "a channel waited": not state["local"] and state["channel"]["is_waiting"] == 1,
                "floating pool used up": row["floating_held"] == row["pool_size"],
            }
        else:
            pools = [partition["pool"] for partition in task["partitions"]]
            marks = {
                "credit reached 0": not state["local"] and row["sent"] > 0 == row["credit"],
                "overdraft used": row["pool_used"] > row["pool_size"],
                "quota reached": any(pool["at_quota"] > 0 for pool in pools),
                "pool used up": row["pool_used"] >= row["pool_size"],
                "backlog": row["backlog"] > 0,
            }
        found |= {name for name, is_so in marks.items() if is_so}
    return found
