"""Windows of Spark's: what a task shows after a round."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from flowcontrol.layout.job import Job
from flowcontrol.protocol.windows.firing import RESTING
from flowcontrol.protocol.windows.spark_batches import ALL, CHANGED, EVICTING
from flowcontrol.trace.round_state import TaskState
from modules import load

random_batches: Any = load("tests/job/random_batches.py")

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
        if not plan.outputs:
            yield "results at a sink"
        if any(part.pending for part in task.partitions):
            yield "result pending"
        if plan.stage.parallelism > 1:
            yield "routed by key"
    if sum(one.watermark > 0 for one in task.window.operators) > 1:
        yield "several inputs"
    if task.state.is_finished and store.open > 0:
        yield "ended with windows"
