"""The table ``control_messages`` of a run, on either clock."""

from __future__ import annotations

from typing import TYPE_CHECKING

from flowcontrol.job.control_run import control_messages
from flowcontrol.job.message_table import Window
from flowcontrol.job.run import Run
from flowcontrol.records import CONTROL_MESSAGES

if TYPE_CHECKING:
    import pyarrow as pa

FOLLOWED = ("checkpoints", "checkpoint_tasks", "restarts")


def control_table(run: Run, window: Window) -> pa.Table:
    """Return the calls of a run's control plane within a window.

    Parameters
    ----------
    run : Run
        A finished run.
    window : Window
        Its edges do not count. One up to the end of the run has the return of the slots too,
        which takes a few calls more.
    """
    import pyarrow as pa

    rows = {name: run.tables[name].to_pylist() for name in FOLLOWED if name in run.tables}
    failed = [job["stop_at_s"] for job in run.jobs if job["state"] == "failed"]
    failed_us = round(failed[0] * 1e6) if failed and failed[0] is not None else None
    found = [
        message
        for message in control_messages(run.job, rows, failed_us)
        if window.start_us / 1e6 <= message.t_s
        and (message.t_s <= window.end_us / 1e6 or window.end_us == run.job.scenario.duration_us)
    ]
    schema = CONTROL_MESSAGES.arrow_schema()
    columns = [pa.array([getattr(m, one.name) for m in found], one.type) for one in schema]
    return pa.table(columns, schema=schema)
