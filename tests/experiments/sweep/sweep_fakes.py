"""A simulation that takes no time: the slowest stage of a chain sets the pace."""

from __future__ import annotations

import os
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from flowcontrol.records import RESULTS
from flowcontrol.scenario import Scenario

CHAIN: dict[str, Any] = {
    "schema": 1,
    "name": "chain",
    "duration_s": 10,
    "round_ms": 100,
    "seed": 7,
    "stages": [
        {"name": "source", "emit_rate": 1000, "record_bytes": 200},
        {"name": "map", "service_rate": 2000},
        {"name": "sink", "service_rate": 500},
    ],
    "edges": [
        {"from": "source", "to": "map", "partitioner": "rebalance"},
        {"from": "map", "to": "sink", "partitioner": "rebalance"},
    ],
}


@dataclass(frozen=True)
class FakeRun:
    tables: dict[str, pa.Table]
    rounds: int
    round_us: int
    wall_s: float


def rate_of(scenario: Scenario) -> float:
    """Records/s that get through, a little of the seed added so that replications differ."""
    rates = []
    for stage in scenario.stages:
        schedules = stage.emit_rate or stage.service_rate or ()
        rates.append(sum(float(schedule.rate_at(0)) for schedule in schedules) or 1e9)
    return min(rates) + scenario.seed


def simulate(scenario: Scenario) -> FakeRun:
    rate = rate_of(scenario)
    rows: dict[str, list[dict[str, Any]]] = {name: [] for name in RESULTS}
    for t_s in (5.0, 10.0):
        for stage in scenario.stages:
            rows["stages"].append(_stage(scenario, stage.name, t_s, rate))
        for edge in scenario.edges:
            rows["channels"].append(
                _filled("channels", t_s=t_s, edge=edge.name, released=40, consumed=10,
                        in_flight_records=300, in_flight_bytes=60_000)
            )  # fmt: skip
        rows["latency"].append(
            _filled("latency", t_s=t_s, stage=scenario.stages[-1].name, kind="record",
                    count=int(5 * rate), mean_ms=50, p50_ms=1e6 / rate, p90_ms=90,
                    p99_ms=2e6 / rate, max_ms=200)
        )  # fmt: skip
    tables = {
        name: pa.Table.from_pylist(rows[name], schema=table.arrow_schema())
        for name, table in RESULTS.items()
    }
    return FakeRun(tables, 100, 100_000, 0.25)


def _stage(scenario: Scenario, name: str, t_s: float, rate: float) -> dict[str, Any]:
    is_first, is_last = name == scenario.stages[0].name, name == scenario.stages[-1].name
    return _filled(
        "stages", t_s=t_s, stage=name,
        records_in=0 if is_first else int(t_s * rate), rate_in=0 if is_first else rate,
        records_out=0 if is_last else int(t_s * rate), rate_out=0 if is_last else rate,
        busy_ms_per_s=990 if is_last else 100, backpressured_ms_per_s=0 if is_last else 800,
        idle_ms_per_s=10 if is_last else 100,
    )  # fmt: skip


def _filled(table: str, **given: Any) -> dict[str, Any]:
    kinds = {"string": "", "int64": 0, "float64": 0.0}
    return {column.name: kinds[column.type] for column in RESULTS[table].columns} | given


class Recording:
    """Simulates, and keeps which seeds and rates it was asked for."""

    def __init__(self) -> None:
        self.ran: list[Scenario] = []
        self._lock = threading.Lock()

    def __call__(self, scenario: Scenario) -> FakeRun:
        with self._lock:
            self.ran.append(scenario)
        return simulate(scenario)


def fails_at_250(scenario: Scenario) -> FakeRun:
    if float(scenario.stage("sink").service_rate[0].rate_at(0)) == 250:
        raise ArithmeticError("a planted fault")
    return simulate(scenario)


def slowly(scenario: Scenario) -> FakeRun:
    """Take a while and leave a mark for each run in the folder that FAKE_MARKS names."""
    Path(os.environ["FAKE_MARKS"], f"{scenario.name}-{os.getpid()}-{time.monotonic_ns()}").touch()
    time.sleep(0.15)
    return simulate(scenario)


def dies_at_250(scenario: Scenario) -> FakeRun:
    if float(scenario.stage("sink").service_rate[0].rate_at(0)) == 250:
        os._exit(9)
    return simulate(scenario)
