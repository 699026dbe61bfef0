"""The coordinators of aligned sources at work on the kernel's memory."""

from flowcontrol.job.alignment_control import AlignmentControl
from flowcontrol.job.job import Job
from flowcontrol.operators.aligning import reported, update_max_desired_watermark
from flowcontrol.operators.timed_states import TaskTime
from flowcontrol.virtual.memory import Memory
from flowcontrol.virtual.task_views import kernel_time
from flowcontrol.virtual.wheel import wake


class Alignments(AlignmentControl):
    """Shows the coordinators what sources report, and tells these what their groups allow.

    Parameters
    ----------
    job : Job
        The scenario, laid out, with groups of sources.
    memory : Memory
        Of its run, before the first round.
    """

    def __init__(self, job: Job, memory: Memory) -> None:
        super().__init__(job)
        self._memory = memory

    def begin(self) -> int:
        """Do what is due before the next round; return the one before which to be asked again."""
        head = self._memory.head
        if self.next_round() <= head.round:
            for task, allowed in self.before_round(head.round, self._reported):
                if update_max_desired_watermark(self._time(task), allowed) == 1:
                    wake(head, task, head.round)
        return self.next_round()

    def _reported(self, task: int) -> int:
        return reported(self._time(task))

    def _time(self, task: int) -> TaskTime:
        place = int(self._memory.tasks["time"][task])
        return kernel_time(self._memory.cells, place).own
