"""Event time on the live clock: every row and table is the virtual clock's, also after a crash.

The stand-in for Spark runs the real reader, the real foreachBatch function and the real tables.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from types import ModuleType
from typing import Any

import pyarrow.parquet as pq
import pytest
from hypothesis import assume, given, note, settings
from hypothesis import strategies as st

from flowcontrol import audit
from flowcontrol.layout.job import Job
from flowcontrol.ledger import exchange
from flowcontrol.live.folder import RunPaths
from flowcontrol.protocol.event_time import ACTIVE, IDLE, MARKER, WATERMARK
from flowcontrol.results.running import step
from flowcontrol.trace.round_state import RoundState
from flowcontrol.virtual.clock import run_job
from modules import load

cases = load("tests/live/cases.py")
driver = load("tests/live/driver.py")
runs = load("tests/live/runs.py")
timing = load("tests/live/timing.py")

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
def test_a_job_with_event_time_is_that_of_the_virtual_clock(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The exchange logs are trimmed in every round."""
    monkeypatch.setattr(exchange, "TRIM_EVERY", 1)
    job = runs.job_of(timing.every_case(cases)[name])
    driver.Driver(job, tmp_path / "run").run()
    runs.assert_is_virtual(job, tmp_path / "run")
    assert audit(tmp_path / "run") is None
    assert timing.marks_in(step(job)).total() >= 20
    one = run_job(job).tables["time"].to_pandas()
    assert one.watermark_s.nunique() >= 3
    paused = one[one.paused_ms_per_s > 0]
    assert ("one" in set(paused.stage)) == (name == "aligned")
    assert "three" not in set(paused.stage)  # it is in no group
    assert set(one.is_idle) == ({True, False} if name == "joined" else {False})


def test_rows_carry_no_stamps_nor_marks(tmp_path: Path) -> None:
    """What they say of time is in the ledgers."""
    marked = {**cases.SINGLE["options"], "metrics.latency.interval": "100ms"}
    case = timing.timed({**cases.SINGLE, "options": marked}, {"source": {"event_time": {}}})
    job = runs.job_of({**case, "duration_s": 0.5})
    driver.Driver(job, tmp_path).run()
    assert timing.marks_in(step(job))[MARKER] > 0
    [link] = job.links
    files = sorted(RunPaths(tmp_path).exchange(link).rglob("sender=*/*.parquet"))
    columns = {tuple(pq.read_schema(file).names) for file in files}
    assert columns == {("source", "source_subtask", "number", "_round")}


@pytest.mark.parametrize("name", KILLED)
def test_a_driver_that_dies_at_every_place_goes_on_with_the_same_event_time(
    name: str, tmp_path: Path
) -> None:
    job = runs.job_of({**timing.every_case(cases)[name], "duration_s": 1.2})
    driver.die_everywhere(job, runs, tmp_path, at=range(8, 9))
    assert timing.marks_in(list(step(job))[7:9])


@pytest.mark.long
def test_random_jobs_are_those_of_the_virtual_clock(
    tmp_path: Path, draw_until: Any, monkeypatch: pytest.MonkeyPatch
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
        runs.assert_is_virtual(job, root)
        seen.update(happened(step(job), timing))

    draw_until(look, lambda: set(seen) >= SEEN, MOST_RUNS)
    assert SEEN - set(seen) == set()


def happened(states: Iterable[RoundState], timing: ModuleType) -> set[str]:
    """Tell what a run shows."""
    found = list(states)
    seen = {KINDS[kind] for kind in timing.marks_in(found)}
    tasks = [task for state in found for task in state.tasks]
    seen |= {"waited"} if any(task.state.marks > 0 for task in tasks) else set()
    pending = (place for task in tasks for part in task.partitions for place in part.pending)
    return seen | ({"pending"} if any(place < 0 for place in pending) else set())
