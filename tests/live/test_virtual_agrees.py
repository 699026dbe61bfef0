"""Live runs against virtual ones: every row of every ledger, and all three tables."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from conf_list import CONF
from flowcontrol.layout.job import Job
from flowcontrol.layout.physical_graph import build_physical_graph
from flowcontrol.run import RunResult
from flowcontrol.scenario import load_scenario
from flowcontrol.virtual.clock import run_job

pytestmark = pytest.mark.spark

SHORTENED = {
    "experiment": (
        "duration_s=1.8",
        "stages.producer.emit_rate=4000",
        "stages.consumer.service_rate=100",
    ),
    "fan-in": ("duration_s=3.6", "stages.sink.service_rate=100"),
    "flights": ("duration_s=6", "stages.archive.service_rate=500"),
    "skew": ("duration_s=3.6", "stages.workers.service_rate=[400,20,400,400]"),
    "three-stages": ("duration_s=3.6", "stages.sink.service_rate=20"),
    "oscillation": ("duration_s=1.8", "stages.consumer.service_rate=20"),
    "burst": ("duration_s=3.6", "stages.producer.emit_rate=1000"),
    "gc-pause": ("duration_s=3.6", "stages.sink.stalls=[{at_s: 0.4, for_s: 3, subtasks: [1]}]"),
    "two-sites": ("duration_s=0.8", "stages.source.emit_rate=4000", "stages.sink.service_rate=100"),
    "kafka-source": (
        "duration_s=3.6",
        "stages.topic.arrival_rate=2000",
        "stages.topic.latency_from=emission",
        "stages.topic.emit_rate=703",  # some records are read from one round into the next
        "stages.database.stalls=[{at_s: 0.6, for_s: 2}]",
    ),
    **{
        f"checkpoint-{kind}": (
            "duration_s=1.8",
            "stages.sink.total_rate=20",
            "options.execution.checkpointing.interval=500ms",
            f"options.execution.checkpointing.{option}",
        )
        for kind, option in {
            "aligned": "min-pause=0ms",
            "unaligned": "min-pause=0ms",
            "timeout": "aligned-checkpoint-timeout=200ms",
            "fails": "timeout=300ms",
        }.items()
    },
}
"""The scenarios of conf/, with sinks so slow that all is full and blocked within seconds."""

IS_LONG = "FLOWCONTROL_LONG" in os.environ
RUN = list(SHORTENED) if IS_LONG else ["kafka-source"]
"""The quick form leaves out what other tests run live, and what test_stand_in.py runs."""

SMALL = ["hash", "fan_in", "compete", "fan_out"] if IS_LONG else ["compete"]
"""Of ``cases.py``: shares of keys, two inputs, channels that compete for floating buffers, two
outputs and several receivers."""


def assert_agree(job: Job, result: RunResult, runs: ModuleType) -> None:
    """Assert that a live run's ledgers and tables are those of a virtual one."""
    # Each run is one that counts.
    rows = runs.assert_is_virtual(job, result.path)
    assert runs.saw(rows) == {"floating", "waiting", "no credit", "blocked"}
    tables = {name: one for name, one in result.tables.items() if name != "metrics"}
    runs.assert_same_tables(tables, run_job(job).tables)
    assert all(len(table) > 0 for name, table in tables.items() if name != "restarts")


@pytest.mark.holds(
    "credit", "live", "the virtual clock: every ledger row and table, all of `conf/`"
)
@pytest.mark.parametrize("name", RUN)
def test_a_scenario_runs_alike_on_both_clocks(
    name: str, runs: ModuleType, run_live: Callable[..., RunResult], tmp_path: Path
) -> None:
    job = build_physical_graph(load_scenario(CONF / f"{name}.yaml", overrides=SHORTENED[name]))
    assert 12 <= job.rounds <= 18
    assert_agree(job, run_live(job.scenario, tmp_path / "run"), runs)


@pytest.mark.parametrize("name", SMALL)
def test_a_small_job_runs_alike_on_both_clocks(
    name: str, runs: ModuleType, run_of: Callable[[str], Any]
) -> None:
    run = run_of(name)
    assert_agree(run.job, run.result, runs)
