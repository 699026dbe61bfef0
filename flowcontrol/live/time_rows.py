"""The table of event time of a live run, read off its ledgers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from flowcontrol.job import Job
from flowcontrol.job.time_table import WINDOW_COLUMNS, TimeTable
from flowcontrol.live.deployments import Deployments
from flowcontrol.live.history import History, Row
from flowcontrol.protocol.event_time import MIN_TIME

if TYPE_CHECKING:
    import pyarrow as pa


def time_table(job: Job, history: History, deployed: Deployments) -> pa.Table:
    """Return the table ``time`` of a job with event time.

    Parameters
    ----------
    job : Job
        The scenario, laid out.
    history : History
        Its ledgers.
    deployed : Deployments
        The attempts of its tasks.
    """
    found = TimeTable(job)
    for t_s, _, last in job.samples(history.rounds):
        states = [
            (plan, state, deployed.is_gone(plan.name, subtask, last))
            for plan in job.stages
            for subtask, state in sorted(history.tasks(plan, last).items())
        ]
        outputs = [
            {"watermark": MIN_TIME, "is_idle": 0}
            if is_gone
            else state["time"]["state"]["generator" if plan.is_source else "valve"]
            for plan, state, is_gone in states
        ]
        marks, idle = ([output[name] for output in outputs] for name in ("watermark", "is_idle"))
        windows = [_windows(state, is_gone) for _, state, is_gone in states]
        paused = [
            state["time"]["state"]["paused_us"] + state.get("paused_before_us", 0)
            for _, state, _ in states
        ]
        found.add(t_s, marks, idle, windows, paused, rounds=last + 1)
    return found.table()


def _windows(state: Row, is_gone: bool) -> list[int]:
    """Return late records, open windows, their bytes and results of a task.

    One that is not deployed has no windows; what counts goes on over attempts.
    """
    if "window" not in state:
        return [0] * len(WINDOW_COLUMNS)
    store, held = state["window"]["store"], state["window"]["held"]
    late, fired = state.get("carried", (0, 0))
    count = 0 if is_gone else store["open"] - held["batch"]["late"]
    size = count * held["bytes_per_key"]
    return [late + store["late"], count, size, fired + store["fired"]]
