"""What the subtasks of a sink hear of checkpoints, round by round, on the live clock."""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from flowcontrol.job import Job, JobVertex
from flowcontrol.job.failure_control import Watcher
from flowcontrol.job.task_orders import COMPLETED, TaskOrder


class Heard(NamedTuple):
    """What a sink stage hears by the start of a round.

    Attributes
    ----------
    completed : sequence of (int, int)
        Subtasks that run and hear that a checkpoint is complete, and which.
    restored : sequence of (int, int)
        Subtasks that begin anew in this round, and from which checkpoint; -1: from none.
    """

    completed: Sequence[tuple[int, int]] = ()
    restored: Sequence[tuple[int, int]] = ()


class SinkMail(Watcher):
    """The notifications of completed checkpoints to the subtasks of a stage.

    Parameters
    ----------
    job : Job
        The scenario, laid out.
    plan : JobVertex
        The stage.

    Attributes
    ----------
    heard : Heard
        What they hear by the start of the present round.
    """

    def __init__(self, job: Job, plan: JobVertex) -> None:
        self.heard = Heard()
        self._tasks = job.tasks[plan.name]
        self._latency = job.latency
        self._waiting: list[tuple[int, int, int]] = []

    def note(self, order: TaskOrder) -> None:
        """Take an order of the coordinator; that a checkpoint is complete concerns the sinks."""
        message = order.message
        if order.kind == COMPLETED and order.task in self._tasks:
            index = order.task - self._tasks.start
            self._waiting.append((message.arrives, index, message.checkpoint))

    def deliver(
        self, number: int, runs: Callable[[int], bool], restored: Mapping[int, int]
    ) -> None:
        """Find out what the subtasks hear in a round, once all is known that happens before it.

        Parameters
        ----------
        number : int
            The round that is about to run.
        runs : callable
            Given a subtask, tells whether it runs in it.
        restored : mapping of int to int
            Those that begin anew in it, and from which checkpoint: nothing reaches them that was
            said before.
        """
        left = [one for one in self._waiting if one[1] not in restored]
        completed = [
            (index, checkpoint)
            for arrives, index, checkpoint in left
            if arrives == number and runs(index)
        ]
        self._waiting = [one for one in left if one[0] > number]
        self.heard = Heard(completed, sorted(restored.items()))

    def leader_died(self, number: int) -> None:
        """Note that the JobManager dies before a round: what it says in that round is lost."""
        lost = number + self._latency
        self._waiting = [one for one in self._waiting if one[0] != lost]

    def state(self) -> list[list[int]]:
        """Return what is under way, as JSON takes it."""
        return [list(one) for one in self._waiting]

    def restore(self, state: Sequence[Sequence[int]]) -> None:
        """Go on from what :meth:`state` returned."""
        self._waiting = [(arrives, index, checkpoint) for arrives, index, checkpoint in state]
