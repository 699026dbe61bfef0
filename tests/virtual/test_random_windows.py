"""Random jobs with windows: both clocks hold the same after every round, and the laws of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import pytest
from hypothesis import assume, example, given, note, settings
from hypothesis import strategies as st

from flowcontrol.job import Job
from flowcontrol.job.round_state import RoundState, TaskState
from flowcontrol.protocol.windows.assigners import GLOBAL, PANES, SESSIONS
from flowcontrol.protocol.windows.firing import CLOCK_TIMERS, ELEMENT, EVENT_TIMERS
from modules import load

EXAMPLES = max(60, settings.default.max_examples)
"""Jobs that are drawn; fewer would be more like each other."""
COMPARED = settings.default.max_examples // 3
"""Jobs that are compared whatever they show; of the others those that show what is missing."""
MOST_RUNS = 24
"""Runs until what is seldom has happened."""

PHASES = {
    ELEMENT: "burst of a record",
    EVENT_TIMERS: "burst of a watermark",
    CLOCK_TIMERS: "burst of the clock",
}
KINDS = {PANES: "panes", SESSIONS: "sessions", GLOBAL: "global"}

EVENTS = {
    *PHASES.values(),
    *(f"results of {kind}" for kind in KINDS.values()),
    "late",
    "result pending",
    "blocked in a burst",
    "watermark waits",
    "results at a sink",
    "routed by key",
    "window behind a window",
    "without event time",
    "records in several windows",
}
"""What must have happened in some of the runs."""


def happened(job: Job, task: TaskState) -> Iterator[str]:
    """Tell what a task with windows shows."""
    assert task.window is not None
    store, held = task.window.store, task.window.held
    if store.phase in PHASES:
        yield PHASES[store.phase]
        yield "blocked in a burst" if task.backpressured_us > 0 else "burst goes on"
    if store.late > 0:
        yield "late"
    if held.to_give > 0:
        yield "watermark waits"
    plan = job.stage(task.stage)
    if task.window.results:
        yield f"results of {_kind(job, task)}"
        if plan.is_sink:
            yield "results at a sink"
        if any(part.pending for part in task.partitions):
            yield "result pending"
        if not job.scenario.has_event_time:
            yield "without event time"
    if plan.stage.parallelism > 1 and task.taken > 0:
        yield "routed by key"
    above = job.scenario.upstream(task.stage)
    if any(job.scenario.stage(name).window is not None for name in above) and task.taken > 0:
        yield "window behind a window"
    if store.open > task.state.taken:
        yield "records in several windows"


def of_tasks(job: Job) -> Callable[[RoundState], Iterator[str]]:
    """Return what tells what any task of a job with windows shows."""
    return lambda state: (
        name for task in state.tasks if task.window is not None for name in happened(job, task)
    )


def _kind(job: Job, task: TaskState) -> str:
    kind = job.stage(task.stage).stage.window.kind
    return {"session": "sessions", "global": "global"}.get(kind, "panes")


@pytest.mark.holds("credit", "virtual", "stages apart: windows after every round")
def test_the_kernel_does_what_stages_apart_do(
    clocks: ModuleType, random_jobs: ModuleType, random_windows: ModuleType, draw_until: Any
) -> None:
    seen: Counter[str] = Counter()
    shape = random_jobs.Shape(rounds=(25, 40), is_virtual=True)

    @example(job=load("tests/job/held_up.py").windows_of_the_clock(), every=3)
    @settings(max_examples=EXAMPLES)
    @given(
        job=st.one_of(
            random_windows.jobs(random_jobs, shape),
            random_windows.jobs(random_jobs, shape, is_seldom=True),
        ),
        every=st.sampled_from([2, 3, 10, 1000]),
    )
    def look(job: Job, every: int) -> None:
        note(job.scenario.to_yaml())
        assume(job.links)
        seen["jobs"] += 1
        if seen["jobs"] > COMPARED and not clocks.shows(job, EVENTS - set(seen), of_tasks(job)):
            return
        clocks.compare(job, every=(1, every), look=Laws(job, seen))

    draw_until(look, lambda: set(seen) >= EVENTS, MOST_RUNS)
    print(dict(seen))
    assert EVENTS - set(seen) == set()


class Laws:
    """What must hold of windows after any round, of any job."""

    def __init__(self, job: Job, seen: Counter[str]) -> None:
        self.job, self.seen = job, seen
        self.fired: Counter[tuple[str, int]] = Counter()

    def __call__(self, state: RoundState) -> None:
        """Look at the next round."""
        for task in state.tasks:
            if task.window is None:
                continue
            self.seen.update(happened(self.job, task))
            operator, store = task.operators[0], task.window.store
            self.fired[task.stage, task.subtask] += len(task.window.results)
            fired = self.fired[task.stage, task.subtask]
            assert fired == store.fired == operator.records_out
            assert operator.records_in == task.state.taken
            assert store.open == len(task.window.entries)
