"""Random jobs that fail: no record is lost or doubled in the states from which they go on."""

from __future__ import annotations

from collections import Counter
from types import ModuleType
from typing import Any

import pytest
from hypothesis import assume, given, note, settings
from hypothesis import strategies as st

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


@pytest.mark.long
def test_nothing_is_lost_or_doubled_in_what_is_restored(
    random_jobs: ModuleType,
    random_checkpoints: ModuleType,
    random_failures: ModuleType,
    failing: ModuleType,
    draw_until: Any,
) -> None:
    seen: Counter[str] = Counter()
    shape = random_jobs.Shape(rounds=(40, 70), is_virtual=True)

    @settings(max_examples=EXAMPLES)
    @given(job=random_failures.jobs(random_jobs, random_checkpoints, shape))
    def look(job: Any) -> None:
        note(f"{job.scenario.to_yaml()}\n{job.checkpoints}\n{job.faults}")
        assume(job.links)
        run = failing.FailingRun(job)
        run.run()
        seen.update(run.seen)

    draw_until(look, lambda: {name for name, count in seen.items() if count} >= EVENTS, MOST_RUNS)
    print(dict(seen))
    assert EVENTS - {name for name, count in seen.items() if count} == set()


@settings(max_examples=max(2, EXAMPLES // 6))
@given(data=st.data())
def test_a_few_jobs(
    random_jobs: ModuleType,
    random_checkpoints: ModuleType,
    random_failures: ModuleType,
    failing: ModuleType,
    data: Any,
) -> None:
    job = data.draw(random_failures.jobs(random_jobs, random_checkpoints, random_jobs.LIVE))
    note(f"{job.scenario.to_yaml()}\n{job.checkpoints}\n{job.faults}")
    assume(job.links)
    failing.FailingRun(job).run()
