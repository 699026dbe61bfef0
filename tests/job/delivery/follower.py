"""Follows each record of a reference run that fails, from its source to the readers of the sinks.

A record is known by its source and number there; a row by that, the edges it took, and which copy
it is. So what a restart brings again is known to be the same, whatever order it comes in. What the
readers see is worked out once more, on lists of rows: nothing here counts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from flowcontrol.job import Job, Subtask
from flowcontrol.job.checkpointed_task import COMPLETED, TaskOrder
from flowcontrol.job.delivery_control import DeliveryControl
from flowcontrol.job.delivery_settings import sink_subtasks
from flowcontrol.job.failure_control import Attempts
from flowcontrol.job.reference import checkpoint_control, failure_control, new_subtasks, run_rounds
from flowcontrol.job.restart_log import Restart
from flowcontrol.protocol.checkpoints.barriers import TAKEN

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


class Follower:
    """A reference run whose rows are followed, beside the accounts of its sinks.

    Attributes
    ----------
    delivery : DeliveryControl
        The accounts.
    readers : dict of (str, int) to Readers
        By sink and subtask.
    """

    def __init__(self, job: Job, delivery: DeliveryControl | None = None) -> None:
        self.job, self.subtasks = job, new_subtasks(job)
        self.checkpoints = checkpoint_control(job)
        failures = failure_control(job, self.subtasks, self.checkpoints)
        assert failures is not None
        self._failures, self.delivery = failures, delivery or DeliveryControl(job)
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
        self._now = 0

    def run(self) -> None:
        """Run the job, each round followed."""
        latest = -1
        for batch in self._rounds():
            latest = batch.number
        assert latest == self.job.rounds - 1

    def _rounds(self) -> Any:
        run = run_rounds(
            self.job,
            self.subtasks,
            None,
            checkpoints=self.checkpoints,
            failures=self._failures,
            delivery=self.delivery,
        )
        for number in range(self.job.rounds):
            if number == 0:
                self._hook()
            self._now = number
            batch = next(run)
            yield batch

    def _hook(self) -> None:
        """Follow what the run tells its accounts, and each task's work."""
        attach = self.delivery.attach

        def attached(checkpoints: Any, failures: Any) -> None:
            attach(checkpoints, failures)
            if checkpoints is not None:
                checkpoints.on_notification = self._notify
            failures.watcher = self

        self.delivery.attach = attached  # type: ignore[method-assign]
        for task in range(len(self.subtasks)):
            self._follow(task)

    def _follow(self, task: int) -> None:
        subtask = self.subtasks[task]
        step = subtask.step

        def followed(number: int, *what: Any) -> Any:
            self._deliver(number, task)
            work = step(number, *what)
            self._move(task, subtask, work)
            return work

        subtask.step = followed  # type: ignore[method-assign]

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
        assert self.checkpoints is not None or not self._messages
        if self.checkpoints is not None:
            arrives = number + self.checkpoints.latency
            self._messages = [one for one in self._messages if one[0] != arrives]

    def restarting(
        self, number: int, restart: Restart, keeps: Sequence[int], attempts: Attempts
    ) -> None:
        """Put everything back to the cut; the subtasks are not there yet."""
        self.delivery.restarting(number, restart, keeps, attempts)
        self._messages = [one for one in self._messages if one[1] not in restart.tasks]
        start = attempts.start

        def started(tasks: list[int], checkpoint: int, keeps: list[int]) -> None:
            attempts.start = start  # type: ignore[method-assign]
            start(tasks, checkpoint, keeps)
            self._restart(tasks, checkpoint)

        attempts.start = started  # type: ignore[method-assign]

    def _restart(self, tasks: list[int], checkpoint: int) -> None:
        for task in tasks:
            subtask = self.subtasks[task]
            for (link, own), part in zip(subtask.out_links, subtask.partitions, strict=True):
                for channel, row in zip(own, part.channels, strict=True):
                    del self._logs[link.name, channel.sender, channel.receiver][row.written :]
            for (link, own), gate in zip(subtask.in_links, subtask.gates, strict=True):
                for channel, row in zip(own, gate.channels, strict=True):
                    self._read[link.name, channel.sender, channel.receiver] = row.processed
            self._follow(task)
            for one in self._sinks:
                readers = self.readers[one.member.stage.name, one.subtask]
                if one.task == task and (checkpoint < 0 or checkpoint in readers.kept):
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

    def _move(self, task: int, subtask: Subtask, work: Any) -> None:
        """Move the rows of a round."""
        rows: list[Row] = []
        for gate, place, count in work.takes:
            link, own = subtask.in_links[gate]
            name = (link.name, own[place].sender, own[place].receiver)
            first = self._read[name]
            rows += self._logs[name][first : first + count]
            assert len(self._logs[name]) >= first + count
            self._read[name] = first + count
        if subtask.plan.is_source:
            rows = [(task, work.first + n) for n in range(work.records)]
        assert len(rows) == work.records
        for number, (link, own) in enumerate(subtask.out_links):
            copies = Counter[int]()
            routes, parents = work.routes[number].tolist(), work.parents[number].tolist()
            for place, parent in zip(routes, parents, strict=True):
                copies[parent] += 1
                row = (*rows[parent], number, copies[parent])
                is_broadcast = link.edge.partitioner == "broadcast"
                for channel in own if is_broadcast else own[place : place + 1]:
                    to = (channel.receiver,) if is_broadcast else ()
                    self._logs[link.name, channel.sender, channel.receiver].append((*row, *to))
        self._write(task, subtask, work.first, rows)

    def _write(self, task: int, subtask: Subtask, first: int, rows: list[Row]) -> None:
        for one in self._sinks:
            if one.task == task:
                each, done = int(one.member.ratio_in), 0
                readers = self.readers[one.member.stage.name, one.subtask]
                reports = [] if subtask.checkpoints is None else subtask.checkpoints.reports
                for report in reports:
                    if report.kind == TAKEN:
                        readers.write(_copies(rows[done : report.records - first], each))
                        done = report.records - first
                        readers.barrier(report.checkpoint)
                readers.write(_copies(rows[done:], each))


def _copies(rows: Sequence[Row], each: int) -> list[Row]:
    return [(*row, copy) for row in rows for copy in range(each)] if each != 1 else [*rows]
