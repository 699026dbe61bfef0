"""Event time: the laws after every round, and what happened."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from flowcontrol.layout.job import Job
from flowcontrol.protocol.event_time import ACTIVE, IDLE, WATERMARK
from flowcontrol.state.tasks import MAX_TIME, MIN_TIME
from flowcontrol.trace.round_state import RoundState, TaskState

KINDS = {0: "record in flight", WATERMARK: "watermark in flight", IDLE: "idle in flight",
         ACTIVE: "active in flight"}  # fmt: skip

EVENTS = {
    *KINDS.values(),
    "message of marks alone",
    "records and marks",
    "mark in hand behind the records",
    "mark pending",
    "blocked inside a mark",
    "punctuated",
    "exponential",
    "from a log",
    "broadcast",
    "idle source",
    "quiet clock stood",
    "unaligned channel",
    "idle valve",
    "valve passed on the end",
    "source without watermarks",
}
"""What must have happened in some of the runs."""


def happened(job: Job, state: RoundState) -> Iterator[str]:
    """Tell what a state shows."""
    for task in state.tasks:
        assert task.time is not None
        kinds = {kind for channel in task.time.in_flight for kind, _ in channel}
        yield from (KINDS[kind] for kind in kinds & KINDS.keys())  # no markers
        if task.state.marks > 0 and task.state.left == 0:
            yield "mark in hand behind the records"
        for part in task.partitions:
            if part.pending and min(part.pending) < 0:
                yield "mark pending"
                if part.pending[0] < 0 and part.left_bytes > 0:
                    yield "blocked inside a mark"
            for message in (sent.message for out in part.subpartitions for sent in out.under_way):
                if message.marks > 0:
                    yield "records and marks" if message.records else "message of marks alone"
        yield from (_of_a_source if not task.gates else _of_a_valve)(job, task)


def _of_a_source(job: Job, task: TaskState) -> Iterator[str]:
    time = task.time.state
    if time.has_generator == 0:
        yield "source without watermarks"
    if time.generator.is_punctuated == 1 and time.generator.watermark > MIN_TIME:
        yield "punctuated"
    if time.is_exponential == 1 and task.taken > 0:
        yield "exponential"
    if task.log is not None and task.taken > 0:
        yield "from a log"
    if time.generator.is_idle == 1:
        yield "idle source"
    if time.clock.stood > 0 and time.generator.is_counting == 1:
        yield "quiet clock stood"
    if any(link.edge.partitioner == "broadcast" for link in job.stage(task.stage).outputs):
        yield "broadcast"


def _of_a_valve(job: Job, task: TaskState) -> Iterator[str]:
    valve = task.time.state.valve
    if 0 < valve.unaligned < len(task.time.channels):
        yield "unaligned channel"
    if valve.is_idle == 1:
        yield "idle valve"
    if valve.watermark == MAX_TIME:
        yield "valve passed on the end"


class Laws:
    """What must hold of watermarks after any round, of any job."""

    def __init__(self, job: Job, seen: Counter[str]) -> None:
        self.job, self.seen = job, seen
        self.watermarks: dict[tuple[str, int], int] = {}

    def __call__(self, state: RoundState) -> None:
        """Look at the next round."""
        self.seen.update(happened(self.job, state))
        for task in state.tasks:
            name, time = (task.stage, task.subtask), task.time
            assert time.watermark >= self.watermarks.get(name, MIN_TIME), "it never goes back"
            self.watermarks[name] = time.watermark
            active = [c.watermark for c in time.channels if c.is_unaligned == 0]
            assert not active or time.watermark <= min(active)
        self._are_behind_their_senders(state)

    def _are_behind_their_senders(self, state: RoundState) -> None:
        """No channel has seen more than its sender gave out, and what is in it is between."""
        given_out = {(task.stage, task.subtask): task.time.watermark for task in state.tasks}
        for task in state.tasks:
            place = 0
            for link in self.job.stage(task.stage).inputs:
                for channel in link.incoming(task.subtask):
                    sender = self.job.stage(link.edge.sender).name
                    seen, elements = task.time.channels[place], task.time.in_flight[place]
                    order = [value for kind, value in elements if kind == WATERMARK]
                    ends = seen.watermark, given_out[sender, channel.sender]
                    assert [ends[0], *order] == sorted({ends[0], *order}), "each is later"
                    assert max([ends[0], *order]) <= ends[1]
                    place += 1
