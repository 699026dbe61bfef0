"""Random jobs with event time that fail: both clocks hold the same after every round."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import assume, given, note, settings
from hypothesis import strategies as st

from flowcontrol.layout.job import Job
from flowcontrol.protocol.checkpoints.alignment import AT_LEAST_ONCE, TIMEOUTABLE, UNALIGNED
from flowcontrol.trace.channel_state import BufferKind
from flowcontrol.trace.round_state import RoundState, TaskState
from modules import load

clocks = load("tests/virtual/clocks.py")
random_checkpoints = load("tests/job/checkpoints/random_checkpoints.py")
random_event_time = load("tests/job/random_event_time.py")
random_failures = load("tests/job/failures/random_failures.py")
random_jobs = load("tests/job/random_jobs.py")
random_windows = load("tests/job/random_windows.py")

EXAMPLES = settings.default.max_examples // 3
MOST_RUNS = 12
"""Runs until what is seldom has happened."""

MODES = (UNALIGNED, UNALIGNED, TIMEOUTABLE, AT_LEAST_ONCE)
EVENTS = {
    "windows restored",
    "records restored in flight",
    "marks restored in flight",
    "fails in a burst",
    "fails with windows open",
    "begins without windows",
}
"""What must have happened in some of the runs."""


class Watch:
    """Notes what a run shows, from one round to the next."""

    def __init__(self, seen: Counter[str]) -> None:
        self.seen = seen
        self.before: dict[tuple[str, int], TaskState] = {}

    def __call__(self, state: RoundState) -> None:
        """Look at the next round."""
        for task in state.tasks:
            name = task.stage, task.subtask
            self.seen.update(self._happened(task, self.before.get(name)))
            self.before[name] = task

    @staticmethod
    def _happened(task: TaskState, before: TaskState | None) -> Iterator[str]:
        for gate in task.gates:
            for one in (one for channel in gate.channels for one in channel.queue):
                if one.buffer == BufferKind.RESTORED:
                    yield "records restored in flight" if one.records else "marks alone restored"
                    if one.marks > 0:
                        yield "marks restored in flight"
        if before is None or before.is_running == task.is_running or task.window is None:
            return
        if task.is_running:
            yield "windows restored" if task.window.entries else "begins without windows"
        else:
            if before.window.store.phase != 0:
                yield "fails in a burst"
            if before.window.entries:
                yield "fails with windows open"


@pytest.mark.holds(
    "credit", "virtual", "stages apart: event time beside failures after every round"
)
def test_the_kernel_does_what_stages_apart_do(draw_until: Any) -> None:
    seen: Counter[str] = Counter()
    shape = random_jobs.Shape(rounds=(30, 45), is_virtual=True)

    def times(scenario: Any) -> Any:
        windowed, timed = random_windows.windowed(scenario), random_event_time.timed(scenario)
        return st.one_of(windowed, windowed, timed)

    @settings(max_examples=EXAMPLES)
    @given(
        job=random_failures.jobs(random_jobs, random_checkpoints, shape, times=times, modes=MODES),
        every=st.sampled_from([2, 3, 10, 1000]),
    )
    def look(job: Job, every: int) -> None:
        note(f"{job.scenario.to_yaml()}\n{job.checkpoints}\n{job.faults}")
        assume(job.links)
        clocks.compare(job, every=(1, every), look=Watch(seen))

    draw_until(look, lambda: set(seen) >= EVENTS, MOST_RUNS)
    print(dict(seen))
    assert EVENTS - set(seen) == set()
