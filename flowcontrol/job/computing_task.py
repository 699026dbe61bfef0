"""What a subtask needs of a processor, as :mod:`flowcontrol.operators.computing` asks for it."""

from typing import Any

from flowcontrol.job.graph import JobVertex
from flowcontrol.job.job import Job
from flowcontrol.job.processors import cpu_shares
from flowcontrol.operators.computing import note_computing
from flowcontrol.operators.states import StreamTask
from flowcontrol.protocol.processors import TaskProcessor, computes_until, cpu_at, waiting_us


class ComputingTask:
    """The side of a subtask that shares the processors of its task manager.

    Attributes
    ----------
    processor : TaskProcessor or None
        What it has claimed; None: it needs none, or nobody counts that.
    """

    job: Job
    plan: JobVertex
    index: int
    task: StreamTask
    _round: int

    def _prepare_processor(self) -> None:
        """Say what it needs of a processor, before the first round."""
        self._cpu = cpu_shares(self.job, self.plan, self.index)
        self.processor = None if self._cpu is None else TaskProcessor()

    def computes_until(self, start: int, end: int) -> int:
        """Return the work that it may do by the end of a round, as it waits for a processor."""
        return end if self.processor is None else computes_until(self.processor, start, end)

    def waits_for(self, start: int, end: int) -> int:
        """Return for how long of a round it waits for a processor, microseconds."""
        if self.processor is None:
            return 0
        return waiting_us(self.processor, start, end, self.job.round_us)

    def claim_processor(self: Any, start: int, until: int, end: int) -> None:
        """Claim what it has done in the round; its times are those of this round."""
        if self.processor is None or self._cpu is None:
            return
        round_us, task = self.job.round_us, self.task
        cpu = cpu_at(self._cpu, self._round * round_us)
        blocked_us = task.blocked
        note_computing(self, task, self.processor, cpu, round_us, start, until, end, blocked_us)
