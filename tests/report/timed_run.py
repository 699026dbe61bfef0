"""A made-up run with event time: a sink that slows down, aligned sources, windows that burst."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from flowcontrol.records import RESULTS, TIME
from flowcontrol.scenario import Scenario, parse_scenario

SLOW = range(30, 60)
"""Seconds in which the sink is slow."""

SIZE, KEYS = 10, 2000
SPREAD = {"kind": "uniform", "keys": KEYS}


def _aligned(name: str, delay_s: float) -> dict[str, Any]:
    alignment = {"group": "both", "max_drift_s": 2}
    return {
        "name": name,
        "emit_rate": 1000,
        "event_time": {"out_of_orderness_s": 6},
        "watermark": {"delay_s": delay_s, "alignment": alignment},
    }


MAPPING = {
    "schema": 1,
    "name": "event-time",
    "duration_s": 100,
    "round_ms": 100,
    "sample_interval_s": 1,
    "stages": [
        {**_aligned("clicks", 5), "parallelism": 3},
        _aligned("orders", 5),
        {
            "name": "count",
            "parallelism": 3,
            "service_rate": 3000,
            "window": {"kind": "tumbling", "size_s": SIZE},
        },
        {"name": "sink", "service_rate": [{"at_s": 0, "rate": 3000}, {"at_s": 30, "rate": 400}]},
    ],
    "edges": [
        {"from": sender, "to": "count", "partitioner": "hash", "key_distribution": SPREAD}
        for sender in ("clicks", "orders")
    ]
    + [{"from": "count", "to": "sink", "partitioner": "rebalance"}],
}


def timed() -> tuple[dict[str, pa.Table], Scenario]:
    """Return tables and scenario: lags rise to some 14 s while the sink is slow."""
    rows: dict[str, list[dict[str, Any]]] = {name: [] for name in (*RESULTS, "time")}
    scenario = parse_scenario(MAPPING)
    for second in range(1, 101):
        held = max(0, min(second - 30, 90 - second, 30)) / 30  # how full the buffers are
        lags = {"clicks": 5.1 + held, "orders": 5.15 + 2 * held}
        lags |= {"count": lags["orders"] + 4 * held + 0.1}
        lags |= {"sink": lags["count"] + 5 * held + 0.1}
        for stage in scenario.stages:
            for subtask in range(stage.parallelism):
                lag = lags[stage.name] - 0.3 * held * subtask
                is_counting, is_source = stage.name == "count", not scenario.inputs(stage.name)
                own = {
                    "watermark_s": None if second == 1 and not is_source else second - lag,
                    "watermark_lag_ms": None if second == 1 and not is_source else 1000 * lag,
                    "is_idle": False,
                    "paused_ms_per_s": 400 * held if stage.name == "clicks" and subtask < 2 else 0,
                    "open_windows": int(KEYS / 3 * (1 + lag // SIZE)) if is_counting else 0,
                    "window_state_bytes": int(KEYS * 33 * (1 + lag / SIZE)) if is_counting else 0,
                    "fired": KEYS // 3 * (second // SIZE) if is_counting else 0,
                    "late_records": 12 * max(0, second - 20) if is_counting else 0,
                }
                place = {"t_s": float(second), "stage": stage.name, "subtask": subtask}
                rows["time"].append({**place, **own})
                rows["stages"].append(
                    {
                        **dict.fromkeys(RESULTS["stages"].names, 0), **place,
                        "records_in": 0 if is_source else 1000 * second,
                        "records_out": 1000 * second, "rate_in": 1000.0, "rate_out": 1000.0,
                        "busy_ms_per_s": 990 * held if stage.name == "sink" else 100,
                        "backpressured_ms_per_s": 0 if stage.name == "sink" else 900 * held,
                        "idle_ms_per_s": 10,
                    }
                )  # fmt: skip
        rows["channels"] += _channels(scenario, float(second), held)
    tables = {
        name: pa.Table.from_pylist(own, schema=({**RESULTS, "time": TIME})[name].arrow_schema())
        for name, own in rows.items()
    }
    return tables, scenario


def _channels(scenario: Scenario, t_s: float, held: float) -> list[dict[str, Any]]:
    zeros = dict.fromkeys(RESULTS["channels"].names, 0)
    return [
        {
            **zeros, "t_s": t_s, "edge": edge.name, "sender": sender, "receiver": receiver,
            "released": int(10 * t_s + 20 * held), "consumed": int(10 * t_s),
            "in_flight_records": int(20 + 1500 * held),
            "in_flight_bytes": int(2000 + 150_000 * held),
        }
        for edge in scenario.edges
        for sender in range(scenario.stage(edge.sender).parallelism)
        for receiver in range(scenario.stage(edge.receiver).parallelism)
    ]  # fmt: skip
