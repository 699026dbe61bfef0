"""The tables of a virtual run equal those that are made of the ledgers of stages apart."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import assume, given, note, settings
from hypothesis import strategies as st

from conf_list import CONF, those
from flowcontrol.layout.job import Job
from flowcontrol.layout.physical_graph import build_physical_graph
from flowcontrol.records import EVENT_TIME, FAULT_TOLERANCE, MACHINES, RESULTS
from flowcontrol.scenario import Scenario, load_scenario
from flowcontrol.virtual import simulate
from flowcontrol.virtual.clock import run_job
from modules import load

jobs = load("tests/job/small_jobs.py")
random_jobs = load("tests/job/random_jobs.py")
references = load("tests/virtual/references.py")

ALL = {**RESULTS, **FAULT_TOLERANCE, **EVENT_TIME, **MACHINES}
INTERVAL = "options.execution.checkpointing.interval"

SLOWER = {
    "experiment": ("stages.consumer.service_rate=300",),
    "fan-in": ("stages.sink.service_rate=500",),
    "skew": ("stages.workers.service_rate=[400,40,400,400]",),
    "three-stages": ("stages.sink.service_rate=150",),
    "flights": (),
    "oscillation": (),
    "burst": ("stages.producer.emit_rate=[{at_s: 0, rate: 100}, {at_s: 2, rate: 2000}]",),
    "gc-pause": ("stages.sink.stalls=[{at_s: 1, for_s: 6, subtasks: [1]}]",),
    "two-sites": ("stages.sink.service_rate=300",),
    "kafka-source": ("stages.database.stalls=[{at_s: 1, for_s: 4}]",),
    "checkpoint-aligned": (f"{INTERVAL}=1s",),
    "checkpoint-unaligned": (f"{INTERVAL}=1s",),
    "checkpoint-timeout": (
        f"{INTERVAL}=1s",
        "options.execution.checkpointing.aligned-checkpoint-timeout=300ms",
    ),
    "checkpoint-fails": (
        f"{INTERVAL}=1s",
        "options.execution.checkpointing.timeout=500ms",
        "options.execution.checkpointing.tolerable-failed-checkpoints=99",
    ),
}
"""What makes each scenario one that blocks within some seconds."""


def assert_same(found: dict[str, pa.Table], expected: dict[str, pa.Table]) -> None:
    assert expected.keys() == {name for name in found if not name.startswith("output/")}
    for name, table in expected.items():
        assert found[name].schema == table.schema
        assert found[name].equals(table), name


def loaded(name: str, *overrides: str) -> Job:
    return build_physical_graph(
        load_scenario(CONF / f"{name}.yaml", overrides=(*SLOWER[name], *overrides))
    )


def test_every_scenario_that_blocks_is_looked_at() -> None:
    assert sorted(SLOWER) == those("blocks")


SAMPLED = [
    (8, 1),
    (8, 0.3),  # a sample within a round
    (7.77, 1.5),  # the last round, and the last sample, not whole
    (3, 0.07),  # samples shorter than a round
    (4, 10),  # longer than the run
]
ODDLY = ["skew", "checkpoint-timeout"]
"""Scenarios that the quick form samples in all these ways: it is one reader for all."""


def sampled() -> list[Any]:
    """Return each scenario with each way to sample it."""
    return [
        pytest.param(
            name, *times, marks=[pytest.mark.long] * (times != SAMPLED[0] and name not in ODDLY)
        )
        for name in SLOWER
        for times in SAMPLED
    ]


@pytest.mark.parametrize(("name", "duration_s", "interval_s"), sampled())
def test_the_tables_are_the_live_clocks(name: str, duration_s: float, interval_s: float) -> None:
    job = loaded(name, f"duration_s={duration_s}", f"sample_interval_s={interval_s}")
    tables = run_job(job).tables
    assert_same(tables, references.live_tables(job))
    blocked = tables["stages"].column("backpressured_ms_per_s").to_pandas()
    assert blocked.max() > 0 or duration_s < 8
    assert len(tables["latency"]) > 0


def test_a_full_last_buffer_is_released_but_not_in_the_backlog() -> None:
    """A record is a buffer, nothing flushes: the last one shows when another is added."""
    job = jobs.job(
        [jobs.source(10, record_bytes=4096), jobs.sink(0)],
        [("source", "sink", "forward")],
        {jobs.EXCLUSIVE: 1, jobs.FLOATING: 1, jobs.OVERDRAFT: 0, jobs.FLUSH: -1},
        duration_s=0.5,
        sample_interval_s=0.1,
    )
    tables = run_job(job).tables
    assert_same(tables, references.live_tables(job))
    rows = tables["channels"].select(["released", "sent", "backlog"]).to_pylist()
    expected = [(1, 0, 0), (2, 1, 0), (3, 1, 1), (3, 2, 0), (4, 2, 1)]
    assert [tuple(row.values()) for row in rows] == expected


def test_those_of_random_jobs_too(draw_until: Any) -> None:
    rows = dict.fromkeys([*RESULTS, *MACHINES], 0)

    @settings(max_examples=settings.default.max_examples * 3 // 5)
    @given(data=st.data())
    def look(data: Any) -> None:
        shape = random_jobs.Shape(is_virtual=data.draw(st.booleans()))
        scenario: Scenario = data.draw(random_jobs.scenarios(shape))
        rounds = data.draw(st.sampled_from([1, 0.4, 2.5, 7, 1000]))
        interval_s = max(1, round(rounds * scenario.live_round_us)) / 1e6
        scenario = scenario.model_copy(update={"sample_interval_s": interval_s})
        note(scenario.to_yaml())
        job = random_jobs.laid_out(scenario)
        assume(job.links)  # a ledger is a link's
        tables = simulate(scenario, round_us=job.round_us).tables
        assert_same(tables, references.live_tables(job))
        for name, table in tables.items():
            rows[name] += len(table)

    draw_until(look, lambda: min(rows.values()) > 100, 5)
    assert min(rows.values()) > 100


def test_without_tracking_only_the_latencies_are_missing() -> None:
    job = loaded("three-stages", "duration_s=5")
    whole, without = run_job(job).tables, run_job(job, track=False).tables
    assert (len(whole["latency"]), len(without["latency"])) == (5, 0)
    for name in ("stages", "channels"):
        assert whole[name].equals(without[name])


@pytest.mark.parametrize("log", ["MOST_RUNS", "FIRST_AGES"])
def test_a_log_that_was_too_short_changes_nothing(
    log: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from flowcontrol.memory import log_sizes

    job = loaded("skew", "duration_s=10")
    whole = run_job(job)
    monkeypatch.setattr(log_sizes, log, 1)
    monkeypatch.setattr(log_sizes, "RUNS_A_CHANNEL", 0)
    again = run_job(job)
    assert again.transfers == whole.transfers
    for name, table in whole.tables.items():
        assert table.equals(again.tables[name])


def test_progress_is_told_at_each_sample() -> None:
    said: list[tuple[int, int]] = []
    job = loaded("experiment", "duration_s=5")
    run = run_job(job, progress=lambda rounds, records: said.append((rounds, records)))
    stages = run.tables["stages"].to_pandas()
    taken = stages[stages.stage == "consumer"].records_in.tolist()
    assert said == list(zip([10, 20, 30, 40, 50], taken, strict=True))
