"""The result table of processes: what the task managers used of their processors."""

from __future__ import annotations

from collections.abc import Sequence

from flowcontrol.arrays import pa
from flowcontrol.job.job import Job
from flowcontrol.protocol.processors import WHOLE_ROUND
from flowcontrol.records import PROCESSES
from flowcontrol.scenario.schedule import Span, merged


def process_table(job: Job, rounds: int, used: Sequence[Sequence[int]] = ()) -> pa.Table:
    """Return the table ``processes`` of a run.

    Parameters
    ----------
    job : Job
        The scenario, laid out.
    rounds : int
        Rounds that were run.
    used : sequence of sequence of int, optional
        At each sample, what the tasks of each task manager had used of its processors so far,
        parts of a round (:data:`flowcontrol.protocol.processors.WHOLE_ROUND`); by default nobody
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
