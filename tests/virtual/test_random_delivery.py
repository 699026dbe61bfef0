"""Random jobs with guarantees that fail: what readers see is the same on both clocks."""

from __future__ import annotations

from collections import Counter
from types import ModuleType
from typing import Any

import pytest
from hypothesis import assume, given, note, settings
from hypothesis import strategies as st

from flowcontrol.virtual.clock import run_job
from modules import load

clocks = load("tests/virtual/clocks.py")
random_checkpoints = load("tests/job/checkpoints/random_checkpoints.py")
random_deliveries = load("tests/job/delivery/random_deliveries.py")
random_failures = load("tests/job/failures/random_failures.py")
random_jobs = load("tests/job/random_jobs.py")

EXAMPLES = settings.default.max_examples
MOST_RUNS = 12

EVENTS = {
    "between preCommit and commit",
    "committed by the restore",
    "lost",
    "in flight",
    "early",
    "stored",
    "some sources rewind",
    "nothing rewinds",
    "twice",
    "staged",
    "exactly-once",
    "at-least-once",
    "at-most-once",
}
"""What must have happened in some of the runs."""


def check(job: Any, random_deliveries: ModuleType) -> Counter[str]:
    """Compare the tables of both clocks row by row; return what has happened."""
    note(f"{job.scenario.to_yaml()}\n{job.checkpoints}\n{job.faults}")
    assume(job.links)
    control = random_deliveries.watched(job)
    run = run_job(job, track=False)
    found, expected = run.tables["delivery"].to_pylist(), control.rows
    assert found == expected
    assert run.staged == control.staged()
    return control.seen


@pytest.mark.long
@pytest.mark.usefixtures("whole_kernel")
def test_readers_see_the_same(draw_until: Any) -> None:
    seen: Counter[str] = Counter()
    shape = random_jobs.Shape(rounds=(40, 60), is_virtual=True)

    @settings(max_examples=EXAMPLES)
    @given(
        job=random_deliveries.jobs(random_jobs, random_checkpoints, random_failures, shape)
        | random_deliveries.small_jobs(random_checkpoints, random_failures)
    )
    def look(job: Any) -> None:
        seen.update(check(job, random_deliveries))

    draw_until(look, lambda: {name for name, n in seen.items() if n} >= EVENTS, MOST_RUNS)
    print(dict(seen))
    assert EVENTS - {name for name, n in seen.items() if n} == set()


@settings(max_examples=max(2, EXAMPLES // 8))
@given(data=st.data())
@pytest.mark.usefixtures("whole_kernel")
def test_of_a_few_jobs_too(data: Any) -> None:
    job = data.draw(random_deliveries.small_jobs(random_checkpoints, random_failures))
    check(job, random_deliveries)
    clocks.compare(job)
