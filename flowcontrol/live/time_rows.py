"""The table of event time of a live run, read off its ledgers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from flowcontrol.job import Job
from flowcontrol.job.time_table import WINDOW_COLUMNS, TimeTable
from flowcontrol.live.history import History, Row

if TYPE_CHECKING:
    import pyarrow as pa


def time_table(job: Job, history: History) -> pa.Table:
    """Return the table ``time`` of a job with event time.

    Parameters
    ----------
    job : Job
        The scenario, laid out.
    history : History
        Its ledgers.
    """
    found = TimeTable(job)
    for t_s, _, last in job.samples(history.rounds):
        states = [
            (plan, state)
            for plan in job.stages
            for _, state in sorted(history.tasks(plan, last).items())
        ]
        outputs = [
            state["time"]["state"]["generator" if plan.is_source else "valve"]
            for plan, state in states
        ]
        marks, idle = ([output[name] for output in outputs] for name in ("watermark", "is_idle"))
        windows = [_windows(state.get("window")) for _, state in states]
        paused = [state["time"]["state"]["paused_us"] for _, state in states]
        found.add(t_s, marks, idle, windows, paused, rounds=last + 1)
    return found.table()


def _windows(kept: Row | None) -> list[int]:
    """Return late records, open windows, their bytes and results of a task."""
    if kept is None:
        return [0] * len(WINDOW_COLUMNS)
    store, held = kept["store"], kept["held"]
    count = store["open"] - held["batch"]["late"]
    return [store["late"], count, count * held["bytes_per_key"], store["fired"]]
