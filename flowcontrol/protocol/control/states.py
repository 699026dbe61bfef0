"""States of tasks and of a job, and which may follow which: Flink's tables."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Final, TypeVar

from flowcontrol.errors import ProtocolError


class TaskStatus(StrEnum):
    """State of one attempt to run a task (``ExecutionState``)."""

    CREATED = "CREATED"
    SCHEDULED = "SCHEDULED"
    DEPLOYING = "DEPLOYING"
    INITIALIZING = "INITIALIZING"
    RUNNING = "RUNNING"
    FINISHED = "FINISHED"
    CANCELING = "CANCELING"
    CANCELED = "CANCELED"
    FAILED = "FAILED"
    RECONCILING = "RECONCILING"


class JobStatus(StrEnum):
    """State of a job (``JobStatus``)."""

    INITIALIZING = "INITIALIZING"
    CREATED = "CREATED"
    RUNNING = "RUNNING"
    FAILING = "FAILING"
    FAILED = "FAILED"
    CANCELLING = "CANCELLING"
    CANCELED = "CANCELED"
    FINISHED = "FINISHED"
    RESTARTING = "RESTARTING"
    SUSPENDED = "SUSPENDED"
    RECONCILING = "RECONCILING"


_T, _J = TaskStatus, JobStatus

TASK_ENDS: Final = frozenset({_T.FINISHED, _T.CANCELED, _T.FAILED})
"""States that an attempt does not leave; another attempt begins at CREATED."""

JOB_ENDS: Final = frozenset({_J.FINISHED, _J.CANCELED, _J.FAILED, _J.SUSPENDED})
"""States that a job does not leave; SUSPENDED only at this JobMaster: another one takes over."""

TASK_MOVES: Final[Mapping[TaskStatus, frozenset[TaskStatus]]] = {
    _T.CREATED: frozenset({_T.SCHEDULED, _T.CANCELED, _T.FAILED, _T.RECONCILING}),
    _T.SCHEDULED: frozenset({_T.DEPLOYING, _T.CANCELED, _T.FAILED}),
    _T.DEPLOYING: frozenset({_T.INITIALIZING, _T.FINISHED, _T.CANCELING, _T.FAILED}),
    _T.INITIALIZING: frozenset({_T.RUNNING, _T.FINISHED, _T.CANCELING, _T.FAILED}),
    _T.RUNNING: frozenset({_T.FINISHED, _T.CANCELING, _T.FAILED}),
    _T.CANCELING: frozenset({_T.CANCELED, _T.FAILED}),
    _T.RECONCILING: frozenset({_T.INITIALIZING, _T.RUNNING, *TASK_ENDS}),
    **dict.fromkeys(TASK_ENDS, frozenset()),
}
"""By state of a task, those that may follow."""

JOB_MOVES: Final[Mapping[JobStatus, frozenset[JobStatus]]] = {
    _J.INITIALIZING: frozenset({_J.CREATED, _J.CANCELLING, _J.FAILED, _J.SUSPENDED}),
    _J.CREATED: frozenset({_J.RUNNING, _J.RECONCILING, _J.CANCELLING, _J.FAILING, _J.SUSPENDED}),
    _J.RUNNING: frozenset({_J.RESTARTING, _J.FAILING, _J.CANCELLING, _J.FINISHED, _J.SUSPENDED}),
    _J.RESTARTING: frozenset({_J.RUNNING, _J.FAILING, _J.CANCELLING, _J.SUSPENDED}),
    _J.FAILING: frozenset({_J.FAILED, _J.CANCELLING, _J.SUSPENDED}),
    _J.CANCELLING: frozenset({_J.CANCELED, _J.SUSPENDED}),
    _J.RECONCILING: frozenset({_J.RUNNING, _J.FAILING, _J.CANCELLING, _J.SUSPENDED}),
    **dict.fromkeys(JOB_ENDS, frozenset()),
}
"""By state of a job, those that may follow."""

S = TypeVar("S", TaskStatus, JobStatus)


def move(before: S, after: S) -> S:
    """Return the state that follows.

    Parameters
    ----------
    before, after : TaskStatus or JobStatus
        Where a task or a job is, and where it is to go.

    Raises
    ------
    ProtocolError
        If Flink knows no such transition, with those that it knows.

    Notes
    -----
    Javadoc of ``ExecutionState``, and the calls of ``transitionState`` in ``Execution`` and
    ``DefaultExecutionGraph``. A task that was never deployed is cancelled at once, one that was is
    asked to stop (CANCELING). A report of an attempt that has ended is no transition: its
    receiver passes it over.

    Examples
    --------
    >>> move(TaskStatus.RUNNING, TaskStatus.CANCELING)
    <TaskStatus.CANCELING: 'CANCELING'>
    """
    if isinstance(before, TaskStatus):
        allowed = sorted(map(str, TASK_MOVES[before]))
    else:
        allowed = sorted(map(str, JOB_MOVES[before]))
    if str(after) not in allowed:
        what = "task" if isinstance(before, TaskStatus) else "job"
        after_it = f"only {', '.join(allowed)} may follow" if allowed else "that state is final"
        raise ProtocolError(f"a {what} goes from {before} to {after}: {after_it}")
    return after
