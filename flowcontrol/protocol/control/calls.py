"""Calls between the parts of the control plane, and the states of jobs and tasks.

Sizes are those that were measured on Flink 1.20.1 and 2.3.0 with two task managers of two slots,
three vertices and seven subtasks: the serialised call, without the envelope of its transport.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final, Self, TypeVar

from flowcontrol.errors import ProtocolError

# --- States of tasks and of a job, and which may follow which: Flink's tables


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

    Javadoc of ``ExecutionState``, and the calls of ``transitionState`` in ``Execution`` and
    ``DefaultExecutionGraph``. A task that was never deployed is cancelled at once, one that was is
    asked to stop (CANCELING). A report of an attempt that has ended is not a transition: its
    receiver passes it over.

    ``before``, ``after``: where a task or a job is, and where it is to go.

    Raises ProtocolError if Flink knows no such transition, with those that it knows.

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


# --- What goes between the endpoints of the control plane, and what each weighs.


CLIENT, DISPATCHER = "client", "Dispatcher"
RESOURCE_MANAGER, JOB_MASTER = "ResourceManager", "JobMaster"


def endpoint_of(manager: int) -> str:
    """Return the name of the endpoint of a task manager."""
    return f"TaskExecutor {manager}"


class Name(StrEnum):
    """What a call is called in Flink, with the least and most bytes that it has."""

    least: int  # least, most: bytes; those to some targets are in :data:`SIZES_TO`
    most: int

    def __new__(cls, called: str, least: int, most: int | None = None) -> Self:
        """Make a name with its sizes."""
        own = str.__new__(cls, called)
        own._value_ = called
        own.least, own.most = least, least if most is None else most
        return own

    REGISTER_TASK_EXECUTOR = "registerTaskExecutor", 3195
    SEND_SLOT_REPORT = "sendSlotReport", 2669
    SUBMIT_JOB = "submitJob", 42942
    REGISTER_JOB_MASTER = "registerJobMaster", 1137
    DECLARE_REQUIRED_RESOURCES = "declareRequiredResources", 1195, 1772
    REQUEST_SLOT = "requestSlot", 2389
    REGISTER_TASK_MANAGER = "registerTaskManager", 1571
    OFFER_SLOTS = "offerSlots", 2298
    SUBMIT_TASK = "submitTask", 15_000, 25_000
    UPDATE_TASK_EXECUTION_STATE = "updateTaskExecutionState", 1675, 3852
    TRIGGER_CHECKPOINT = "triggerCheckpoint", 2144
    ACKNOWLEDGE_CHECKPOINT = "acknowledgeCheckpoint", 1785, 4517
    CONFIRM_CHECKPOINT = "confirmCheckpoint", 1279
    ABORT_CHECKPOINT = "abortCheckpoint", 1279
    CANCEL_TASK = "cancelTask", 1341
    FREE_SLOT = "freeSlot", 3232
    HEARTBEAT_FROM_RESOURCE_MANAGER = "heartbeatFromResourceManager", 636
    HEARTBEAT_FROM_JOB_MANAGER = "heartbeatFromJobManager", 1253, 1285
    HEARTBEAT_FROM_TASK_MANAGER = "heartbeatFromTaskManager", 2687, 3109


@dataclass(frozen=True, slots=True)
class Call:
    """A call of a remote procedure."""

    source: str  # source, target: endpoints
    target: str
    name: Name  # What is called
    # Fencing token of the target's leader, as the caller knows it. A task executor is not fenced: a
    # call to one carries the caller's own leader id. None: from a task executor to itself there is
    # none.
    token: str | None
    nbytes: int  # Size
    args: tuple[Any, ...] = ()  # What it says, by position


@dataclass(frozen=True, slots=True)
class Reply:
    """A small answer to a call, or a word about a connection: not a message of the trace."""

    source: str  # source, target: endpoints
    target: str
    name: str  # The call that is answered; ``"disconnect"``: the source has given the target up
    value: tuple[Any, ...] = ()  # What it says
    error: str = ""  # Why the call was not executed; empty: it was


@dataclass(frozen=True, slots=True)
class After:
    """Something that an endpoint does by itself at a moment."""

    at: int  # When, microseconds
    who: str  # The endpoint
    what: str  # What it does
    value: tuple[Any, ...] = ()  # With what


Effect = Call | Reply | After

SIZES_TO: Final[dict[tuple[Name, str], tuple[int, int]]] = {
    (Name.HEARTBEAT_FROM_RESOURCE_MANAGER, JOB_MASTER): (633, 633),
    (Name.HEARTBEAT_FROM_JOB_MANAGER, RESOURCE_MANAGER): (634, 634),
    (Name.HEARTBEAT_FROM_TASK_MANAGER, JOB_MASTER): (3349, 8788),
}
"""Least and most bytes of a call to a target where they are others."""

FURTHER_SLOT: Final = 37
"""Bytes of each further slot that is offered."""


def size_of(name: Name, target: str = "", part: int = 0, whole: int = 0) -> int:
    """Return the size of a call that lists ``part`` of the ``whole`` that it may list, bytes.

    The table does not say what a size depends on within its range. Ours goes up evenly with what
    the call lists, and reaches the upper end where it lists the most of the job: a task's
    descriptor its channels, an acknowledgement the operators of the chain beyond the first, a
    heartbeat the slots in use or the tasks that run.
    """
    low, high = SIZES_TO.get((name, target), (name.least, name.most))
    return low + (high - low) * min(part, whole) // whole if whole > 0 else low


@dataclass(frozen=True, slots=True)
class ControlTask:
    """One subtask of a job, as the control plane sees it."""

    vertex: str  # Name of its vertex
    subtask: int  # Index
    manager: int  # manager, slot: where it runs
    slot: int
    region: int = 0  # Pipelined region: tasks of one number start and fail together
    is_source: bool = False  # Whether checkpoints are triggered at it
    channels: int = 0  # What it reads from and writes to, each of its descriptors naming one
    operators: int = 1  # Operators in its chain, at least 1

    @property
    def executor(self) -> str:
        """The endpoint that runs it."""
        return endpoint_of(self.manager)

    @property
    def place(self) -> tuple[str, int]:
        """Endpoint and slot."""
        return self.executor, self.slot


def places_of(tasks: Iterable[ControlTask]) -> list[tuple[str, int]]:
    """Return the slots that tasks need, each once, in the order in which they come."""
    return list(dict.fromkeys(task.place for task in tasks))
