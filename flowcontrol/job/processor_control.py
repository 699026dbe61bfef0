"""The processors of a job's task managers, in a run in memory."""

from collections.abc import Sequence

from flowcontrol.job.computing_task import ComputingTask
from flowcontrol.job.job import Job
from flowcontrol.job.processors import new_processors, tasks_by_manager
from flowcontrol.protocol.processors import share_processors


class ProcessorControl:
    """Shares the processors of all task managers out over the subtasks of a run in memory.

    Parameters
    ----------
    job : Job
        The scenario, laid out; it counts processors.

    Attributes
    ----------
    managers : list of Processors
        Those of each task manager.
    """

    def __init__(self, job: Job) -> None:
        self._tasks = tasks_by_manager(job)
        self.managers = [new_processors(job) for _ in self._tasks]

    def end_round(self, subtasks: Sequence[ComputingTask]) -> None:
        """Share a round's processors out when all subtasks have claimed."""
        for manager, numbers in zip(self.managers, self._tasks, strict=True):
            found = [subtasks[number].processor for number in numbers]
            share_processors(manager, [one for one in found if one is not None])
