"""What the subtasks of a sink hear of checkpoints, round by round, on the live clock."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from flowcontrol.job import Job, JobVertex, Subtask
from flowcontrol.job.checkpointed_task import COMPLETED, TaskOrder, task_number
from flowcontrol.job.restart_log import Restart


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


class SinkMail:
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
        self._first, self._count = task_number(job, plan, 0), plan.stage.parallelism
        self._waiting: list[tuple[int, int, int]] = []

    def _own(self, tasks: Iterable[int]) -> list[int]:
        """Return which of the stage's subtasks are among some tasks."""
        return [task - self._first for task in tasks if 0 <= task - self._first < self._count]

    def note(self, order: TaskOrder) -> None:
        """Take an order of the coordinator; that a checkpoint is complete concerns the sinks."""
        if order.kind == COMPLETED:
            message = order.message
            self._waiting += [
                (message.arrives, index, message.checkpoint) for index in self._own([order.task])
            ]

    def deliver(
        self, number: int, subtasks: Sequence[Subtask], restarts: Sequence[Restart]
    ) -> None:
        """Find out what the subtasks hear in a round, once all is known that happens before it.

        Parameters
        ----------
        number : int
            The round that is about to run.
        subtasks : sequence of Subtask
            As they are in it.
        restarts : sequence of Restart
            All of the run.
        """
        restored = [
            (index, one.checkpoint)
            for one in restarts
            if one.running == number
            for index in self._own(one.tasks)
        ]
        again = {index for index, _ in restored}  # nothing reaches them that was said before
        left = [one for one in self._waiting if one[1] not in again]
        completed = [
            (index, checkpoint)
            for arrives, index, checkpoint in left
            if arrives == number and subtasks[index].is_running
        ]
        self._waiting = [one for one in left if one[0] > number]
        self.heard = Heard(completed, restored)

    def state(self) -> list[list[int]]:
        """Return what is under way, as JSON takes it."""
        return [list(one) for one in self._waiting]

    def restore(self, state: Sequence[Sequence[int]]) -> None:
        """Go on from what :meth:`state` returned."""
        self._waiting = [(arrives, index, checkpoint) for arrives, index, checkpoint in state]
