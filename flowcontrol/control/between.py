"""What acts between two rounds of a job: all of it in one object.

It sees all of the job's memory, and changes it as it stands after a round. So it is the same
wherever the tasks run.
"""

from __future__ import annotations

from collections.abc import Collection

from flowcontrol.control.alignment import AlignmentControl
from flowcontrol.control.batches import Batches
from flowcontrol.control.coordination import Coordination, Recovery
from flowcontrol.control.throttle import ThrottleControl, controller_of
from flowcontrol.layout.job import Job
from flowcontrol.layout.task_settings import has_batches, has_throttles_batches
from flowcontrol.memory.memory import Memory
from flowcontrol.state.kept import Kept


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
