"""Failures and restarts of a run on the virtual clock: when Python acts between two rounds."""

from collections.abc import Collection

from flowcontrol.job import Job
from flowcontrol.job.checkpoint_control import CheckpointControl
from flowcontrol.job.failure_control import FailureControl
from flowcontrol.job.task_orders import TaskOrder
from flowcontrol.virtual.attempts import KernelAttempts
from flowcontrol.virtual.checkpoint_fields import CUT_SLOTS
from flowcontrol.virtual.memory import Memory


class Recovery:
    """Has the tasks of a run fail and restart.

    Parameters
    ----------
    job : Job
        The scenario, laid out, with faults.
    memory : Memory
        Of its run, before the first round.
    checkpoints : CheckpointControl, optional
        Its coordinator, if it has checkpoints.
    own : collection of int, optional
        The tasks that run in this memory; by default all do.

    Attributes
    ----------
    control : FailureControl
        What fails, as on the other clock.
    attempts : KernelAttempts
        The tasks.
    """

    def __init__(
        self,
        job: Job,
        memory: Memory,
        checkpoints: CheckpointControl | None = None,
        own: Collection[int] | None = None,
    ) -> None:
        self.attempts = KernelAttempts(job, memory, own)
        self.control = FailureControl(job, self.attempts, checkpoints)
        self._checkpoints, self._rounds = checkpoints, job.rounds
        self._full_at = CUT_SLOTS
        """The checkpoint whose cuts would take the place of some that were not harvested."""

    @property
    def next_round(self) -> int:
        """The round before which it wants to be asked."""
        due = self.control.next_round()
        return self._rounds if due is None else due

    def before_round(self, number: int, orders: list[TaskOrder]) -> list[TaskOrder]:
        """Do what is due before a round; the coordinator has given these orders for it.

        Returns
        -------
        list of TaskOrder
            Those for tasks that are deployed.
        """
        own, is_due = self._checkpoints, self.control.is_due(number)
        if own is not None and (is_due or own.coordinator.next_id >= self._full_at):
            latest = own.coordinator.latest_completed
            self.attempts.harvest(latest)
            if latest > 0:
                self.attempts.note_trigger(latest, own.coordinator.trigger_of(latest)[0])
            self._full_at = own.oldest_open + CUT_SLOTS
        if is_due:
            orders = [*orders, *self.control.before_round(number)]
        return [order for order in orders if self.control.is_deployed(order.task)]
