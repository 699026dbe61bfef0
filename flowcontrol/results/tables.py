"""The result tables of checkpoints and of processors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from flowcontrol.arrays import pa
from flowcontrol.layout.job import Job
from flowcontrol.protocol.checkpoints.coordinator import CheckpointCoordinator
from flowcontrol.protocol.checkpoints.requests import CheckpointStatistics, TaskStatistics
from flowcontrol.protocol.tasks.processors import WHOLE_ROUND
from flowcontrol.records import CHECKPOINT_RESULTS, PROCESSES
from flowcontrol.scenario.schedule import Span, merged

# --- The result tables of checkpoints, of either clock: what the coordinator knows, as rows


IN_PROGRESS: Final = "in_progress"
CUT_OFF: Final = "aborted"
"""Status of a checkpoint that was in progress when the run ended."""
CHECKPOINT: Final = "checkpoint"
SAVEPOINT: Final = "savepoint"


def checkpoint_tables(job: Job, coordinator: CheckpointCoordinator) -> dict[str, pa.Table]:
    """Return the tables ``checkpoints`` and ``checkpoint_tasks`` of a run.

    ``coordinator``: at the end of the run; its tasks are numbers, its times microseconds
    (:class:`~flowcontrol.control.checkpoints.CheckpointControl`).

    Returns rows by the number of the checkpoint, then by stage and subtask in the order of the job.
    """
    found = [coordinator.statistics(id) for id in coordinator.ids]
    columns = _checkpoints(found), _tasks(job, coordinator, found)
    return {
        name: pa.table(own, schema=table.arrow_schema())
        for (name, table), own in zip(CHECKPOINT_RESULTS.items(), columns, strict=True)
    }


def _checkpoints(found: list[CheckpointStatistics]) -> dict[str, Any]:
    ended = [(one.ended, one.status != IN_PROGRESS) for one in found]
    return {
        "checkpoint_id": [one.id for one in found],
        "kind": [CHECKPOINT if one.kind == CHECKPOINT else SAVEPOINT for one in found],
        "status": [CUT_OFF if one.status == IN_PROGRESS else one.status for one in found],
        "triggered_s": [one.triggered / 1e6 for one in found],
        "ended_s": [None if at is None else at / 1e6 for at, _ in ended],
        "e2e_ms": [
            one.end_to_end / 1e3 if is_over else None
            for one, (_, is_over) in zip(found, ended, strict=True)
        ],
        "is_unaligned": [one.unaligned for one in found],
        "state_bytes": [one.checkpointed_size for one in found],
        "processed_bytes": [one.processed for one in found],
        "persisted_bytes": [one.persisted for one in found],
        "acknowledged": [one.acknowledged for one in found],
        "subtasks": [one.subtasks for one in found],
    }


def _tasks(
    job: Job, coordinator: CheckpointCoordinator, found: list[CheckpointStatistics]
) -> dict[str, Any]:
    names = [(plan.name, index) for plan, index in job.subtasks]
    rows = []
    for one in found:
        reports: dict[Any, TaskStatistics] = coordinator.task_statistics(one.id)
        rows += [(one.id, one.triggered, task, *reports[task]) for task in sorted(reports)]
    cells = np.array(rows, np.int64).reshape(len(rows), 3 + len(TaskStatistics._fields)).T
    checkpoints, triggered, tasks = cells[:3]
    own = TaskStatistics(*cells[3:])
    return {
        "checkpoint_id": checkpoints,
        "stage": [names[task][0] for task in tasks],
        "subtask": [names[task][1] for task in tasks],
        "acknowledged_s": own.acknowledged / 1e6,
        "e2e_ms": (own.acknowledged - triggered) / 1e3,
        "start_delay_ms": _ms(own.start_delay),
        "alignment_ms": _ms(own.alignment),
        "sync_ms": _ms(own.sync),
        "async_ms": _ms(own.async_),
        "processed_bytes": _known(own.processed),
        "persisted_bytes": _known(own.persisted),
        "state_bytes": _known(own.checkpointed_size),
    }


def _ms(durations_us: Any) -> pa.Array:
    """Return durations in milliseconds; null where a task does not know it."""
    return pa.array(durations_us / 1e3, mask=durations_us < 0)


def _known(nbytes: Any) -> pa.Array:
    """Return sizes; null where a task does not know it."""
    return pa.array(nbytes, mask=nbytes < 0)


# --- The result table of processes: what the task managers used of their processors


def process_table(job: Job, rounds: int, used: Sequence[Sequence[int]] = ()) -> pa.Table:
    """Return the table ``processes`` of a run.

    ``used``: at each sample, what the tasks of each task manager had used of its processors so far,
    parts of a round (:data:`flowcontrol.protocol.tasks.processors.WHOLE_ROUND`); by default nobody
    counted.
    """
    managers, cores = range(job.scenario.cluster.task_managers), job.scenario.cluster.cores
    stalls = [_stalled(job, manager) for manager in managers]
    rows, done = list[dict[str, float | None]](), [0] * len(managers)
    loads: list[float | None] = [None for _ in managers]
    counted = 0
    for number, (t_s, first, last) in enumerate(job.samples(rounds)):
        if used and last + 1 > counted:
            length = (last + 1 - counted) * WHOLE_ROUND
            now, counted = used[number], last + 1
            loads = [(b - a) / length for a, b in zip(done, now, strict=True)]
            done = list(now)
        start, end = first * job.round_us, (last + 1) * job.round_us
        for manager in managers:
            load = loads[manager]
            stalled = sum(max(0, min(b, end) - max(a, start)) for a, b in stalls[manager])
            rows.append(
                {
                    "t_s": t_s,
                    "task_manager": manager,
                    "load": load,
                    "cpu_share": None if load is None or cores is None else load / float(cores),
                    "gc_ms_per_s": 1000 * stalled / (end - start),
                }
            )
    return PROCESSES.of_rows(rows)


def _stalled(job: Job, manager: int) -> tuple[Span, ...]:
    """Return when a subtask of a task manager is stalled by the scenario, in the order of time."""
    return merged(
        span
        for stage in job.scenario.stages
        for subtask, own in enumerate(stage.placement)
        for span in stage.stalled(subtask)
        if own == manager
    )
