"""The jobs that are made so that something seldom happens have it happen, if they also fail."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from fractions import Fraction
from types import ModuleType

import pytest
from hypothesis import Phase, assume, given, settings

from flowcontrol.control.failures import TOO_MANY_CHECKPOINTS
from flowcontrol.layout.job import FaultSettings, Job
from flowcontrol.scenario.fault_tolerance import Failure, FixedDelay, Heartbeat
from modules import load

hard_cases = load("tests/job/checkpoints/hard_cases.py")
runs = load("tests/job/failures/runs.py")

SHAPE = (60, 90)
EXAMPLES = 4


def failing_late(job: Job) -> Job:
    """The job, whose first stage fails in its second half; it restarts at once."""
    at_s = Fraction(job.rounds * 2 // 3 * job.round_us, 10**6)
    own = {"stage": job.scenario.stages[0].name, "subtask": 0}
    failure = Failure.model_construct(at_s=at_s, task_manager=None, job_manager=False, **own)
    heartbeat = Heartbeat(job.round_us, 3 * job.round_us, 2)
    faults = FaultSettings((failure,), FixedDelay(1000, 0), heartbeat, Fraction(10**12), 1)
    return replace(job, faults=faults)


@pytest.mark.parametrize("case", hard_cases.CASES)
def test_what_a_job_is_made_for_happens(random_jobs: ModuleType, case: str) -> None:
    seen: Counter[str] = Counter()

    @settings(max_examples=EXAMPLES, derandomize=True, database=None, phases=[Phase.generate])
    @given(job=hard_cases.jobs(random_jobs, random_jobs.Shape(SHAPE, is_virtual=True), case))
    def look(job: Job) -> None:
        assume(job.links)
        run = runs.FailingRun(failing_late(job))
        run.run()
        own = run.checkpoints.coordinator
        found = [own.statistics(id) for id in own.ids]
        again = [one for one in run.control.restarts if TOO_MANY_CHECKPOINTS in one.causes]
        first_us = max((one.running for one in again), default=job.rounds) * job.round_us
        seen["in flight"] += run.seen["in flight restored"] > 0
        seen["subsumed"] += any(str(one.reason) == "CHECKPOINT_SUBSUMED" for one in found)
        seen["too many"] += any(
            one.status == "completed" and one.triggered > first_us for one in found
        )

    look()
    assert seen[case] > 0, dict(seen)
