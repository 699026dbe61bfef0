"""Replayed rows in windows: what a task shows after a round."""

from __future__ import annotations

from collections.abc import Iterator

from flowcontrol.layout.job import Job
from flowcontrol.protocol.windows.firing import RESTING
from flowcontrol.trace.round_state import TaskState

EVENTS = {
    "times of rows",
    "made times",
    "late",
    "results",
    "several keys",
    "routed by a column",
    "results of whole numbers",
    "results of decimals",
    "records without a value",
    "several columns",
    "windows of several columns that are open",
    "window behind a window",
    "rows of several sources",
    "blocked in a burst",
}
"""What must have happened in some of the runs."""


def happened(job: Job, task: TaskState) -> Iterator[str]:
    """Tell what a task shows."""
    scenario, stage = job.scenario, job.scenario.stage(task.stage)
    if task.time is not None and stage.is_source and task.taken > 0:
        yield "times of rows" if task.time.state.has_times else "made times"
    if task.window is None:
        return
    if task.window.store.late > 0:
        yield "late"
    if task.window.store.phase != RESTING and task.backpressured_us > 0:
        yield "blocked in a burst"
    if len({one.key for one in task.window.results}) > 1:
        yield "several keys"
    if any(edge.key for edge in scenario.inputs(task.stage)) and task.taken > 0:
        yield "routed by a column"
    if (
        sum(one in scenario.sources for one in map(scenario.stage, scenario.upstream(task.stage)))
        > 1
    ):
        yield "rows of several sources"
    above = map(scenario.stage, scenario.upstream(task.stage))
    if any(one.window is not None for one in above) and task.taken > 0:
        yield "window behind a window"
    if any(held.valued > 0 for own in task.window.further for held in own):
        yield "windows of several columns that are open"
    for one in task.window.results:
        yield "results"
        if len(one.further) == 10 and one.further[0] > one.further[5] > 0:
            yield "several columns"
        if one.valued < one.records:
            yield "records without a value"
        if stage.window.aggregate.get("lo") and one.min < one.max:
            yield "results of whole numbers"
        if stage.window.aggregate.get("s") and one.valued > 1:
            yield "results of decimals"
