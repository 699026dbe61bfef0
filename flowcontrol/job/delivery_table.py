"""The result table of what the readers of sinks see, of either clock."""

from __future__ import annotations

from typing import TYPE_CHECKING

from flowcontrol.job.delivery_control import DeliveryControl
from flowcontrol.job.delivery_settings import sink_subtasks
from flowcontrol.job.job import Job
from flowcontrol.protocol.commits import Guarantee
from flowcontrol.records import DELIVERY

if TYPE_CHECKING:
    import pyarrow as pa


def has_delivery(job: Job) -> bool:
    """Tell whether a run has the table ``delivery``.

    It does if the job checkpoints or may fail, or if a sink has a guarantee of its own, and if any
    of its sinks is accounted for.
    """
    if next(sink_subtasks(job), None) is None:
        return False
    if job.checkpoints is not None or job.faults is not None:
        return True
    usual = Guarantee.AT_LEAST_ONCE
    return any(one.member.stage.guarantee != usual for one in sink_subtasks(job))


def delivery_table(control: DeliveryControl) -> pa.Table:
    """Return the table ``delivery`` of a run that is over.

    Rows by sample, then by stage and subtask in the order of the job.
    """
    import pyarrow as pa

    return pa.Table.from_pylist(control.rows, schema=DELIVERY.arrow_schema())
