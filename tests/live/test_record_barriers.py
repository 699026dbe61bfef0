"""Checkpoints and failures of the live clock where records are counted: the virtual clock's."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from flowcontrol import audit
from flowcontrol.errors import LedgerError

SYSTEMS: dict[str, Any] = {
    "arroyo": {"transport": {"name": "blocking_queue", "slots": 60}},
    "unbounded": {"transport": "unbounded"},
}


def scenario(system: Any) -> dict[str, Any]:
    """A fast source and a slow one, a checkpoint a second; the sink fails behind the second."""
    return {
        "schema": 1,
        "name": "barriers",
        "duration_s": 4,
        "round_ms": 100,
        "system": system,
        "cluster": {"task_managers": 3},
        "options": {
            "execution.checkpointing.interval": "1s",
            "restart-strategy.type": "fixed-delay",
            "restart-strategy.fixed-delay.delay": "100ms",
        },
        "failures": [{"at_s": 2.75, "stage": "sink", "subtask": 0}],
        "stages": [
            {"name": "fast", "emit_rate": 200, "record_bytes": 100, "placement": [0]},
            {"name": "slow", "emit_rate": 5, "record_bytes": 100, "placement": [1]},
            {"name": "sink", "service_rate": 120, "placement": [2]},
        ],
        "edges": [
            {"from": "fast", "to": "sink", "partitioner": "rebalance"},
            {"from": "slow", "to": "sink", "partitioner": "rebalance"},
        ],
    }


@pytest.mark.parametrize("name", ["arroyo", pytest.param("unbounded", marks=pytest.mark.long)])
def test_the_run_is_the_virtual_clocks(
    name: str, failing: ModuleType, driver: ModuleType, runs: ModuleType, tmp_path: Path
) -> None:
    job = runs.job_of(scenario(SYSTEMS[name]))
    driver.Driver(job, tmp_path / "run").run()
    ledgers = runs.assert_is_virtual(job, tmp_path / "run")
    assert failing.restarts_of(job).restarts
    with pytest.raises(LedgerError, match=r"/ledger is the ledger of a transport without credits"):
        audit(tmp_path / "run")
    received = [
        row["channel_state"]
        for link in job.links
        for row in ledgers[link.name]
        if row["side"] == "receiver"
    ]
    assert any(one["aligned"]["is_withheld"] and one["queue"] for one in received)
