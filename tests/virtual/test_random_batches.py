"""Random jobs with Spark's time: both clocks hold the same after every round."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given, note, settings
from hypothesis import strategies as st

from flowcontrol.job import Job
from flowcontrol.job.round_state import RoundState, TaskState
from flowcontrol.protocol.spark_time.answering import ALL, CHANGED, EVICTING
from flowcontrol.protocol.windows.firing import RESTING
from modules import load

random_batches: Any = load("tests/job/random_batches.py")

EXAMPLES = max(60, settings.default.max_examples)
"""Jobs that are drawn; fewer would be more like each other."""
COMPARED = settings.default.max_examples // 3
"""Jobs that are compared whatever they show; of the others those that show what is missing."""
MOST_RUNS = 24
"""Runs until what is seldom has happened."""
PHASES = {CHANGED: "changed groups", ALL: "all groups", EVICTING: "groups that are over"}

EVENTS = {
    *(f"{kind} windows" for kind, _ in random_batches.FORMS),
    *PHASES.values(),
    "late",
    "result pending",
    "blocked in an answer",
    "results at a sink",
    "routed by key",
    "several inputs",
    "ended with windows",
}
"""What must have happened in some of the runs."""


def happened(job: Job, task: TaskState) -> Iterator[str]:
    """Tell what a task with windows shows."""
    assert task.window is not None
    store, plan = task.window.store, job.stage(task.stage)
    if store.phase != RESTING:
        yield PHASES[store.phase]
        yield "blocked in an answer" if task.backpressured_us > 0 else "answer goes on"
    if task.window.held.batch.late > 0:
        yield "late"
    if task.window.results:
        yield f"{plan.stage.window.kind} windows"
        if plan.is_sink:
            yield "results at a sink"
        if any(part.pending for part in task.partitions):
            yield "result pending"
        if plan.stage.parallelism > 1:
            yield "routed by key"
    if sum(one.watermark > 0 for one in task.window.operators) > 1:
        yield "several inputs"
    if task.state.is_finished and store.open > 0:
        yield "ended with windows"


def of_tasks(job: Job) -> Callable[[RoundState], Iterator[str]]:
    """Return what tells what any task of a job with windows shows."""
    return lambda state: (
        name for task in state.tasks if task.window is not None for name in happened(job, task)
    )


@pytest.mark.usefixtures("whole_kernel")
@pytest.mark.holds("credit", "virtual", "stages apart: Spark's windows after every round")
def test_the_kernel_does_what_stages_apart_do(
    clocks: ModuleType, random_jobs: ModuleType, draw_until: Any
) -> None:
    seen: Counter[str] = Counter()
    shape = random_jobs.Shape(rounds=(25, 40), is_virtual=True)

    @settings(max_examples=EXAMPLES)
    @given(job=random_batches.jobs(random_jobs, shape), every=st.sampled_from([2, 3, 10, 1000]))
    def look(job: Job, every: int) -> None:
        note(job.scenario.to_yaml())
        seen["jobs"] += 1
        if seen["jobs"] > COMPARED and not clocks.shows(job, EVENTS - set(seen), of_tasks(job)):
            return

        def watch(state: RoundState) -> None:
            for task in state.tasks:
                if task.window is not None:
                    seen.update(happened(job, task))
                    assert task.window.store.fired == task.operators[0].records_out

        clocks.compare(job, every=(1, every), look=watch)

    draw_until(look, lambda: set(seen) >= EVENTS, MOST_RUNS)
    print(dict(seen))
    assert EVENTS - set(seen) == set()


@pytest.mark.usefixtures("whole_kernel")
@pytest.mark.holds("static_admission", "virtual", "stages apart: Spark's windows")
def test_batches_of_a_throttle_end_in_the_same_rounds(
    clocks: ModuleType, random_jobs: ModuleType, draw_until: Any
) -> None:
    seen: Counter[str] = Counter()
    shape = random_jobs.Shape(rounds=(25, 40), is_virtual=True)
    wanted = {"unbounded", "credit"}

    @settings(max_examples=COMPARED // 2)
    @given(job=random_batches.jobs(random_jobs, shape, is_throttled=True))
    def look(job: Job) -> None:
        note(job.scenario.to_yaml())

        def watch(state: RoundState) -> None:
            for task in state.tasks:
                if task.window is not None:
                    seen.update(happened(job, task))
                    seen[job.scenario.system.transport] += len(task.window.results)

        clocks.compare(job, look=watch)

    draw_until(look, lambda: set(+seen) >= wanted, MOST_RUNS)
    assert wanted - set(+seen) == set()
