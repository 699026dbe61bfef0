"""The result table of restarts, and what became of the job: of either clock."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from flowcontrol.job.failure_control import FailureControl
from flowcontrol.job.job import Job
from flowcontrol.records import RESTARTS

if TYPE_CHECKING:
    import pyarrow as pa


def restart_table(control: FailureControl) -> pa.Table:
    """Return the table ``restarts`` of a run, a row each failure that hit something."""
    import pyarrow as pa

    return pa.Table.from_pylist(control.rows(), schema=RESTARTS.arrow_schema())


def failed_job(job: Job, control: FailureControl) -> tuple[dict[str, Any], ...]:
    """Return what became of the run's only job if it failed for good; else nothing.

    Returns
    -------
    tuple of dict
        As ``Run.jobs`` has it; its end is when its tasks were cancelled.
    """
    if control.failed_at < 0:
        return ()
    found = {
        "name": job.scenario.name,
        "start_at_s": 0.0,
        "stop_at_s": control.failed_at * job.round_us / 1e6,
        "state": "failed",
        "message": control.message,
    }
    return (found,)
