"""The table ``requests``: what sinks had in flight and in their buffers, sample by sample."""

from __future__ import annotations

from typing import Final

import numpy as np

from flowcontrol.arrays import pa
from flowcontrol.layout.job import Job
from flowcontrol.memory.memory import Memory
from flowcontrol.memory.requests import KernelRequests
from flowcontrol.records import REQUESTS
from flowcontrol.state.requests import NEVER

COUNTED: Final = {
    "requests": "requests",
    "requests_failed": "failed_requests",
    "records_sent": "sent",
    "bytes_sent": "sent_bytes",
    "records_acknowledged": "acknowledged",
    "records_retried": "failed",
    "records_throttled": "throttled",
    "timeouts": "timeouts",
    "records_doubled": "doubled",
    "requests_exhausted": "exhausted",
}
"""Columns that count since the start of the run, and their fields of a writer."""


class RequestTable:
    """Collects the rows of the table, sample by sample.

    - ``memory``: of a run of a job that has such sinks, before the first round.
    """

    def __init__(self, job: Job, memory: Memory) -> None:
        self._job, self._memory = job, memory
        self._samples: list[pa.Table] = []
        found = [
            (memory.places.tasks[plan.name] + index, plan.name, index)
            for plan, index in job.subtasks
            if plan.stage.requests is not None
        ]
        tasks, stages, subtasks = zip(*found, strict=True)
        self._places = memory.tasks["requests"][list(tasks)]
        self._ends = {"stage": list(stages), "subtask": list(subtasks)}
        self._has_window = np.array(
            [job.stage(stage).stage.requests.limiting is not None for stage in stages]  # type: ignore[union-attr]
        )
        self._before, self._done = self._states(), 0

    def _states(self) -> np.ndarray:
        return self._memory.states(self._places, KernelRequests)

    def add(self, t_s: float, rounds: int) -> None:
        """Add a sample at a time, when so many rounds are done."""
        held, before = self._states(), self._before
        now, then, round_ms = held["writer"], before["writer"], self._job.round_us / 1000
        seconds = (rounds - self._done) * self._job.round_us / 1e6
        answers = now["answers"] - then["answers"]
        sent = now["requests"] - then["requests"]
        columns = {
            "t_s": np.full(len(now), t_s),
            **self._ends,
            "in_flight": now["in_flight"],
            "in_flight_records": now["sent"] - now["acknowledged"] - now["failed"] - held["gone"],
            "buffered_records": now["buffer"]["records"],
            "buffered_bytes": now["buffer"]["nbytes"],
            "window": pa.array(now["window"], mask=~self._has_window),
            **{name: now[field] for name, field in COUNTED.items()},
            "records_replayed": held["replayed"],
            "batch_mean": _mean(now["sent"] - then["sent"], sent),
            "latency_mean_ms": _mean(
                round_ms * (now["answer_time"] - then["answer_time"]), answers
            ),
            "send_time_ms": pa.array(round_ms * now["send_time"], mask=now["send_time"] == NEVER),
            "waited_ms_per_s": (held["waited_us"] - before["waited_us"]) / 1000 / seconds,
        }
        self._before, self._done = held, rounds
        self._samples.append(pa.table(columns, REQUESTS.arrow_schema()))

    def table(self) -> pa.Table:
        """Return the rows so far."""
        empty = REQUESTS.arrow_schema().empty_table()
        return pa.concat_tables(self._samples) if self._samples else empty


def _mean(sums: np.ndarray, counts: np.ndarray) -> pa.Array:
    """Return means; null where nothing was counted."""
    return pa.array(sums / np.maximum(1, counts), mask=counts == 0)
