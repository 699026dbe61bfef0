"""Jobs whose tasks see each other within a round, on the live clock: one pool, or one disk.

Every stage's process steps all tasks, so the rows of a round are those behind all of it, the turns
of connections and disks among it.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from flowcontrol import audit
from flowcontrol.errors import LedgerError
from flowcontrol.layout.job import Job
from flowcontrol.layout.physical_graph import build_physical_graph
from flowcontrol.layout.replay import NO_ROWS
from flowcontrol.live import whole as whole_memory
from flowcontrol.live.folder import RunPaths
from flowcontrol.live.history import History, Observed
from flowcontrol.results.figures import partition_figures
from flowcontrol.scenario import load_scenario
from flowcontrol.virtual.clock import run_job
from modules import load

driver = load("tests/live/driver.py")
runs = load("tests/live/runs.py")

CONF = Path(__file__).resolve().parents[2] / "conf"


def two_jobs(*, start_s: float = 0.4, stop_s: float | None = 1.2, **cluster: Any) -> dict[str, Any]:
    """Return two jobs whose task managers have too few buffers for both."""
    audited = {"name": "audit", "start_at_s": start_s, "stop_at_s": stop_s}
    if stop_s is None:
        del audited["stop_at_s"]
    return {
        "schema": 1,
        "name": "two",
        "duration_s": 2,
        "round_ms": 100,
        "sample_interval_s": 0.5,
        "cluster": {"task_managers": 2, **cluster},
        "options": {
            "taskmanager.memory.segment-size": "4kb",
            "taskmanager.network.numberOfBuffers": 40,
        },
        "jobs": [
            {
                "name": "orders",
                "stages": [
                    {"name": "orders", "parallelism": 2, "emit_rate": 2000, "record_bytes": 200,
                     "placement": [0, 0]},
                    {"name": "sink", "parallelism": 2, "service_rate": 300, "placement": [1, 1],
                     "output": {"format": "delta"}},
                ],
                "edges": [{"from": "orders", "to": "sink", "partitioner": "rebalance"}],
            },
            {
                **audited,
                "stages": [
                    {"name": "events", "parallelism": 2, "emit_rate": 800, "record_bytes": 200,
                     "placement": [0, 0]},
                    {"name": "store", "parallelism": 2, "service_rate": 200, "placement": [1, 1],
                     "output": {"format": "delta"}},
                ],
                "edges": [{"from": "events", "to": "store", "partitioner": "rebalance"}],
            },
        ],
    }  # fmt: skip


def on_disk(first: str, second: str = "pipelined_bounded") -> dict[str, Any]:
    """Return a job of three stages whose source ends, over edges of some kinds."""
    return {
        "schema": 1,
        "name": "disk",
        "duration_s": 2.4,
        "round_ms": 100,
        "sample_interval_s": 0.5,
        "cluster": {"task_managers": 2, "disk_bytes_per_s": 300e3},
        "options": {
            "taskmanager.memory.segment-size": "4kb",
            "taskmanager.network.sort-shuffle.min-buffers": 8,
        },
        "stages": [
            {"name": "source", "parallelism": 2, "record_bytes": 200,
             "emit_rate": [{"at_s": 0, "rate": 1000}, {"at_s": 0.5, "rate": 0}]},
            {"name": "map", "parallelism": 2, "service_rate": 1500, "record_bytes": 100},
            {"name": "sink", "parallelism": 2, "service_rate": 800,
             "output": {"format": "delta"}},
        ],
        "edges": [
            {"from": "source", "to": "map", "partitioner": "rebalance", "partition_type": first},
            {"from": "map", "to": "sink", "partitioner": "rebalance", "partition_type": second},
        ],
    }  # fmt: skip


CASES: dict[str, Callable[[], dict[str, Any]]] = {
    "stops": two_jobs,
    "goes on": lambda: two_jobs(stop_s=None),
    "latency": lambda: two_jobs(network_latency_ms=250),
    "bandwidth": lambda: two_jobs(bandwidth_bytes_per_s=120_000),
    "processors": lambda: two_jobs(cores=1),
    "blocking": lambda: on_disk("blocking"),
    "sort_merge": lambda: on_disk("sort_merge"),
    "hybrid_full": lambda: on_disk("hybrid_full"),
    "hybrid_selective": lambda: on_disk("hybrid_selective"),
    "two kinds": lambda: on_disk("hybrid_selective", "sort_merge"),
}


def assert_audited(job: Job, root: Path) -> None:
    """Assert that the invariants of credits hold where buffers are those of channels."""
    if job.scenario.jobs:
        assert audit(root) is None
        return
    with pytest.raises(LedgerError, match="a result partition on disk"):
        audit(root)


@pytest.mark.parametrize("name", list(CASES))
def test_tasks_that_see_each_other_run_alike_on_both_clocks(name: str, tmp_path: Path) -> None:
    job = runs.job_of(CASES[name]())
    driver.Driver(job, tmp_path).run()
    ledgers = runs.assert_is_virtual(job, tmp_path)
    assert_audited(job, tmp_path)
    for link in job.links:
        assert any(row["rows"] > 0 for row in ledgers[link.name] if row["side"] == "receiver")
    assert len(runs.rows_in_order(tmp_path / "output" / "sink")) > 100


SHORTENED = {
    "two-jobs": ("duration_s=6", "round_ms=250", "jobs.audit.start_at_s=2",
     "jobs.audit.stop_at_s=4", "jobs.backfill.start_at_s=5"),
    "partition-types": ("duration_s=5", "round_ms=250",
     "stages.read.emit_rate=[{at_s: 0, rate: 20000}, {at_s: 1, rate: 0}]"),
}  # fmt: skip


@pytest.mark.parametrize("name", list(SHORTENED))
def test_a_scenario_runs_alike_on_both_clocks(name: str, tmp_path: Path) -> None:
    """The jobs' ends, and what became of partitions, are those of the virtual clock too."""
    job = build_physical_graph(load_scenario(CONF / f"{name}.yaml", overrides=SHORTENED[name]))
    driver.Driver(job, tmp_path).run()
    runs.assert_is_virtual(job, tmp_path)
    seen = Observed(job, NO_ROWS, History.of_run(job, RunPaths(tmp_path)))
    seen.run(lambda rounds, records: None)
    expected = run_job(job)
    assert tuple(run.document() for run in seen.finish()) == expected.jobs
    assert partition_figures(job, seen.memory) == expected.partitions


@pytest.mark.parametrize(("name", "every"), [("stops", 32), ("two kinds", 4)])
def test_a_driver_that_dies_goes_on_with_the_same_memory(
    name: str, every: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From the round in which all of it was published, and what those since have changed."""
    monkeypatch.setattr(whole_memory, "COMPLETE_EVERY", every)
    job = runs.job_of(CASES[name]())
    crashes = driver.dying_in({5, 13})
    killed, whole = driver.Driver(job, tmp_path / "killed", crashes), tmp_path / "whole"
    killed.run()
    runs.assert_is_virtual(job, tmp_path / "killed")
    driver.Driver(job, whole).run()
    runs.assert_same_rows(job, tmp_path / "killed", whole)
    assert_audited(job, tmp_path / "killed")
    assert killed.starts == len(crashes.places) + 1 > 20
