"""Runs with failures that can be looked into."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

from flowcontrol.layout.job import Job
from flowcontrol.protocol.checkpoints.alignment import AT_LEAST_ONCE
from flowcontrol.trace.round_state import RoundState, TaskState
from modules import load

watched_runs: Any = load("tests/job/watched_runs.py")


class FailingRun(watched_runs.WatchedRun):  # type: ignore[misc]
    """A run of a job that may fail.

    Attributes
    ----------
    control : FailureControl
        What has failed.
    seen : Counter of str
        What has happened that makes a run count.
    """

    def __init__(self, job: Job) -> None:
        super().__init__(job)
        assert self.failures is not None
        self.control, self.seen = self.failures, Counter[str]()
        mode = None if job.checkpoints is None else job.checkpoints.mode
        self.is_exact = mode != AT_LEAST_ONCE

    def rounds(self) -> Iterator[RoundState]:
        """Run the job; check each state."""
        started = 0
        for state in super().rounds():
            ran = [one for one in self.control.restarts if one.running >= 0]
            if len(ran) > started:
                started = len(ran)
                self._look_at_restart(ran[-1].checkpoint, ran[-1].tasks)
            if all(task.is_running for task in state.tasks):
                check_channels(state)
                for task in state.tasks:
                    check_task(task, is_exact=self.is_exact)
            yield state
        self._note()

    def _look_at_restart(self, checkpoint: int, tasks: list[int]) -> None:
        """What was restored in flight is what the checkpoint has persisted, byte by byte."""
        if checkpoint < 0:
            return
        assert self.checkpoints is not None
        restored = self.checkpoints.restored_bytes(checkpoint, tasks)
        persisted = sum(in_flight for in_flight, _ in restored.values())
        self.seen["in flight restored"] += persisted > 0
        self.seen["restored"] += 1

    def _note(self) -> None:
        for one in self.control.restarts:
            self.seen["restarted"] += one.running >= 0
            self.seen["from the beginning"] += one.running >= 0 and one.checkpoint < 0
            self.seen["exhausted"] += one.is_final
            self.seen["caught up"] += one.caught_up >= 0
            self.seen["part of the job"] += 0 < len(one.tasks) < len(self.states[-1].tasks)
            self.seen["several causes"] += len(one.causes) > 1
            self.seen["superseded while restored"] += (
                one.is_superseded and one.restarted >= 0 and one.running < 0
            )
            for cause in one.causes:
                self.seen[cause.rstrip("0123456789") if "manager" in cause else cause[:7]] += 1
        self.seen["several restarts"] += len(self.control.restarts) > 1
        self.seen["none"] += not self.control.restarts


def check_task(task: TaskState, *, is_exact: bool) -> None:
    """Assert that a task has taken up what its channels gave it, in all attempts that count."""
    if not task.gates:
        return
    processed = sum(into.state.processed for gate in task.gates for into in gate.channels)
    if is_exact:
        assert task.state.taken == processed, task.stage
    else:
        assert task.state.taken >= processed, task.stage


def check_channels(state: RoundState) -> None:
    """Assert that each record written to a channel and not taken up is somewhere in it, once."""
    for name, out, into in state.channels():
        task = state.task(_receiver_of(state, name.edge), name.receiver)
        number = [gate.edge for gate in task.gates].index(name.edge)
        place = [own.sender for own in task.gates[number].channels].index(name.sender)
        is_read = (task.state.gate, task.state.channel) == (number, place)
        found = [
            out.state.tail,
            sum(message.records for message in out.finished),
            sum(sent.message.records for sent in out.under_way),
            sum(message.records for message in into.queue),
            task.state.left if is_read else 0,
        ]
        assert sum(found) == out.state.written - into.state.processed, (name, found)


def _receiver_of(state: RoundState, edge: str) -> str:
    [found] = {task.stage for task in state.tasks for gate in task.gates if gate.edge == edge}
    return found
