"""The messages of a run, on either clock: written down when the run itself is over.

Neither the compiled kernel nor the live clock notes a message. What they did is done again up to
the end of the window, and looked at after each round: by the kernel, or by the stages of the live
clock, which make no rows here.
"""

from __future__ import annotations

from typing import Any

from flowcontrol.layout.job import Job
from flowcontrol.records import CONTROL_MESSAGES, MESSAGES
from flowcontrol.results.control_run import control_table
from flowcontrol.results.run import Run
from flowcontrol.trace.message_table import Window, messages_of, overhead, window_of
from flowcontrol.trace.messages import Message


def add_trace(run: Run, summary: dict[str, Any]) -> None:
    """Put the messages of a run that is finished into its tables, if its scenario has a trace.

    - ``run``: its tables get ``messages`` and ``control_messages``.
    - ``summary``: gets ``trace``: the window, and what flow control costs in it.
    """
    trace, window = run.job.scenario.trace, window_of(run.job)
    if trace is None or window is None or run.again is None or not run.is_finished:
        return
    found = run.again(window)
    run.tables[MESSAGES.name] = MESSAGES.of_objects(found)
    run.tables[CONTROL_MESSAGES.name] = control_table(run, window)
    times = {"from_s": window.start_us / 1e6, "to_s": window.end_us / 1e6}
    summary["trace"] = {**times, "edges": list(trace.edges) or None, **overhead(found)}


def run_again(job: Job, window: Window) -> list[Message]:
    """Run a job's stages as the live clock does, without Spark; return a window's messages.

    Raises RunError if the rows that a source is to replay cannot be read.
    """
    from flowcontrol.layout.replay import read_replayed
    from flowcontrol.live.staged import staged_states

    return list(messages_of(job, window, staged_states(job, read_replayed(job))))
