"""The result tables of checkpoints, of either clock: what the coordinator knows, as rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from flowcontrol.job.job import Job
from flowcontrol.protocol.checkpoints import (
    CheckpointCoordinator,
    CheckpointStatistics,
    TaskStatistics,
)
from flowcontrol.records import CHECKPOINT_RESULTS

if TYPE_CHECKING:
    import pyarrow as pa

IN_PROGRESS: Final = "in_progress"
CUT_OFF: Final = "aborted"
"""Status of a checkpoint that was in progress when the run ended."""
CHECKPOINT: Final = "checkpoint"
SAVEPOINT: Final = "savepoint"


def checkpoint_tables(job: Job, coordinator: CheckpointCoordinator) -> dict[str, pa.Table]:
    """Return the tables ``checkpoints`` and ``checkpoint_tasks`` of a run.

    Parameters
    ----------
    job : Job
        What was run.
    coordinator : CheckpointCoordinator
        At the end of the run; its tasks are numbers, its times microseconds
        (:class:`~flowcontrol.job.checkpoint_control.CheckpointControl`).

    Returns
    -------
    dict of str to pyarrow.Table
        Rows by the number of the checkpoint, then by stage and subtask in the order of the job.
    """
    import pyarrow as pa

    found = [coordinator.statistics(id) for id in coordinator.ids]
    rows = {
        "checkpoints": [_checkpoint(one) for one in found],
        "checkpoint_tasks": _tasks(job, coordinator, found),
    }
    return {
        name: pa.Table.from_pylist(own, schema=CHECKPOINT_RESULTS[name].arrow_schema())
        for name, own in rows.items()
    }


def _checkpoint(found: CheckpointStatistics) -> dict[str, Any]:
    is_over = found.status != IN_PROGRESS
    return {
        "checkpoint_id": found.id,
        "kind": CHECKPOINT if found.kind == CHECKPOINT else SAVEPOINT,
        "status": found.status if is_over else CUT_OFF,
        "triggered_s": found.triggered / 1e6,
        "ended_s": found.ended / 1e6 if found.ended is not None else None,
        "e2e_ms": found.end_to_end / 1e3 if is_over else None,
        "is_unaligned": found.unaligned,
        "state_bytes": found.checkpointed_size,
        "processed_bytes": found.processed,
        "persisted_bytes": found.persisted,
        "acknowledged": found.acknowledged,
        "subtasks": found.subtasks,
    }


def _tasks(
    job: Job, coordinator: CheckpointCoordinator, found: list[CheckpointStatistics]
) -> list[dict[str, Any]]:
    names = [(plan.name, index) for plan in job.stages for index in range(plan.stage.parallelism)]
    rows = []
    for checkpoint in found:
        reported = coordinator.task_statistics(checkpoint.id)
        for task, (stage, subtask) in enumerate(names):
            if (own := reported.get(task)) is not None:
                rows.append(_task(checkpoint, stage, subtask, own))
    return rows


def _task(
    checkpoint: CheckpointStatistics, stage: str, subtask: int, own: TaskStatistics
) -> dict[str, Any]:
    return {
        "checkpoint_id": checkpoint.id,
        "stage": stage,
        "subtask": subtask,
        "acknowledged_s": own.acknowledged / 1e6,
        "e2e_ms": (own.acknowledged - checkpoint.triggered) / 1e3,
        "start_delay_ms": _ms(own.start_delay),
        "alignment_ms": _ms(own.alignment),
        "sync_ms": _ms(own.sync),
        "async_ms": _ms(own.async_),
        "processed_bytes": _known(own.processed),
        "persisted_bytes": _known(own.persisted),
        "state_bytes": _known(own.checkpointed_size),
    }


def _ms(duration_us: int) -> float | None:
    """Return a duration in milliseconds; None if the task does not know it."""
    return duration_us / 1e3 if duration_us >= 0 else None


def _known(nbytes: int) -> int | None:
    return nbytes if nbytes >= 0 else None
