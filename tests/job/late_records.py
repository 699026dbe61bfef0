"""Reference runs that count which records a task takes up behind a watermark they are late for."""

from __future__ import annotations

from collections import Counter

from flowcontrol.job import Job
from flowcontrol.job.reference import new_subtasks, run_rounds
from flowcontrol.job.subtask import Subtask
from flowcontrol.protocol.event_time import MIN_TIME
from flowcontrol.protocol.event_time.stamps import time_of


def run(job: Job) -> Counter[str]:
    """Run a job; return how many records were taken behind a watermark, and late for it."""
    counts: Counter[str] = Counter()
    subtasks = new_subtasks(job)
    for subtask in subtasks:
        _watch(subtask, counts)
    for _ in run_rounds(job, subtasks, None):
        pass
    return counts


def _watch(subtask: Subtask, counts: Counter[str]) -> None:
    note_taken, task = subtask.note_taken, subtask.task

    def note(count: int) -> None:
        assert subtask.time is not None
        number, watermark = (
            subtask.gates[task.gate].channels[task.channel].processed,
            subtask.time.state.valve.watermark,
        )
        found = subtask.stamps_of(task.gate, task.channel, number, count)
        assert len(found) == count
        if watermark > MIN_TIME:
            counts["behind a watermark"] += count
            counts["late"] += sum(time_of(stamp) <= watermark for stamp in found)
        note_taken(count)

    subtask.note_taken = note  # type: ignore[method-assign]
