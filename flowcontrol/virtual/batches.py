"""The batches of windows with Spark's time on the kernel's memory."""

from flowcontrol.job.batch_control import BatchControl, BatchedTask, window_stages_of
from flowcontrol.job.job import Job
from flowcontrol.virtual.memory import Memory
from flowcontrol.virtual.task_views import kernel_time, kernel_window, watermark_operators
from flowcontrol.virtual.views import task_row
from flowcontrol.virtual.wheel import wake


class Batches:
    """Ends the batches of a run, and wakes the tasks that answer.

    Parameters
    ----------
    job : Job
        The scenario, laid out.
    memory : Memory
        Of its run, before the first round.

    Attributes
    ----------
    control : BatchControl
        What decides.
    """

    def __init__(self, job: Job, memory: Memory) -> None:
        self._head = memory.head
        self._tasks = {name: job.tasks[name] for name in window_stages_of(job)}
        self.control = BatchControl(
            job, {name: list(map(self._task, own)) for name, own in self._tasks.items()}
        )

    def before_round(self, number: int) -> int:
        """End the batches that end before a round; return the round before which the next may."""
        self._wake(self.control.before_round(number))
        return self.control.next_round(number + 1)

    def are_answered(self, *, is_empty: bool) -> bool:
        """Tell whether a job that may be empty has answered all that it took up."""
        if not is_empty or self.control.is_answering:
            return False
        stages = self.control.end_with_rows()
        self._wake(stages)
        return not stages

    def end_without_rows(self) -> None:
        """End the batches though no rows came, if they have something to put out or to evict."""
        self._wake(self.control.end_without_rows())

    def _wake(self, stages: list[str]) -> None:
        """Have the tasks of stages looked at in the next round."""
        for name in stages:
            for task in self._tasks[name]:
                wake(self._head, task, self._head.round)

    def _task(self, number: int) -> BatchedTask:
        head = self._head
        task = task_row(head, number)
        held = kernel_window(head, task.window)
        operators = watermark_operators(head, held.operators, held.operator_count)
        valve = kernel_time(head, task.time).own.valve
        return BatchedTask(task, held.own, held.store, operators, valve)
