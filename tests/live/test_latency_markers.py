"""Latency markers on the live clock: every ledger row is that of the reference run, and the table.

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
from flowcontrol.job.alignment_control import alignment_control
from flowcontrol.job.reference import new_subtasks, run_rounds
from flowcontrol.ledger import exchange
from flowcontrol.live.elements import StageElements
from flowcontrol.live.folder import RunPaths
from flowcontrol.protocol.event_time.marks import MARKER, channel_of_mark, pending_mark
from flowcontrol.records import MARKER as OF_MARKERS
from flowcontrol.virtual.clock import run_job
from modules import load

OPTION = "metrics.latency.interval"
EXAMPLES = max(1, settings.default.max_examples // 8)
MOST_RUNS = 24
IS_LONG = "FLOWCONTROL_LONG" in os.environ
NAMES = ["alone", "among", "spread"] if IS_LONG else ["among"]
KILLED = ["alone", "among"] if IS_LONG else ["alone"]
"""The quick form leaves out what the others have as well."""
SEEN = {"waits", "pending", "alone", "among", "died"}
"""What must have happened in some of the random runs: a marker that waits at its receiver, one for
which there was no buffer, jobs without and with event time, a crash."""


def every_case(cases: ModuleType, timing: ModuleType) -> dict[str, dict[str, Any]]:
    """Return jobs with a marker every 200 ms: without event time, with it, to one of several."""
    given = {
        "alone": cases.KILLED,
        "among": timing.every_case(cases)["aligned"],
        "spread": cases.HASH,
    }
    return {
        name: {**case, "options": {**case["options"], OPTION: "200ms"}}
        for name, case in given.items()
    }


def seen_in_memory(job: Job) -> list[dict[tuple[str, int], list[int]]]:
    """When the markers were marked that each task of a reference run saw, by round."""
    subtasks, found = new_subtasks(job), []
    for _ in run_rounds(job, subtasks, None, alignment=alignment_control(job)):
        each = {(one.plan.name, one.index): one.time for one in subtasks}
        found.append({name: list(time.marked_us) for name, time in each.items() if time})
    return found


def noted(job: Job, ledgers: Any) -> list[dict[tuple[str, int], list[int]]]:
    """The same as the rows of a live run have it."""
    found: list[dict[tuple[str, int], list[int]]] = [{} for _ in range(job.rounds)]
    for link in job.links:
        for row in (row for row in ledgers[link.name] if row["task_state"] is not None):
            end = getattr(link.edge, row["side"])
            found[row["batch_id"]][end, row[row["side"]]] = row["task_state"]["marked_us"]
    return found


def assert_is_reference(job: Job, root: Path, runs: ModuleType) -> Any:
    """Assert that rows, and what tasks saw, are those of the reference run; return the rows."""
    runs.assert_is_reference(job, root)
    ledgers = runs.comparable(runs.live_tables(job, root), latency=True)
    assert noted(job, ledgers) == seen_in_memory(job)
    return ledgers


@pytest.mark.parametrize("name", NAMES)
def test_a_job_with_markers_is_that_of_the_reference_run(
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
    job = runs.job_of(every_case(cases, timing)[name])
    driver.Driver(job, tmp_path / "run").run()
    ledgers = assert_is_reference(job, tmp_path / "run", runs)
    assert audit(tmp_path / "run") is None
    kinds = Counter(mark[1] for mark in timing.marks_of(ledgers, "sender"))
    assert kinds[MARKER] >= 10
    assert (set(kinds) == {MARKER}) == (name != "among")
    tables = runs.live_results(job, tmp_path / "run"), run_job(job).tables
    assert set(tables[0]) == set(tables[1])
    assert ("time" in tables[0]) == (name == "among")
    for table in tables[0]:
        one, other = (found[table].to_pandas() for found in tables)
        pd.testing.assert_frame_equal(one, other, rtol=1e-12, atol=0)
    latency = tables[0]["latency"].to_pandas()
    own = latency[latency.kind == OF_MARKERS]
    assert set(own.stage) == {plan.name for plan in job.stages if not plan.is_source}
    assert own["count"].sum() >= 8
    assert own.max_ms.max() > own.p50_ms.min() >= 100


def test_a_job_with_markers_alone_has_no_stamps(
    timing: ModuleType,
    driver: ModuleType,
    runs: ModuleType,
    cases: ModuleType,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """No file has them, and the driver opens none."""
    monkeypatch.setattr(StageElements, "_column", None)
    job = runs.job_of({**every_case(cases, timing)["alone"], "duration_s": 0.5})
    driver.Driver(job, tmp_path).run()
    for link in job.links:
        files = list(RunPaths(tmp_path).exchange(link).rglob("sender=*/*.parquet"))
        names = {tuple(pq.read_schema(file).names) for file in files}
        assert names == {("source", "source_subtask", "number", "_round")}


@pytest.mark.parametrize("name", KILLED)
def test_a_driver_that_dies_at_every_place_goes_on_with_the_same_markers(
    name: str,
    timing: ModuleType,
    driver: ModuleType,
    runs: ModuleType,
    cases: ModuleType,
    tmp_path: Path,
) -> None:
    """At each commit and named point of two rounds, of which one has a marker on its way."""
    job = runs.job_of({**every_case(cases, timing)[name], "duration_s": 1.1})
    every = 1 if IS_LONG else 3
    crashes = driver.dying_in({7, 8}, every=every)
    killed = driver.Driver(job, tmp_path / "killed", crashes)
    killed.run()
    ledgers = assert_is_reference(job, tmp_path / "killed", runs)
    driver.Driver(job, tmp_path / "whole").run()
    whole = runs.comparable(runs.live_tables(job, tmp_path / "whole"), latency=True)
    assert ledgers == whole
    assert killed.starts == len(crashes.places) + 1 > 20 // every
    assert {place[0] for place in crashes.places} >= {"before", "after", "point"}
    around = {
        edge: [row for row in rows if 7 <= row["batch_id"] <= 8] for edge, rows in ledgers.items()
    }
    for side in ("sender", "receiver"):
        assert MARKER in {mark[1] for mark in timing.marks_of(around, side)}


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
    @given(
        job=timed.marked_jobs(drawn, shape), trims=st.sampled_from([1, 3]), at=st.integers(2, 24)
    )
    def look(job: Job, trims: int, at: int) -> None:
        assume(job.links)
        note(job.scenario.to_yaml())
        root = tmp_path / "run"
        seen.update(driver.run_drawn(job, root, monkeypatch, trims=trims, at=at))
        seen.update(happened(job, assert_is_reference(job, root, runs)))
        shutil.rmtree(root)

    draw_until(look, lambda: set(seen) >= SEEN, MOST_RUNS)
    assert SEEN - set(seen) == set()


def happened(job: Job, ledgers: Any) -> set[str]:
    """Tell what a run shows."""
    rows = [row for found in ledgers.values() for row in found]
    seen = {"among" if job.scenario.has_stamps else "alone"}
    waiting = (row["channel_state"]["marks"] for row in rows if row["side"] == "receiver")
    seen |= {"waits"} if any(mark[1] == MARKER for found in waiting for mark in found) else set()
    tasks = (row["task_state"] for row in rows if row["task_state"] is not None)
    entries = (entry for one in tasks for part in one["partitions"] for entry in part["pending"])
    is_pending = any(e < 0 and e == pending_mark(channel_of_mark(e), MARKER) for e in entries)
    return seen | ({"pending"} if is_pending else set())
