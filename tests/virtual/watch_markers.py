"""Latency markers: the laws after every round, and what happened."""

from __future__ import annotations

from collections import Counter
from typing import Any

from flowcontrol.layout.job import Job
from flowcontrol.protocol.event_time import MARKER, channel_of_mark, pending_mark
from flowcontrol.trace.round_state import RoundState

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
            self._process_priority_events(state, task)
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

    def _process_priority_events(self, state: RoundState, task: Any) -> None:
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
