"""The batches of windows with Spark's time on the kernel's memory."""

from flowcontrol.job.batch_control import BatchControl, BatchedTask, WindowQuery, window_stages_of
from flowcontrol.job.job import Job
from flowcontrol.virtual.memory import Memory
from flowcontrol.virtual.task_views import kernel_time, kernel_window, watermark_operators
from flowcontrol.virtual.views import task_row
from flowcontrol.virtual.wheel import wake


class Batches(BatchControl):
    """Ends batches in the memory, and has the tasks look at it.

    Parameters
    ----------
    job : Job
        The scenario, laid out, with Spark's windows.
    memory : Memory
        Of its run, before the first round.
    """

    def __init__(self, job: Job, memory: Memory) -> None:
        self._head, self._numbers = memory.head, job.tasks
        stages = window_stages_of(job)
        super().__init__(job, {name: list(map(self._task, job.tasks[name])) for name in stages})

    def are_answered(self, *, is_empty: bool) -> bool:
        """Tell whether a job that is empty has nothing to answer either; end its batches if not."""
        return is_empty and not self.is_answering and not self.end_with_rows()

    def _ends(self, query: WindowQuery, least: int) -> bool:
        has_ended = super()._ends(query, least)
        for task in self._numbers[query.plan.name] if has_ended else ():
            wake(self._head, task, self._head.round)
        return has_ended

    def _task(self, number: int) -> BatchedTask:
        head = self._head
        task = task_row(head, number)
        held = kernel_window(head, task.window)
        operators = watermark_operators(head, held.operators, held.operator_count)
        valve = kernel_time(head, task.time).own.valve
        return BatchedTask(task, held.own, held.store, operators, valve)
