"""Windows: the laws after every round, and what happened."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from flowcontrol.layout.job import Job
from flowcontrol.protocol.windows.contents import GLOBAL, PANES, SESSIONS
from flowcontrol.protocol.windows.firing import CLOCK_TIMERS, ELEMENT, EVENT_TIMERS
from flowcontrol.trace.round_state import RoundState, TaskState

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
        if not plan.outputs:
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


def _kind(job: Job, task: TaskState) -> str:
    kind = job.stage(task.stage).stage.window.kind
    return {"session": "sessions", "global": "global"}.get(kind, "panes")


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
