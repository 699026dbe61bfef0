"""What acts between two rounds of a job: coordinators, restarts, throttles, in one object."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from flowcontrol.control.attempts import KernelAttempts
from flowcontrol.control.checkpoints import CheckpointControl
from flowcontrol.control.delivery import DeliveryControl
from flowcontrol.control.failures import FailureControl
from flowcontrol.control.sources import AlignmentControl, Batches, ThrottleControl, controller_of
from flowcontrol.control.task_orders import ABORTED, COMPLETED, RELIEVED, SLOWED, TRIGGER, TaskOrder
from flowcontrol.kernel.loop import has_news
from flowcontrol.kernel.views import REPORT_CELLS
from flowcontrol.layout.job import Job
from flowcontrol.layout.task_settings import has_batches, has_throttles_batches
from flowcontrol.memory import part_fields as f
from flowcontrol.memory.memory import Memory
from flowcontrol.memory.part_fields import CUT_SLOTS, KernelOrder
from flowcontrol.scenario import Savepoint
from flowcontrol.state.declared import Kept, cell, width
from flowcontrol.state.network import CheckpointReport

# --- Failures and restarts of a run: when Python acts between two rounds


class Recovery:
    """Has the tasks of a run fail and restart.

    - ``memory``: of its run, before the first round.
    - ``checkpoints``: its coordinator, if it has checkpoints.
    - ``own``: the tasks that run in this memory; by default all do.
    - ``control``: what fails, and when tasks restart.
    - ``attempts``: the tasks.
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
        return min(self._rounds, self.control.next_round())

    def before_round(self, number: int, orders: list[TaskOrder]) -> list[TaskOrder]:
        """Do what is due before a round; the coordinator has given these orders for it."""
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


# --- The coordinator of a job's checkpoints at work on the kernel's memory


KINDS = {
    TRIGGER: f.TO_TAKE,
    ABORTED: f.ABORTED,
    COMPLETED: f.COMPLETED,
    SLOWED: f.SLOWED,
    RELIEVED: f.RELIEVED,
}
"""What the kernel calls the kinds of orders."""

KIND = cell(CheckpointReport, "kind")


class Coordination(Kept):
    """Shows the coordinator what tasks have reported, and hands its orders to them.

    It looks when something is due and otherwise leaves the kernel alone: that logs what tasks
    report, and stops only for what the coordinator may not learn late.

    - ``memory``: of its run, before the first round.
    - ``begins_us``: when the interval of checkpoints begins, microseconds.
    - ``control``: the coordinator, with rounds and latencies.
    """

    def __init__(self, job: Job, memory: Memory, begins_us: int = 0) -> None:
        self.control = CheckpointControl(job, begins_us)
        self._job, self._head, self._due = job, memory.head, 0
        head = self._head
        size = head.reports_most, REPORT_CELLS
        self._reports = memory.cells[head.reports :][: size[0] * size[1]].reshape(size)
        self.delivery: DeliveryControl | None = None
        self.acted = -1
        """The last round before which it did what was due."""
        self._orders = memory.cells[head.orders :][: head.orders_most * width(KernelOrder)]
        self._heard: list[list[int]] = []

    def begin(self, recovery: Recovery | None = None) -> int:
        """Do what is due before the next round.

        Returns the round before which it wants to be asked again.
        """
        number = self._head.round
        if self._due <= number or (recovery is not None and recovery.next_round <= number):
            self._take_reports()
            orders = self.control.before_round(number)
            if recovery is not None:
                orders = recovery.before_round(number, orders)
            self._tell(orders)
            self._plan()
            self.acted = number
        return self._due if recovery is None else min(self._due, recovery.next_round)

    def hear(self) -> None:
        """Look at what tasks have reported, since the kernel has stopped for it."""
        self._take_reports()
        self._plan()

    @property
    def has_news(self) -> bool:
        """Whether it is to look at what tasks have reported, as the kernel stops for it."""
        return bool(has_news(self._head))

    def finish(self, rounds: int) -> None:
        """Take what has reached the coordinator by the last of so many rounds."""
        self._take_reports()
        self.control.before_round(rounds - 1)

    def state(self) -> dict[str, Any]:
        """Return what the rounds to come need, as JSON takes it."""
        return {
            "control": self.control.state(),
            "reports": self._logged(),
            "wanted": self._head.reports_wanted,
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on from what :meth:`state` returned, in memory that stands where it stood then."""
        self.control.restore(state["control"])
        self._plan()
        rows = state["reports"]
        if rows:
            self._reports[: len(rows)] = rows
        self._head.reports_count, self._head.reports_wanted = len(rows), state["wanted"]

    def ask(self, savepoints: tuple[Savepoint, ...]) -> None:
        """Have a user ask for savepoints, in the place of those that are still to come."""
        self.control.ask(savepoints)
        self._plan()

    def reports_in(self, number: int) -> list[CheckpointReport]:
        """Return what tasks have reported in the round that was run last."""
        found = [CheckpointReport(*row) for row in (*self._heard, *self._logged())]
        return [one for one in found if one.round == number]

    def _take_reports(self) -> None:
        self._heard = self._logged()
        self._head.reports_count = 0
        if self.delivery is not None:
            self.delivery.hear(self._heard)
        wanted = self.control.wants
        self.control.hear([CheckpointReport(*row) for row in self._heard if wanted(row[KIND])])

    def _plan(self) -> None:
        """Say when it looks next, and whether the kernel stops at a report."""
        self._due = min(self._job.rounds, self.control.next_round())
        self._head.reports_wanted = 0 if self.control.is_waiting else len(self._reports) // 2

    def _logged(self) -> list[list[int]]:
        """Return the rows of the log; a plain block of cells is read in half the time."""
        rows: list[list[int]] = self._reports[: self._head.reports_count].tolist()
        return rows

    def _tell(self, orders: list[TaskOrder]) -> None:
        """Leave orders for the kernel, which hands them to the tasks before the next round."""
        cells: list[int] = []
        for task, kind, one in orders:
            cells += one.checkpoint, one.created, one.is_savepoint, one.arrives, task, KINDS[kind]
        self._orders[: len(cells)] = cells
        self._head.orders_count = len(orders)


# --- What acts between two rounds of a job: all of it in one object.
#
# It sees all of the job's memory, and changes it as it stands after a round. So it is the same
# wherever the tasks run.


def acts_between(job: Job) -> bool:
    """Whether something of a job acts on all of its tasks between two rounds."""
    has_control = controller_of(job) is not None or has_batches(job.scenario)
    has_faults = job.checkpoints is not None or job.faults is not None
    return has_control or has_faults or bool(job.scenario.alignment_groups)


class Between(Kept):
    """All that acts between the rounds of a job.

    - ``memory``: of its run, before the first round.
    - ``begins_us``: when the interval of checkpoints begins, microseconds.
    - ``own``: the tasks that run in this memory; by default all do.
    - ``throttle``: what slows the sources.
    - ``coordination``: what triggers checkpoints.
    - ``recovery``: what fails, and restarts.
    - ``alignments``: what has sources wait for one another.
    - ``batches``: what ends the batches of windows with Spark's time.
    """

    _kept = ("coordination", "_failures", "_controller", "batches", "alignments")

    def __init__(
        self, job: Job, memory: Memory, begins_us: int = 0, own: Collection[int] | None = None
    ) -> None:
        self._job, self._memory, self._head = job, memory, memory.head
        self._controller = controller = controller_of(job)
        self.batches = Batches(job, memory) if has_batches(job.scenario) else None
        throttled = self.batches if has_throttles_batches(job.scenario) else None
        self.throttle = None
        if controller is not None:
            self.throttle = ThrottleControl(job, memory, controller, throttled)
        self.coordination = None
        if job.checkpoints is not None:
            self.coordination = Coordination(job, memory, begins_us)
        self.recovery = None
        if job.faults is not None:
            coordinator = None if self.coordination is None else self.coordination.control
            self.recovery = Recovery(job, memory, coordinator, own)
        self._failures = None if self.recovery is None else self.recovery.control
        self.alignments = AlignmentControl(job) if job.scenario.alignment_groups else None

    def before_round(self) -> int:
        """Have all act before the next round; return the round before which they do again."""
        due = self._before_tasks()
        if self.batches is not None:
            self.batches.before_round(self._head.round)
            due = min(due, self.batches.next_round(self._head.round + 1))
        if self.alignments is not None:
            due = min(due, self.alignments.begin(self._memory))
        return due

    def act(self) -> None:
        """Have all act before the next round of a run that stops after every one."""
        self.look()
        self.before_round()

    def look(self) -> None:
        """Show what was done to who waits for it, of a run that stops after every round.

        The coordinator hears of reports for which the kernel stops; a throttle's controller sees
        the rounds, if it wants to.
        """
        if self.coordination is not None and self.coordination.has_news:
            self.coordination.hear()
        throttle, head = self.throttle, self._head
        if throttle is None or head.round == 0:
            return
        is_due = head.round * self._job.round_us >= throttle.controller.next_look_us()
        if is_due or (throttle.controller.wants_empty and head.is_empty == 1):
            throttle.look()
        head.is_watched = 0

    def _before_tasks(self) -> int:
        """Have the coordinator and failures act."""
        if self.coordination is not None:
            return self.coordination.begin(self.recovery)
        if self.recovery is None:
            return self._job.rounds
        self.recovery.before_round(self._head.round, [])
        return self.recovery.next_round
