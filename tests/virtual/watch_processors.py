"""Few processors: what a job shows after a round."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from flowcontrol.state.tasks import READER, SERVER, SOURCE
from flowcontrol.trace.round_state import RoundState

EVENTS = {
    "waits",
    "waits for most of a round",
    "waits for nothing",
    "source waits",
    "reader waits",
    "chain waits",
    "blocked while others wait",
    "stands still while it waits",
    "needs none",
    "part of a unit",
}
"""What must have happened in some of the runs."""


def happened(job: Any, kinds: dict[str, int], state: RoundState) -> Iterator[str]:
    """Tell what a state shows."""
    whole = state.end_us - state.start_us
    waits = [one for one in state.tasks if one.processor is not None and one.processor.behind > 0]
    for task in waits:
        yield "waits"
        plan = job.stage(task.stage)
        kind = kinds[task.stage]
        yield from ["source waits"] if kind == SOURCE else []
        yield from ["reader waits"] if kind == READER else []
        yield from ["chain waits"] if len(plan.members) > 1 else []
        if task.processor is not None and task.processor.behind > 6 * 10**11:
            yield "waits for most of a round"
        rates = plan.rates(task.subtask)
        if rates is not None and rates.integral(state.end_us) == rates.integral(state.start_us):
            yield "stands still while it waits"
    for task in state.tasks:
        if task.processor is None:
            yield "needs none"
            continue
        if task.processor.done > 0:
            yield "part of a unit"
        if waits and task.backpressured_us == whole:
            yield "blocked while others wait"
        if task.processor.behind == 0 and task.busy_us > 0:
            yield "waits for nothing"


def kinds_of(job: Any) -> dict[str, int]:
    found = {}
    for plan in job.stages:
        found[plan.name] = SERVER
        if plan.is_source:
            found[plan.name] = READER if plan.stage.reads_log else SOURCE
    return found
