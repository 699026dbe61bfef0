"""Latency markers on the live clock: every row and table is the virtual clock's.

The stand-in for Spark runs the real reader, the real foreachBatch function and the real tables.
"""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from hypothesis import assume, given, note, settings
from hypothesis import strategies as st

from flowcontrol import audit
from flowcontrol.layout.job import Job
from flowcontrol.ledger import exchange
from flowcontrol.protocol.event_time import MARKER, channel_of_mark, pending_mark
from flowcontrol.records import MARKER as OF_MARKERS
from flowcontrol.results.running import step
from flowcontrol.virtual.clock import run_job
from modules import load

cases = load("tests/live/cases.py")
driver = load("tests/live/driver.py")
runs = load("tests/live/runs.py")
timing = load("tests/live/timing.py")

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


@pytest.mark.parametrize("name", NAMES)
def test_a_job_with_markers_is_that_of_the_virtual_clock(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The exchange logs are trimmed in every round."""
    monkeypatch.setattr(exchange, "TRIM_EVERY", 1)
    job = runs.job_of(every_case(cases, timing)[name])
    driver.Driver(job, tmp_path / "run").run()
    runs.assert_is_virtual(job, tmp_path / "run")
    assert audit(tmp_path / "run") is None
    kinds = timing.marks_in(step(job))
    assert kinds[MARKER] >= 10
    assert (set(kinds) == {MARKER}) == (name != "among")
    tables = run_job(job).tables
    assert ("time" in tables) == (name == "among")
    latency = tables["latency"].to_pandas()
    own = latency[latency.kind == OF_MARKERS]
    assert set(own.stage) == {plan.name for plan in job.stages if not plan.is_source}
    assert own["count"].sum() >= 5
    assert own.max_ms.max() > own.p50_ms.min() >= 100


@pytest.mark.parametrize("name", KILLED)
def test_a_driver_that_dies_at_every_place_goes_on_with_the_same_markers(
    name: str, tmp_path: Path
) -> None:
    """At each commit and named point of two rounds, of which one has a marker on its way."""
    job = runs.job_of({**every_case(cases, timing)[name], "duration_s": 1.1})
    every = 1 if IS_LONG else 3
    crashes = driver.dying_in({7, 8}, every=every)
    killed = driver.Driver(job, tmp_path / "killed", crashes)
    killed.run()
    runs.assert_is_virtual(job, tmp_path / "killed")
    driver.Driver(job, tmp_path / "whole").run()
    runs.assert_same_rows(job, tmp_path / "killed", tmp_path / "whole")
    assert killed.starts == len(crashes.places) + 1 > 20 // every
    assert {place[0] for place in crashes.places} >= {"before", "after", "point"}
    assert timing.marks_in(list(step(job))[7:9])[MARKER] > 0


@pytest.mark.long
def test_random_jobs_are_those_of_the_virtual_clock(
    tmp_path: Path, draw_until: Any, monkeypatch: pytest.MonkeyPatch
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
        runs.assert_is_virtual(job, root)
        seen.update(happened(job, timing))

    draw_until(look, lambda: set(seen) >= SEEN, MOST_RUNS)
    assert SEEN - set(seen) == set()


def happened(job: Job, timing: ModuleType) -> set[str]:
    """Tell what a run shows."""
    states = list(step(job))
    seen = {"among" if job.scenario.has_stamps else "alone"}
    seen |= {"waits"} if timing.marks_in(states)[MARKER] > 0 else set()
    tasks = (task for state in states for task in state.tasks)
    entries = (entry for task in tasks for part in task.partitions for entry in part.pending)
    is_pending = any(e < 0 and e == pending_mark(channel_of_mark(e), MARKER) for e in entries)
    return seen | ({"pending"} if is_pending else set())
