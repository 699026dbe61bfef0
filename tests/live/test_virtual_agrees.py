"""Live runs against virtual ones: every row of every ledger, and all three tables."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest

from flowcontrol.job import Job, build_physical_graph
from flowcontrol.records import LEDGER
from flowcontrol.run import RunResult
from flowcontrol.scenario import load_scenario
from flowcontrol.virtual.clock import run_job
from modules import load

TESTS = Path(__file__).resolve().parents[1]
CONF = TESTS.parent / "conf"

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


@pytest.fixture(scope="module")
def clocks() -> ModuleType:
    """Return ``clocks.py`` of the virtual clock's tests."""
    return load("tests/virtual/clocks.py")


def virtual_ledgers(job: Job, clocks: ModuleType) -> dict[str, pa.Table]:
    """Return the ledgers that the kernel's states after each round make, by edge."""
    rows: dict[str, list[dict[str, Any]]] = {link.name: [] for link in job.links}
    for after in clocks.kernel_rounds(job):
        for name, sides in after.rows.items():
            for side, found in sides.items():
                rows[name] += [{**row, "side": side, "batch_id": after.number} for row in found]
    schema = LEDGER.arrow_schema()
    return {name: pa.Table.from_pylist(found, schema=schema) for name, found in rows.items()}


def assert_agree(job: Job, result: RunResult, runs: ModuleType, clocks: ModuleType) -> None:
    """Assert that a live run's ledgers and tables are those of a virtual one."""
    live = runs.comparable(runs.live_tables(job, result.path))
    virtual = runs.comparable(virtual_ledgers(job, clocks))
    assert {name: len(rows) for name, rows in live.items()} == {
        link.name: 2 * job.rounds * len(link.channels) for link in job.links
    }
    assert runs.first_difference(virtual, live) is None
    # Each run is one that counts.
    assert runs.saw(live) == {"floating", "waiting", "no credit", "blocked"}
    tables = run_job(job).tables
    # No live run restarts anything that these scenarios have.
    assert tables.keys() - result.tables.keys() <= {"restarts"}
    for name, table in tables.items():
        if name == "restarts":
            assert len(table) == 0
            continue
        assert len(table) > 0
        pd.testing.assert_frame_equal(
            table.to_pandas(), result.tables[name].to_pandas(), rtol=1e-12, atol=0
        )


def test_every_scenario_is_run() -> None:
    only_virtual = {"cpu-bound", "head-of-line", "partition-types", "shared-producer", "two-jobs"}
    only_virtual |= {"word-count"}  # chained
    only_virtual |= {"daily-curve", "ds2-word-count"}  # their parallelism changes
    # Jobs with event time run on both clocks in test_windows and test_event_time.
    timed = {"watermark-lag", "idle-source", "late-data", "window-burst"}
    timed |= {"skewed-sources", "flights-windows"}
    too_many_rounds = {"kafka-questions", "recovery", "two-phase-commit"}
    names = {path.stem for path in CONF.glob("*.yaml")}
    assert names == set(SHORTENED) | only_virtual | timed | too_many_rounds


@pytest.mark.holds(
    "credit", "live", "the virtual clock: every ledger row and table, all of `conf/`"
)
@pytest.mark.parametrize("name", RUN)
def test_a_scenario_runs_alike_on_both_clocks(
    name: str,
    runs: ModuleType,
    clocks: ModuleType,
    run_live: Callable[..., RunResult],
    tmp_path: Path,
) -> None:
    job = build_physical_graph(load_scenario(CONF / f"{name}.yaml", overrides=SHORTENED[name]))
    assert 12 <= job.rounds <= 18
    assert_agree(job, run_live(job.scenario, tmp_path / "run"), runs, clocks)


@pytest.mark.parametrize("name", SMALL)
def test_a_small_job_runs_alike_on_both_clocks(
    name: str, runs: ModuleType, clocks: ModuleType, run_of: Callable[[str], Any]
) -> None:
    run = run_of(name)
    assert_agree(run.job, run.result, runs, clocks)
