"""Throttled sources that take checkpoints: both clocks, and what the coordinator comes to."""

from __future__ import annotations

from collections import Counter
from functools import partial
from types import ModuleType
from typing import Any

import pytest
from hypothesis import assume, given, note, settings
from hypothesis import strategies as st

from flowcontrol.layout.job import Job
from flowcontrol.protocol.checkpoints.barriers import TAKEN
from flowcontrol.results.tables import checkpoint_tables
from flowcontrol.trace.round_state import RoundState
from flowcontrol.virtual import run_job
from modules import load

clocks = load("tests/virtual/clocks.py")
random_checkpoints = load("tests/job/checkpoints/random_checkpoints.py")
random_jobs = load("tests/job/random_jobs.py")
random_systems = load("tests/job/random_systems.py")

pytestmark = pytest.mark.usefixtures("whole_kernel")

watched_runs = load("tests/job/watched_runs.py")
EXAMPLES = settings.default.max_examples // 3
IN_ROWS = ("global_hysteresis", "stepwise_sleep", "pid_rate", "static_admission")
"""Throttles whose observations are in the rows of a ledger: those of the live clock."""


def jobs_with(
    random_jobs: ModuleType,
    random_systems: ModuleType,
    random_checkpoints: ModuleType,
    throttle: str,
) -> st.SearchStrategy[Job]:
    """Random jobs that checkpoint and have a throttle."""
    systems = partial(random_systems.throttled, throttle)
    found: st.SearchStrategy[Job] = random_checkpoints.jobs(
        random_jobs, random_jobs.LIVE, systems=systems
    )
    return found.filter(is_allowed)


def is_allowed(job: Job) -> bool:
    """Whether no barrier overtakes where records are counted."""
    assert job.checkpoints is not None
    return bool(job.links) and not (job.record_transport and job.checkpoints.is_unaligned)


@pytest.mark.long
@pytest.mark.parametrize("throttle", IN_ROWS)
def test_the_kernel_does_what_stages_apart_do(draw_until: Any, throttle: str) -> None:
    seen: Counter[str] = Counter()

    def watch(state: RoundState) -> None:
        for task in state.tasks:
            assert task.checkpoints is not None
            taken = sum(report.kind == TAKEN for report in task.checkpoints.reports)
            if task.source is not None and taken:
                seen["taken"] += 1
                is_held = task.source.is_stopped or task.source.gap_ns
                seen["taken while held"] += bool(is_held or task.source.admitted >= 0)

    @settings(max_examples=EXAMPLES)
    @given(data=st.data())
    def look(data: Any) -> None:
        job = data.draw(jobs_with(random_jobs, random_systems, random_checkpoints, throttle))
        note(f"{job.scenario.to_yaml()}\n{job.checkpoints}")
        clocks.compare(job, look=watch)

    draw_until(look, lambda: seen["taken while held"] > 0, 12)
    print(dict(seen))
    assert seen["taken while held"] > 0


@pytest.mark.parametrize("throttle", ["global_hysteresis", "static_admission"])
def test_the_tables_are_those_of_a_coordinator_that_looks_every_round(throttle: str) -> None:
    """Also where controller and coordinator have the kernel stop in the same round."""

    @settings(max_examples=max(3, EXAMPLES // 3))
    @given(data=st.data())
    def look(data: Any) -> None:
        job = data.draw(jobs_with(random_jobs, random_systems, random_checkpoints, throttle))
        note(f"{job.scenario.to_yaml()}\n{job.checkpoints}")
        assume(job.links)
        run = watched_runs.WatchedRun(job)
        run.run()
        expected = checkpoint_tables(job, run.checkpoints.coordinator)
        found = run_job(job, track=False).tables
        for name, table in expected.items():
            assert found[name].equals(table), name

    look()
