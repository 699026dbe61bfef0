"""Random jobs with latency markers: both clocks hold the same after every round, and the laws."""

from __future__ import annotations

from collections import Counter
from types import ModuleType
from typing import Any

import pytest
from hypothesis import assume, given, note, settings
from hypothesis import strategies as st

from flowcontrol.job import Job
from flowcontrol.job.round_state import RoundState
from flowcontrol.protocol.event_time.marks import MARKER, channel_of_mark, pending_mark

EXAMPLES = settings.default.max_examples
MOST_RUNS = 12
"""Runs until what is seldom has happened."""

EVENTS = {
    "in flight",
    "beside a watermark",
    "without event time",
    "pending",
    "blocked inside one",
    "broadcast",
    "several channels",
    "late",
    "ended",
}
"""What must have happened in some of the runs."""


class Laws:
    """What must hold of latency markers after any round, of any job."""

    def __init__(self, job: Job, seen: Counter[str]) -> None:
        self.job, self.seen = job, seen
        self.interval_us = job.scenario.options.latency_interval_us
        self.latest: dict[tuple[str, int, int], int] = {}

    def __call__(self, state: RoundState) -> None:
        """Look at the next round."""
        for task in state.tasks:
            time = task.time.state
            self._look_at_channels(state, task)
            if task.gates:
                continue
            assert time.next_marker % self.interval_us == 0 or time.next_marker == -1
            if time.next_marker == -1:
                self.seen["ended"] += 1
                assert time.has_ended == 1
            elif time.next_marker <= state.start_us:
                self.seen["late"] += 1
            given_out = max(1, len(task.partitions))
            assert time.markers <= given_out * (state.start_us // self.interval_us + 1)

    def _look_at_channels(self, state: RoundState, task: Any) -> None:
        for elements in task.time.in_flight:
            marked = [value for kind, value in elements if kind == MARKER]
            if not marked:
                continue
            self.seen["in flight"] += 1
            if len({kind for kind, _ in elements} - {0}) > 1:
                self.seen["beside a watermark"] += 1
            if not self.job.scenario.has_stamps:
                self.seen["without event time"] += 1
            assert all(0 <= one <= state.start_us for one in marked)
            assert all(one % self.job.round_us == 0 for one in marked)
            if len(self.job.stage(task.stage).inputs) == 1:
                sender = self.job.stage(task.stage).inputs[0].edge.sender
                if not self.job.scenario.inputs(sender):  # straight from a source
                    assert marked == sorted(set(marked))
            self.seen["several channels"] += len(task.time.in_flight) > 1
            if any(link.edge.partitioner == "broadcast" for link in
                   self.job.stage(task.stage).inputs):  # fmt: skip
                self.seen["broadcast"] += 1
        for part in task.partitions:
            for entry in part.pending:
                if entry < 0 and entry == pending_mark(channel_of_mark(entry), MARKER):
                    self.seen["pending"] += 1
                    self.seen["blocked inside one"] += entry == part.pending[0] and (
                        part.left_bytes > 0
                    )


@settings(max_examples=max(1, EXAMPLES // 5))
@given(data=st.data())
def test_some_jobs(
    clocks: ModuleType, random_jobs: ModuleType, random_event_time: ModuleType, data: Any
) -> None:
    shape = random_jobs.Shape(is_virtual=True)
    job = data.draw(random_event_time.marked_jobs(random_jobs, shape))
    assume(job.links)
    clocks.compare(job, look=Laws(job, Counter()))


@pytest.mark.long
@pytest.mark.holds(
    "credit", "virtual", "stages apart: latency markers in the channels after every round"
)
def test_the_kernel_does_what_stages_apart_do(
    clocks: ModuleType, random_jobs: ModuleType, random_event_time: ModuleType, draw_until: Any
) -> None:
    seen: Counter[str] = Counter()
    shape = random_jobs.Shape(rounds=(40, 60), is_virtual=True)

    @settings(max_examples=EXAMPLES)
    @given(
        job=random_event_time.marked_jobs(random_jobs, shape),
        every=st.sampled_from([2, 3, 10, 1000]),
    )
    def look(job: Job, every: int) -> None:
        note(job.scenario.to_yaml())
        assume(job.links)
        clocks.compare(job, every=(1, every), look=Laws(job, seen))

    draw_until(look, lambda: {name for name in seen if seen[name]} >= EVENTS, MOST_RUNS)
    print(dict(seen))
    assert EVENTS - {name for name in seen if seen[name]} == set()
