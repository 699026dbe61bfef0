"""The tasks of a job as the ledgers' rows of a round show them: what failures ask for."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from flowcontrol.job import Job, JobEdge, JobVertex
from flowcontrol.job.cuts import TaskCut
from flowcontrol.job.fastest import most_emitted
from flowcontrol.job.source_logs import has_log
from flowcontrol.operators.source_log import lag
from flowcontrol.operators.states import SourceLog
from flowcontrol.protocol.states import CheckpointReport

Rows = Mapping[str, Mapping[str, Sequence[Mapping[str, Any]]]]
"""Rows of a round by edge name and side."""


@dataclass
class SeenTask:
    """What is known of a task after a round.

    Attributes
    ----------
    taken : int
        Records that it had taken up; a source: emitted.
    log : SourceLog or None
        Of a source that reads a log.
    is_finished : bool
        Whether it has processed everything.
    marks : int
        With event time: watermarks and statuses that it has put into each of its channels.
    """

    taken: int = 0
    log: SourceLog | None = None
    is_finished: bool = False
    marks: int = 0

    @property
    def position(self) -> int:
        """How far a source is."""
        return self.taken if self.log is None else self.log.position


@dataclass
class SeenChannel:
    """Records written to a channel, those that wait to be, and those that were taken up from it."""

    written: int = 0
    waiting: int = 0
    processed: int = 0


class SeenTasks:
    """All tasks of a job, by number, and their channels.

    Parameters
    ----------
    job : Job
        The scenario, laid out.
    rows : mapping
        Ledger rows of a round, of all edges; none before the first round.
    """

    def __init__(self, job: Job, rows: Rows) -> None:
        self._job = job
        self.places = [(plan, i) for plan in job.stages for i in range(plan.stage.parallelism)]
        self.tasks = [_first_seen(job, plan) for plan, _ in self.places]
        self._first = {}
        for task, (plan, index) in enumerate(self.places):
            if index == 0:
                self._first[plan.name] = task
        self._channels = {
            (link.name, channel.sender, channel.receiver): SeenChannel()
            for link in job.links
            for channel in link.channels
        }
        if rows:
            self._read(rows)

    def _read(self, rows: Rows) -> None:
        for plan, subtask, state in task_documents(self._job, rows):
            seen = self.tasks[self._first[plan.name] + subtask]
            seen.taken = state["task"]["taken"]
            seen.is_finished = state["task"]["is_finished"] == 1
            if "time" in state:
                seen.marks = state["time"]["state"]["marks"]
            if seen.log is not None:
                seen.log = SourceLog(**state["log"])
            for link, partition in zip(plan.outputs, state["partitions"], strict=True):
                self._note_waiting(link, subtask, partition["pending"])
        for place, state in self._rows_of(rows, "sender"):
            self._channels[place].written = state["channel"]["written"]
        for place, state in self._rows_of(rows, "receiver"):
            self._channels[place].processed = state["channel"]["processed"]

    def _note_waiting(self, link: JobEdge, sender: int, pending: Sequence[int]) -> None:
        """Note the records that a subtask has routed over an edge and not written."""
        for place, own in enumerate(link.outgoing(sender)):
            at = 0 if link.edge.partitioner == "broadcast" else place
            self._channels[link.name, sender, own.receiver].waiting = pending.count(at)

    @staticmethod
    def _rows_of(rows: Rows, side: str) -> Iterator[tuple[tuple[str, int, int], dict[str, Any]]]:
        for edge, sides in rows.items():
            for row in sides[side]:
                yield (edge, row["sender"], row["receiver"]), json.loads(row["channel_state"])

    # ------------------------------------------------------------------ what is asked for

    def source(self, task: int) -> tuple[int, int]:
        """Return how far a source is, and how many records wait in its log; -1: it has none."""
        seen = self.tasks[task]
        return seen.position, -1 if seen.log is None else lag(seen.log)

    def most_emitted(self, task: int) -> int:
        """Return how many records a source emits in a round at most; 0: nobody knows."""
        return most_emitted(self._job, *self.places[task])

    def in_flight(self) -> int:
        """Return how many records are written to channels and not taken up."""
        return sum(one.written - one.processed for one in self._channels.values())

    def channels(self) -> dict[str, list[tuple[int, int]]]:
        """Return what was put out to each channel, written or not, and taken up, by edge."""
        found: dict[str, list[tuple[int, int]]] = {link.name: [] for link in self._job.links}
        for (edge, _, _), one in self._channels.items():
            found[edge].append((one.written + one.waiting, one.processed))
        return found

    def written(self, link: JobEdge, sender: int, receiver: int) -> int:
        """Return how many records a subtask has written to a receiver over an edge."""
        return self._channels[link.name, sender, receiver].written

    def cut_of(self, task: int) -> TaskCut:
        """Return what a task holds, as far as others have to know of it when it restores that."""
        plan, index = self.places[task]
        seen = self.tasks[task]
        return TaskCut(
            seen.taken,
            0 if seen.log is None else seen.log.position,
            written=tuple(
                tuple(self.written(link, index, own.receiver) for own in link.outgoing(index))
                for link in plan.outputs
            ),
            processed=tuple(
                tuple(
                    self._channels[link.name, own.sender, index].processed
                    for own in link.incoming(index)
                )
                for link in plan.inputs
            ),
            marks=seen.marks,
        )

    def marks_of(self, link: JobEdge, sender: int) -> int:
        """Return how many marks a subtask has put into each of its channels over an edge."""
        return self.tasks[self._first[self._job.stage(link.edge.sender).name] + sender].marks

    # ------------------------------------------------------------------ what a restart makes of it

    def begin(self, cuts: Mapping[int, TaskCut | None], keeps: Sequence[int]) -> None:
        """Have tasks begin anew from their cuts; those of ``keeps`` go on where they were."""
        for task, cut in cuts.items():
            self._begin(task, cut or TaskCut(), task in keeps)
        for task, cut in cuts.items():
            plan, index = self.places[task]
            for gate, link in enumerate(plan.inputs):
                for place, own in enumerate(link.incoming(index)):
                    channel = self._channels[link.name, own.sender, index]
                    processed = 0 if cut is None else cut.processed[gate][place]
                    channel.processed = min(channel.written, processed)

    def _begin(self, task: int, cut: TaskCut, keeps: bool) -> None:
        (plan, index), seen = self.places[task], self.tasks[task]
        seen.is_finished, seen.marks = False, cut.marks
        if not keeps:
            seen.taken = cut.taken
        if seen.log is not None:
            seen.log.reading = 0
            if not keeps:
                seen.log.position = cut.position
        for number, link in enumerate(plan.outputs):
            for place, own in enumerate(link.outgoing(index)):
                written = cut.written[number][place] if cut.written else 0
                channel = self._channels[link.name, index, own.receiver]
                channel.written, channel.waiting = written, 0


def _first_seen(job: Job, plan: JobVertex) -> SeenTask:
    return SeenTask(log=SourceLog() if has_log(job, plan) else None)


def task_documents(job: Job, rows: Rows) -> Iterator[tuple[JobVertex, int, dict[str, Any]]]:
    """Yield what the rows of a round hold of each task, task by task: stage, subtask, state."""
    for plan in job.stages:
        side = "sender" if plan.is_source else "receiver"
        link = plan.outputs[0] if plan.is_source else plan.inputs[0]
        found = [row for row in rows[link.name][side] if row["task_state"] is not None]
        for row in sorted(found, key=lambda row: row[side]):
            yield plan, row[side], json.loads(row["task_state"])


def reports_of(job: Job, rows: Rows) -> Iterator[CheckpointReport]:
    """Yield what all tasks have reported in a round, task by task."""
    for _, _, state in task_documents(job, rows):
        for report in state["checkpoints"]["reports"]:
            yield CheckpointReport(**report)
