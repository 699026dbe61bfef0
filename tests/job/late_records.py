"""Runs that count which records a task takes up behind a watermark they are late for."""

from __future__ import annotations

from collections import Counter
from typing import Any

from flowcontrol.kernel.ages import run_at
from flowcontrol.layout.job import Job
from flowcontrol.protocol.event_time import time_of
from flowcontrol.state.tasks import MIN_TIME
from modules import load

watched_runs: Any = load("tests/job/watched_runs.py")


def run(job: Job) -> Counter[str]:
    """Run a job; return how many records were taken behind a watermark, and late for it."""
    counts: Counter[str] = Counter()

    def note(worker: Any, count: int) -> None:
        watermark = worker.task_time().valve.watermark
        if watermark > MIN_TIME:
            counts["behind a watermark"] += count
            number = worker.runs_in_hand().head
            while count > 0:
                found = run_at(worker.m, number - 1)
                assert found.kind == 0
                own = min(count, found.count)
                counts["late"] += own * (time_of(found.stamp) <= watermark)
                count, number = count - own, found.next

    own = watched_runs.WatchedRun(job)
    own.watch("note_taken", before=note)
    own.run()
    return counts
