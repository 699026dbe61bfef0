"""What acts between two rounds of a job: the coordinator, failures, a throttle, batches, alignment.

It sees all of the job's memory, and changes it as it stands after a round. So it is the same
wherever the tasks run.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from flowcontrol.job import Job
from flowcontrol.job.batch_settings import has_batches, has_throttles_batches
from flowcontrol.job.throttling import controller_of
from flowcontrol.virtual.alignments import Alignments
from flowcontrol.virtual.batches import Batches
from flowcontrol.virtual.control import Control
from flowcontrol.virtual.coordination import Coordination
from flowcontrol.virtual.memory import Memory
from flowcontrol.virtual.recovery import Recovery


def acts_between(job: Job) -> bool:
    """Whether something of a job acts on all of its tasks between two rounds."""
    scenario = job.scenario
    return (
        job.checkpoints is not None
        or job.faults is not None
        or controller_of(job) is not None
        or has_batches(scenario)
        or bool(scenario.alignment_groups)
    )


class Between:
    """All that acts between the rounds of a job.

    Parameters
    ----------
    job : Job
        The scenario, laid out.
    memory : Memory
        Of its run, before the first round.
    begins_us : int, default 0
        When the interval of checkpoints begins, microseconds.
    own : collection of int, optional
        The tasks that run in this memory; by default all do.

    Attributes
    ----------
    control : Control or None
        What slows the sources.
    coordination : Coordination or None
        What triggers checkpoints.
    recovery : Recovery or None
        What fails, and restarts.
    alignments : Alignments or None
        What has sources wait for one another.
    batches : Batches or None
        What ends the batches of windows with Spark's time.
    """

    def __init__(
        self, job: Job, memory: Memory, begins_us: int = 0, own: Collection[int] | None = None
    ) -> None:
        self._job, self._head = job, memory.head
        controller = controller_of(job)
        self.batches = Batches(job, memory) if has_batches(job.scenario) else None
        throttled = self.batches if has_throttles_batches(job.scenario) else None
        self.control = None if controller is None else Control(job, memory, controller, throttled)
        self.coordination = None
        if job.checkpoints is not None:
            self.coordination = Coordination(job, memory, begins_us)
        self.recovery = None
        if job.faults is not None:
            coordinator = None if self.coordination is None else self.coordination.control
            self.recovery = Recovery(job, memory, coordinator, own)
        self.alignments = Alignments(job, memory) if job.scenario.alignment_groups else None

    def before_round(self) -> int:
        """Have all act before the next round; return the round before which they do again."""
        due = self._before_tasks()
        if self.batches is not None:
            due = min(due, self.batches.before_round(self._head.round))
        if self.alignments is not None:
            due = min(due, self.alignments.begin())
        return due

    def act(self) -> None:
        """Have all act before the next round of a run that stops after every one."""
        own = self.coordination
        if own is not None and own.has_news:
            own.hear()
        self.look()
        self.before_round()

    def look(self) -> None:
        """Show a throttle's controller the rounds that are done, if it wants to see them.

        Of a run that stops after every round, before the next one.
        """
        control, head = self.control, self._head
        if control is None or head.round == 0:
            return
        is_due = head.round * self._job.round_us >= control.controller.next_look_us()
        if is_due or (control.controller.wants_empty and head.is_empty == 1):
            control.look()
        head.is_watched = 0

    def state(self) -> dict[str, Any]:
        """Return what the rounds to come need, as JSON takes it; the memory is not part of it."""
        return {name: own.state() for name, own in self._parts().items()}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on from what :meth:`state` returned, in memory that stands where it stood then."""
        for name, own in self._parts().items():
            own.restore(state[name])

    def _parts(self) -> dict[str, Any]:
        found = {
            "checkpoints": self.coordination,
            "failures": None if self.recovery is None else self.recovery.control,
            "throttle": None if self.control is None else self.control.controller,
            "batches": None if self.batches is None else self.batches.control,
            "alignment": None if self.alignments is None else self.alignments.control,
        }
        return {name: own for name, own in found.items() if own is not None}

    def _before_tasks(self) -> int:
        """Have the coordinator and failures act."""
        if self.coordination is not None:
            return self.coordination.begin(self.recovery)
        if self.recovery is None:
            return self._job.rounds
        self.recovery.before_round(self._head.round, [])
        return self.recovery.next_round
