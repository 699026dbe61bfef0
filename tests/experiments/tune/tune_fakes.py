"""A simulation that takes no time: buffers raise the rate and the latency of a chain."""

from __future__ import annotations

import copy
import os
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import sweep_fakes

from flowcontrol.experiments.sweep.columns import results_table
from flowcontrol.experiments.sweep.plan import Plan
from flowcontrol.experiments.sweep.variants import Variant
from flowcontrol.scenario import Scenario

EXCLUSIVE = "options.taskmanager.network.memory.buffers-per-channel"
FLOATING = "options.taskmanager.network.memory.floating-buffers-per-gate"
SEGMENT = "options.taskmanager.memory.segment-size"

CHAIN: dict[str, Any] = copy.deepcopy(sweep_fakes.CHAIN)
CHAIN["options"] = {"taskmanager.memory.segment-size": "8kb"}

VARY = {EXCLUSIVE: "1:8:8", FLOATING: "1,2,4,8,16", SEGMENT: "4kb,8kb,16kb,32kb"}
"""160 points."""


def window_of(scenario: Scenario) -> int:
    """Bytes that a channel can have under way."""
    options = scenario.options
    return (options.exclusive_buffers + options.floating_buffers) * options.segment_bytes


def simulate(scenario: Scenario) -> sweep_fakes.FakeRun:
    """Records get through in proportion to the window, 500 a second at most; it adds latency."""
    window = window_of(scenario)
    rate = min(500.0, window / 120)
    found = sweep_fakes.simulate(scenario)
    stages, latency = (found.tables[name].to_pylist() for name in ("stages", "latency"))
    for row in stages:
        for name in ("rate_in", "rate_out"):
            row[name] = rate if row[name] else 0.0
        for name in ("records_in", "records_out"):
            row[name] = int(rate * row["t_s"]) if row[name] else 0
    for row in latency:
        row["p99_ms"] = 10.0 + window / 1000
    return sweep_fakes.FakeRun(
        found.tables | {"stages": _table(stages, "stages"), "latency": _table(latency, "latency")},
        found.rounds,
        found.round_us,
        found.wall_s,
    )


def _table(rows: list[dict[str, Any]], name: str) -> pa.Table:
    return pa.Table.from_pylist(rows, schema=sweep_fakes.RESULTS[name].arrow_schema())


def rows_of(plan: Plan, variant: Variant, simulate: Any) -> list[dict[str, Any]]:
    """In the place of :func:`run_variant`: the rows of a run without the summary of its tables.

    That takes a hundred times as long as the rest, and has tests of its own.
    """
    scenario = plan.scenario(variant.point, variant.seed)
    found = simulate(scenario)
    columns = results_table([varied.result_column() for varied in plan.varied]).columns
    empty = {one.name: "" if one.type == "string" else None for one in columns}
    pairs = zip(plan.varied, variant.point, strict=True)
    own = {
        "variant": variant.id,
        **{varied.column: varied.typed(value) for varied, value in pairs},
        "rounds": 100,
        "round_ms": 100.0,
    }
    latency = found.tables["latency"].to_pylist()
    own |= {
        "rate_in": min(500.0, window_of(scenario) / 120),
        "latency_p99_ms": latency[0]["p99_ms"] if latency else None,
    }
    return [{**empty, **own, "stage": stage.name} for stage in scenario.stages]


def slowly(scenario: Scenario) -> sweep_fakes.FakeRun:
    """Take a while and leave a mark for each run in the folder that FAKE_MARKS names."""
    Path(os.environ["FAKE_MARKS"], f"{os.getpid()}-{time.monotonic_ns()}").touch()
    time.sleep(0.02)
    return simulate(scenario)


def fails_at_8(scenario: Scenario) -> sweep_fakes.FakeRun:
    if scenario.options.exclusive_buffers == 8:
        raise ArithmeticError("a planted fault")
    return simulate(scenario)


def nothing_ever_arrives(scenario: Scenario) -> sweep_fakes.FakeRun:
    """No latency is measured."""
    found = simulate(scenario)
    found.tables["latency"] = found.tables["latency"].slice(0, 0)
    return found


def nothing_arrives(scenario: Scenario) -> sweep_fakes.FakeRun:
    """No latency is measured where the window is small."""
    found = simulate(scenario)
    if window_of(scenario) < 40_000:
        found.tables["latency"] = found.tables["latency"].slice(0, 0)
    return found
