"""Event time on the live clock: every ledger row is that of the reference run, also after a crash.

The stand-in for Spark runs the real reader, the real foreachBatch function and the real tables.
"""

from __future__ import annotations

import os
import shutil
from collections import Counter
from pathlib import Path
from types import ModuleType
from typing import Any

import pandas as pd
import pyarrow.parquet as pq
import pytest
from hypothesis import assume, given, note, settings
from hypothesis import strategies as st

from flowcontrol import audit
from flowcontrol.job import Job
from flowcontrol.ledger import exchange
from flowcontrol.live.folder import RunPaths
from flowcontrol.protocol.event_time.output_rules import ACTIVE, IDLE, WATERMARK
from flowcontrol.protocol.event_time.stamps import ID_BITS
from flowcontrol.virtual.clock import run_job
from modules import load

EXAMPLES = max(1, settings.default.max_examples // 8)
MOST_RUNS = 24
IS_LONG = "FLOWCONTROL_LONG" in os.environ
NAMES = ["joined", "aligned", "each", "large"] if IS_LONG else ["joined", "aligned"]
KILLED = ["aligned", "joined"] if IS_LONG else ["aligned"]
"""The quick form leaves out what the others have as well."""
KINDS = {ACTIVE: "active", WATERMARK: "watermark", IDLE: "idle"}
SEEN = {*KINDS.values(), "waited", "pending", "died"}
"""What must have happened in some of the runs: marks of each kind, one that waited in a buffer in
hand, one for which there was no buffer, a crash."""


@pytest.mark.parametrize("name", NAMES)
def test_a_job_with_event_time_is_that_of_the_reference_run(
    name: str,
    timing: ModuleType,
    driver: ModuleType,
    runs: ModuleType,
    cases: ModuleType,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The exchange logs are trimmed in every round."""
    monkeypatch.setattr(exchange, "TRIM_EVERY", 1)
    job = runs.job_of(timing.every_case(cases)[name])
    driver.Driver(job, tmp_path / "run").run()
    runs.assert_is_reference(job, tmp_path / "run")
    assert audit(tmp_path / "run") is None
    ledgers = runs.comparable(runs.live_tables(job, tmp_path / "run"), latency=True)
    assert len(timing.marks_of(ledgers, "sender")) >= 10
    assert len(timing.marks_of(ledgers, "receiver")) >= 10
    tables = runs.live_results(job, tmp_path / "run"), run_job(job).tables
    one, other = (found["time"].to_pandas() for found in tables)
    pd.testing.assert_frame_equal(one, other, rtol=1e-12, atol=0)
    assert one.watermark_s.nunique() >= 3
    paused = one[one.paused_ms_per_s > 0]
    assert ("one" in set(paused.stage)) == (name == "aligned")
    assert "three" not in set(paused.stage)  # it is in no group
    assert set(one.is_idle) == ({True, False} if name == "joined" else {False})


def test_a_job_without_event_time_has_no_stamps(
    timing: ModuleType, driver: ModuleType, runs: ModuleType, cases: ModuleType, tmp_path: Path
) -> None:
    columns = []
    for case in (cases.SINGLE, timing.timed(cases.SINGLE, {"source": {"event_time": {}}})):
        job, root = runs.job_of({**case, "duration_s": 0.3}), tmp_path / str(len(columns))
        driver.Driver(job, root).run()
        [link] = job.links
        files = sorted(RunPaths(root).exchange(link).rglob("sender=*/*.parquet"))
        columns.append({tuple(pq.read_schema(file).names) for file in files})
        rows = runs.comparable(runs.live_tables(job, root), latency=True)[link.name]
        assert {"marks" in row["channel_state"] for row in rows} == {len(columns) == 2}
    made = ("source", "source_subtask", "number", "_round")
    assert columns == [{made}, {(*made, "_stamp")}]
    # Made in a round of 100 ms, none lies behind: the stamp says the round of its row.
    for file in files:
        rows = pq.ParquetFile(file).read().to_pydict()
        assert [stamp >> ID_BITS for stamp in rows["_stamp"]] == [100 * r for r in rows["_round"]]


@pytest.mark.parametrize("name", KILLED)
def test_a_driver_that_dies_at_every_place_goes_on_with_the_same_event_time(
    name: str,
    timing: ModuleType,
    driver: ModuleType,
    runs: ModuleType,
    cases: ModuleType,
    tmp_path: Path,
) -> None:
    job = runs.job_of({**timing.every_case(cases)[name], "duration_s": 1.2})
    driver.die_everywhere(job, runs, tmp_path, at=range(8, 9))
    ledgers = runs.comparable(runs.live_tables(job, tmp_path / "killed"), latency=True)
    around = {
        edge: [row for row in rows if 7 <= row["batch_id"] <= 8] for edge, rows in ledgers.items()
    }
    assert timing.marks_of(around, "sender")
    assert timing.marks_of(around, "receiver")


@pytest.mark.long
def test_random_jobs_are_those_of_the_reference_run(
    driver: ModuleType,
    runs: ModuleType,
    tmp_path: Path,
    draw_until: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A driver dies at every place of a round, named ones too, and goes on."""
    drawn, timed = load("tests/job/random_jobs.py"), load("tests/job/random_event_time.py")
    shape, seen = drawn.Shape(rounds=(12, 25)), Counter[str]()

    @settings(max_examples=EXAMPLES)
    @given(job=timed.jobs(drawn, shape), trims=st.sampled_from([1, 3]), at=st.integers(2, 24))
    def look(job: Job, trims: int, at: int) -> None:
        assume(job.links)
        note(job.scenario.to_yaml())
        root = tmp_path / "run"
        seen.update(driver.run_drawn(job, root, monkeypatch, trims=trims, at=at))
        runs.assert_is_reference(job, root)
        seen.update(happened(runs.comparable(runs.live_tables(job, root), latency=True)))
        shutil.rmtree(root)

    draw_until(look, lambda: set(seen) >= SEEN, MOST_RUNS)
    assert SEEN - set(seen) == set()


def happened(ledgers: Any) -> set[str]:
    """Tell what a run shows."""
    rows = [row for found in ledgers.values() for row in found]
    seen = {KINDS[mark[1]] for row in rows for mark in row["channel_state"]["marks"]}
    tasks = [row["task_state"] for row in rows if row["task_state"] is not None]
    seen |= {"waited"} if any(one["task"]["marks"] > 0 for one in tasks) else set()
    pending = (place for one in tasks for part in one["partitions"] for place in part["pending"])
    return seen | ({"pending"} if any(place < 0 for place in pending) else set())
