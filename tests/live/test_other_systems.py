"""Other systems' flow control on the live clock: every row and table as on the virtual one.

That a run stage by stage agrees with the virtual clock, over random jobs, is held by
``tests/virtual/test_record_transports.py`` and ``test_throttles.py``.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from flowcontrol.run import RunResult
from flowcontrol.scenario.system import THROTTLE_PARTS, TRANSPORT_PARTS
from modules import load

cases = load("tests/live/cases.py")
runs = load("tests/live/runs.py")

pytestmark = pytest.mark.spark

QUEUE = {"name": "blocking_queue", "slots": 60}


def slowed(throttle: str, **parameters: float) -> dict[str, Any]:
    """Return a system that slows its sources, between which and its sinks nothing is bounded."""
    return {"transport": "unbounded", "throttle": {"name": throttle, **parameters}}


SYSTEMS: dict[str, dict[str, Any]] = {
    "tcp": {"transport": "tcp"},
    "unbounded": {"transport": "unbounded"},
    "local": {"transport": "local"},
    "blocking_queue": {"transport": QUEUE},
    "half_return_credit": {"transport": {"name": "half_return_credit", "slots": 60}},
    "batched_credit": {"transport": {"name": "batched_credit", "slots": 80, "lot": 20}},
    "cumulative_credit": {"transport": "cumulative_credit"},
    "rate_window": {"transport": {"name": "rate_window", "unit": 4096, "initial_units": 4}},
    "bdp_window": {"transport": {"name": "bdp_window", "initial": 8192, "most": 65536}},
    "hop_hysteresis": {"transport": {"name": "hop_hysteresis", "slots": 60}},
    "push_quota": {
        "transport": {
            "name": "push_quota",
            "writer_bytes": 8000,
            "reader_bytes": 4000,
            "buffer_bytes": 1000,
            "socket_bytes": 0,
            "kernel_bytes": 2000,
            "flush_ms": 150,
        }
    },
    "global_hysteresis": slowed("global_hysteresis", slots=150, delay_on_ms=200),
    "stepwise_sleep": slowed("stepwise_sleep", slots=100, interval_ms=100, samples=2),
    "pid_rate": slowed("pid_rate", interval_ms=300, min_rate=20),
    "static_admission": {
        "transport": QUEUE,
        "throttle": {"name": "static_admission", "max_records": 90},
    },
    "long_batches": {
        "transport": QUEUE,
        "throttle": {"name": "long_batches", "batch_ms": 500, "overhead_ms": 100},
    },
    "aimd_rate": slowed(
        "aimd_rate", min_rate=50, interval_ms=200, late_ms=200, cooldown_ms=200, window_ms=400
    ),
    "frontier_lag": slowed("frontier_lag"),
}

COMMAND = ("is_stopped", "gap_ns", "admitted")

IS_LONG = "FLOWCONTROL_LONG" in os.environ
RUN = list(SYSTEMS) if IS_LONG else ["static_admission"]
"""The quick form runs a transport with a throttle; test_stand_in.py has more without Spark."""


def test_every_part_of_the_live_clock_is_run() -> None:
    ours = {"credit", "none", "chained"}
    assert set(SYSTEMS) == {*TRANSPORT_PARTS, *THROTTLE_PARTS} - ours


@pytest.mark.holds(
    (
        "tcp",
        "unbounded",
        "local",
        "blocking_queue",
        "half_return_credit",
        "batched_credit",
        "cumulative_credit",
        "rate_window",
        "bdp_window",
        "hop_hysteresis",
        "push_quota",
        "global_hysteresis",
        "stepwise_sleep",
        "pid_rate",
        "static_admission",
        "long_batches",
        "aimd_rate",
        "frontier_lag",
    ),
    "live",
    "the virtual clock: every ledger row and table",
)
@pytest.mark.parametrize("name", RUN)
def test_a_live_run_is_that_of_the_virtual_clock(
    name: str, run_live: Callable[..., RunResult], tmp_path: Path
) -> None:
    stages = cases.STAGES["stages"]
    if name == "long_batches":  # no table is written in real-time mode
        stages = [{k: value for k, value in one.items() if k != "output"} for one in stages]
    job = runs.job_of({**cases.STAGES, "stages": stages, "system": SYSTEMS[name]})
    result = run_live(job.scenario, tmp_path / "run")
    ledgers = runs.assert_is_virtual(job, result.path)
    assert result.summary["rounds"] == job.rounds == 18
    rows = [row for row in ledgers["source->map"] if row["side"] == "sender"]
    assert rows[-1]["sent"] > 0
    sources = [row["task_state"].get("source", {}) for row in rows]
    told = {tuple(source.get(name) for name in COMMAND) for source in sources}
    if job.scenario.system.throttle != "none":
        assert len(told) > 1  # it said more than one thing
    ends = [row for row in ledgers["map->sink"] if row["side"] == "receiver"]
    assert sum(row["rows"] for row in ends) > 0
