"""Checkpoints on the live clock: every row of every ledger, and the tables, as on the virtual."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from flowcontrol.records import CHECKPOINT_RESULTS
from flowcontrol.run import RunResult
from modules import load

cases = load("tests/live/cases.py")
runs = load("tests/live/runs.py")

pytestmark = pytest.mark.spark

PREFIX = "execution.checkpointing."
MODES: dict[str, dict[str, Any]] = {
    "aligned": {},
    "unaligned": {f"{PREFIX}unaligned": True},
    "timeout": {f"{PREFIX}unaligned": True, f"{PREFIX}aligned-checkpoint-timeout": "200ms"},
    "at-least-once": {f"{PREFIX}mode": "AT_LEAST_ONCE"},
    "expires": {f"{PREFIX}timeout": "300ms", f"{PREFIX}tolerable-failed-checkpoints": 9},
}


def with_checkpoints(mapping: Mapping[str, Any], mode: str) -> dict[str, Any]:
    """Have a scenario checkpoint every 400 ms, and slow its sink down."""
    options = {**mapping["options"], f"{PREFIX}interval": "400ms", **MODES[mode]}
    *others, last = mapping["stages"]
    rate = 100 if mode == "expires" else 600
    return {**mapping, "options": options, "stages": [*others, {**last, "service_rate": rate}]}


# The quick form has those of test_restarts.py, and on Spark those of test_failures.py.
@pytest.mark.long
@pytest.mark.parametrize("mode", MODES)
def test_a_live_run_is_that_of_the_virtual_clock(
    mode: str, run_live: Callable[..., RunResult], tmp_path: Path
) -> None:
    job = runs.job_of(with_checkpoints(cases.STAGES, mode))
    result = run_live(job.scenario, tmp_path / "run")
    runs.assert_is_virtual(job, result.path)
    for name in CHECKPOINT_RESULTS:
        found = DeltaTable(str(result.path / name)).to_pyarrow_table()
        assert found.to_pylist() == result.tables[name].to_pylist() != []
    statuses = result.tables["checkpoints"].column("status").to_pylist()
    assert ("expired" if mode == "expires" else "completed") in statuses
