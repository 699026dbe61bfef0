"""Random jobs that fail: no record is lost or doubled in the states from which they go on."""

from __future__ import annotations

import os
from collections import Counter
from typing import Any

from hypothesis import assume, given, note, settings

from modules import load

failing = load("tests/job/failures/runs.py")
random_checkpoints = load("tests/job/checkpoints/random_checkpoints.py")
random_failures = load("tests/job/failures/random_failures.py")
random_jobs = load("tests/job/random_jobs.py")

IS_LONG = "FLOWCONTROL_LONG" in os.environ
EXAMPLES = settings.default.max_examples
MOST_RUNS = 24

EVENTS = {
    "restarted",
    "restored",
    "in flight restored",
    "from the beginning",
    "exhausted",
    "caught up",
    "part of the job",
    "several causes",
    "several restarts",
    "superseded while restored",
    "task manager ",
    "subtask",
    "the Job",
    "too man",
}
"""What must have happened in some of the runs."""


def test_nothing_is_lost_or_doubled_in_what_is_restored(draw_until: Any) -> None:
    """The long form goes on until all has happened."""
    seen: Counter[str] = Counter()
    shape = random_jobs.Shape(rounds=(40, 70), is_virtual=True) if IS_LONG else random_jobs.LIVE
    sought = EVENTS if IS_LONG else set[str]()

    @settings(max_examples=EXAMPLES if IS_LONG else max(2, EXAMPLES // 6))
    @given(job=random_failures.jobs(random_jobs, random_checkpoints, shape))
    def look(job: Any) -> None:
        note(f"{job.scenario.to_yaml()}\n{job.checkpoints}\n{job.faults}")
        assume(job.links)
        run = failing.FailingRun(job)
        run.run()
        seen.update(run.seen)

    draw_until(look, lambda: set(+seen) >= sought, MOST_RUNS)
    print(dict(seen))
    assert sought - set(+seen) == set()
