"""Follows each record of a run that fails, from its source to the readers of the sinks.

A record is known by its source and number there; a row by that, the edges it took, and which copy
it is. So what a restart brings again is known to be the same, whatever order it comes in. What the
readers see is worked out once more, on lists of rows: nothing here counts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

from flowcontrol.control.attempts import KernelAttempts
from flowcontrol.control.delivery import DeliveryControl
from flowcontrol.control.task_orders import COMPLETED, Restart, TaskOrder
from flowcontrol.layout.job import Job
from flowcontrol.layout.task_settings import sink_subtasks
from flowcontrol.live.moves import works_of
from flowcontrol.live.stage_rows import SubtaskRound
from flowcontrol.protocol.checkpoints.barriers import TAKEN
from flowcontrol.trace.round_state import RoundState
from modules import load

watched_runs: Any = load("tests/job/watched_runs.py")

Row = tuple[Any, ...]


class Readers:
    """What readers see of one sink subtask, row by row."""

    def __init__(self, guarantee: str) -> None:
        self.is_exact = guarantee == "exactly-once"
        self.visible: list[Row] = []
        self.open: list[Row] = []
        self.pending: dict[int, list[Row]] = {}
        self.kept: dict[int, set[int]] = {}

    def write(self, rows: Sequence[Row]) -> None:
        """Write rows."""
        (self.open if self.is_exact else self.visible).extend(rows)

    def barrier(self, checkpoint: int) -> None:
        """Pre-commit."""
        self.pending[checkpoint], self.open = self.open, []
        self.kept[checkpoint] = set(self.pending)

    def commit(self, numbers: set[int]) -> None:
        """Commit what is pending under some numbers."""
        for number in sorted(numbers & set(self.pending)):
            self.visible += self.pending.pop(number)

    def restore(self, checkpoint: int) -> None:
        """Commit what the checkpoint holds, and abort everything else."""
        self.commit(self.kept.get(checkpoint, set()))
        self.pending, self.open = {}, []


class Follower(watched_runs.WatchedRun):  # type: ignore[misc]
    """A run whose rows are followed, beside the accounts of its sinks.

    Attributes
    ----------
    delivery : DeliveryControl
        The accounts.
    readers : dict of (str, int) to Readers
        By sink and subtask.
    """

    def __init__(self, job: Job, delivery: DeliveryControl | None = None) -> None:
        super().__init__(job, delivery=delivery or DeliveryControl(job), is_staged=True)
        assert self.failures is not None
        self._sinks = list(sink_subtasks(job))
        self.readers = {
            (one.member.stage.name, one.subtask): Readers(one.member.stage.guarantee)
            for one in self._sinks
        }
        self._logs: dict[tuple[str, int, int], list[Row]] = {
            (link.name, channel.sender, channel.receiver): []
            for link in job.links
            for channel in link.channels
        }
        self._read = dict.fromkeys(self._logs, 0)
        self._messages: list[tuple[int, int, int]] = []
        if self.checkpoints is not None:
            self.checkpoints.on_notification = self._notify
        self.failures.watcher = self
        self.between.recovery.attempts.watchers.append(self._begins)

    def rounds(self) -> Iterator[RoundState]:
        """Run the job; follow each round."""
        for state in super().rounds():
            works = [
                work
                for (replica, _), plan in zip(self.stages, self.job.stages, strict=True)
                for work in works_of(replica, plan, self.shares)
            ]
            for task, work in enumerate(works):
                if state.tasks[task].is_running:
                    self._deliver(state.number, task)
                    self._move(task, work)
            yield state

    # ------------------------------------------------------------------ as who is told

    def _notify(self, order: TaskOrder) -> None:
        self.delivery.notify(order)
        if order.kind == COMPLETED:
            self._messages.append((order.message.arrives, order.task, order.message.checkpoint))

    def stopped(self, number: int, tasks: Sequence[int]) -> None:
        """Note that tasks stop: what is under way to them is lost."""
        self.delivery.stopped(number, tasks)

    def leader_died(self, number: int) -> None:
        """Lose what it said in this round."""
        self.delivery.leader_died(number)
        arrives = number + self.job.latency
        self._messages = [one for one in self._messages if one[0] != arrives]

    def restarting(
        self, number: int, restart: Restart, keeps: Sequence[int], attempts: KernelAttempts
    ) -> None:
        """Lose what is under way to tasks that begin anew."""
        self.delivery.restarting(number, restart, keeps, attempts)
        self._messages = [one for one in self._messages if one[1] not in restart.tasks]

    def _begins(self, tasks: list[int], checkpoint: int) -> Callable[[], None]:
        return partial(self._restart, tasks, checkpoint)

    def _restart(self, tasks: list[int], checkpoint: int) -> None:
        """Put everything back to the cut, as the memory has been."""
        memory = self.memory
        for link in self.job.links:
            senders = memory.places.tasks[self.job.stage(link.edge.sender).name]
            receivers = memory.places.tasks[self.job.stage(link.edge.receiver).name]
            ends = memory.places.outs[link.name], memory.places.ins[link.name]
            for channel, out, into in zip(link.channels, *ends, strict=True):
                name = (link.name, channel.sender, channel.receiver)
                if senders + channel.sender in tasks:
                    del self._logs[name][int(memory.outs["written"][out]) :]
                if receivers + channel.receiver in tasks:
                    self._read[name] = int(memory.ins["processed"][into])
        for one in self._sinks:
            readers = self.readers[one.member.stage.name, one.subtask]
            if one.task in tasks and (checkpoint < 0 or checkpoint in readers.kept):
                readers.restore(checkpoint)

    def _deliver(self, number: int, task: int) -> None:
        """Hand a task that runs what it is notified of."""
        for message in sorted(self._messages):
            if message[1] == task and message[0] <= number:
                self._messages.remove(message)
                for one in self._sinks:
                    if one.task == task and message[0] == number:
                        readers = self.readers[one.member.stage.name, one.subtask]
                        readers.commit({n for n in readers.pending if n <= message[2]})

    # ------------------------------------------------------------------ what moves

    def _move(self, task: int, work: SubtaskRound) -> None:
        """Move the rows of a round."""
        rows: list[Row] = []
        plan, index = work.plan, work.index
        for take in work.takes:
            link = plan.inputs[take.gate]
            channel = link.incoming(index)[take.channel]
            name = (link.name, channel.sender, channel.receiver)
            first, count = self._read[name], take.records
            rows += self._logs[name][first : first + count]
            assert len(self._logs[name]) >= first + count
            self._read[name] = first + count
        if plan.is_source:
            rows = [(task, work.first + n) for n in range(work.records)]
        assert len(rows) == work.records
        for number, (link, edge) in enumerate(zip(plan.outputs, work.edges, strict=True)):
            copies, own = Counter[int](), link.outgoing(index)
            for place, parent in zip(edge.routes.tolist(), edge.parents.tolist(), strict=True):
                copies[parent] += 1
                row = (*rows[parent], number, copies[parent])
                is_broadcast = link.edge.partitioner == "broadcast"
                for channel in own if is_broadcast else own[place : place + 1]:
                    to = (channel.receiver,) if is_broadcast else ()
                    name = (link.name, channel.sender, channel.receiver)
                    self._logs[name].append((*row, *to))
        self._write(task, work, rows)

    def _write(self, task: int, work: SubtaskRound, rows: list[Row]) -> None:
        for one in self._sinks:
            if one.task == task:
                each, done = int(one.member.ratio_in), 0
                readers = self.readers[one.member.stage.name, one.subtask]
                for report in work.reports:
                    if report.kind == TAKEN:
                        readers.write(_copies(rows[done : report.records - work.first], each))
                        done = report.records - work.first
                        readers.barrier(report.checkpoint)
                readers.write(_copies(rows[done:], each))


def _copies(rows: Sequence[Row], each: int) -> list[Row]:
    return [(*row, copy) for row in rows for copy in range(each)] if each != 1 else [*rows]
