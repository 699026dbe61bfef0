"""Which tasks of a job stop or begin in a round, and which fail: what their channels make of it.

Only what a state shows, and what the scenario plans: who decides is
:mod:`flowcontrol.job.failure_control`.
"""

from typing import NamedTuple

from flowcontrol.job.job import Job
from flowcontrol.job.round_state import RoundState, TaskState

TaskKey = tuple[str, int]
"""A task by its stage, of a chain the first one, and its subtask."""


class Changes(NamedTuple):
    """What happened to tasks at the beginning of a round.

    Attributes
    ----------
    stopped : list of (str, int)
        Those that stopped, in the order of the job.
    begun : list of (str, int)
        Those that began, perhaps anew, in the order of the job.
    failed : set of (str, int)
        Of those that stopped, the ones that failed by themselves.
    died : set of int
        Task managers that died.
    """

    stopped: list[TaskKey]
    begun: list[TaskKey]
    failed: set[TaskKey]
    died: set[int]


class Processes:
    """The tasks of a job, and the task managers in which they run.

    Parameters
    ----------
    job : Job
        The scenario, laid out.
    """

    def __init__(self, job: Job) -> None:
        self._running: dict[TaskKey, bool] = {}
        self._finished: dict[TaskKey, bool] = {}
        self._dead = set[int]()
        self._failing: dict[int, set[TaskKey]] = {}
        self._dying: dict[int, set[int]] = {}
        for failure in () if job.faults is None else job.faults.failures:
            number = -(-failure.at_us // job.round_us)
            if failure.task_manager is not None:
                self._dying.setdefault(number, set()).add(failure.task_manager)
            elif failure.stage is not None and failure.subtask is not None:
                key = (job.stage(failure.stage).name, failure.subtask)
                self._failing.setdefault(number, set()).add(key)

    def lives(self, manager: int) -> bool:
        """Tell whether a task manager is there; one that died comes back with its first task."""
        return manager not in self._dead

    def look(self, state: RoundState) -> Changes:
        """Return what has changed since the state before; in the first one tasks begin."""
        died = self._dying.get(state.number, set())
        self._dead |= died
        stopped, begun = list[TaskKey](), list[TaskKey]()
        for task in state.tasks:
            key = task.stage, task.subtask
            was_running = self._running.get(key, False)
            is_anew = self._finished.get(key, False) and not _is_finished(task)
            if was_running and (not task.is_running or is_anew):
                stopped.append(key)
            if task.is_running and (not was_running or is_anew):
                begun.append(key)
                self._dead.discard(task.task_manager)
            self._running[key], self._finished[key] = task.is_running, _is_finished(task)
        return Changes(stopped, begun, self._failing.get(state.number, set()), died)


def _is_finished(task: TaskState) -> bool:
    return task.state.is_finished == 1
