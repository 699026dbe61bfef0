"""Every system beside everything else that a scenario may state: what must hold of any run."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import numpy as np
import pytest

from flowcontrol.scenario import parse_scenario
from flowcontrol.scenario.presets import PRESETS
from flowcontrol.virtual import VirtualRun, simulate

FEW: dict[str, Any] = {
    "blocking_queue": {"slots": 3},
    "half_return_credit": {"slots": 3},
    "batched_credit": {"slots": 3, "lot": 3},
    "cumulative_credit": {"credit": 3, "mark": 0},
    "rate_window": {"unit": 1000, "initial_units": 2},
    "bdp_window": {"initial": 300, "most": 1000},
    "hop_hysteresis": {"slots": 3},
    "global_hysteresis": {"slots": 5},
    "stepwise_sleep": {"slots": 5, "interval_ms": 100},
    "pid_rate": {"min_rate": 1},
    "static_admission": {"max_records": 7},
    "aimd_rate": {"late_ms": 100, "min_rate": 10},
    "frontier_lag": {"lag": 1},
}
"""Parts with limits that this job meets within seconds."""

THROTTLES = ("global_hysteresis", "stepwise_sleep", "pid_rate", "static_admission", "aimd_rate")
TIGHT: dict[str, Any] = {
    name: {"throttle" if name in (*THROTTLES, "frontier_lag") else "transport": {"name": name} | v}
    for name, v in FEW.items()
}
SYSTEMS: dict[str, Any] = {name: name for name in PRESETS} | TIGHT
SYSTEMS |= {f"tcp+{name}": {"transport": "tcp", **TIGHT[name]} for name in THROTTLES}
SYSTEMS |= {f"unbounded+{name}": {"transport": "unbounded", **TIGHT[name]} for name in THROTTLES}


def job(system: Any) -> dict[str, Any]:
    """Two sources, two stages in between, two sinks that are slow for a while."""
    names = [("a", "b"), ("b", "c")]
    slow = [{"at_s": at, "rate": rate} for at, rate in ((0, 250), (2, 60), (3, 1000))]
    stages: list[dict[str, Any]] = [
        {"name": "a", "emit_rate": 400, "record_bytes": 200},
        {"name": "b", "service_rate": 300, "record_bytes": 200},
        {"name": "c", "service_rate": slow},
    ]
    return {
        "schema": 1,
        "name": "together",
        "duration_s": 4,
        "round_ms": 20,
        "system": deepcopy(system),
        "stages": [{**stage, "parallelism": 2} for stage in stages],
        "edges": [{"from": s, "to": r, "partitioner": "rebalance"} for s, r in names],
    }


def columns(run: VirtualRun, table: str) -> dict[str, Any]:
    """Return the columns of a table as arrays."""
    found = run.tables[table]
    return {name: np.array(found.column(name).to_pylist()) for name in found.column_names}


def check(run: VirtualRun) -> None:
    """What holds of any run, whatever moves records and whatever stops a source."""
    scenario = run.job.scenario
    stages, channels, latency = (columns(run, n) for n in ("stages", "channels", "latency"))
    whole = sum(stages[f"{n}_ms_per_s"] for n in ("busy", "idle", "backpressured"))
    np.testing.assert_allclose(whole, 1000, err_msg="the times do not add up to a second")
    for table in (stages, channels, latency):
        for name, values in table.items():
            if name not in ("stage", "edge"):
                assert (values >= 0).all(), f"{name} below nothing"
    ends = {name: table["t_s"] == scenario.duration_s for name, table in
            (("stages", stages), ("channels", channels))}  # fmt: skip

    def total(stage: str, column: str) -> int:
        return int(stages[column][ends["stages"] & (stages["stage"] == stage)].sum())

    for edge in scenario.edges:
        own = ends["channels"] & (channels["edge"] == edge.name)
        in_flight = int(channels["in_flight_records"][own].sum())
        copies = 1
        if edge.partitioner == "broadcast":
            copies = scenario.stage(edge.receiver).parallelism
        sent = copies * total(edge.sender, "records_out")
        assert sent == total(edge.receiver, "records_in") + in_flight, edge.name
    assert latency["count"].sum() == total("c", "records_in")
    assert (latency["max_ms"] <= 1000 * scenario.duration_s).all()
    highest = {"b": 300, "c": 1000}
    for stage, rate in highest.items():
        assert (stages["rate_in"][stages["stage"] == stage] <= rate + 2).all(), stage


@pytest.mark.parametrize("system", SYSTEMS)
def test_a_run_balances(system: str) -> None:
    check(simulate(parse_scenario(job(SYSTEMS[system]))))
