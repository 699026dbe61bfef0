"""What goes between the endpoints of the control plane, and what each weighs.

Sizes are those that were measured on Flink 1.20.1 and 2.3.0 with two task managers of two slots,
three vertices and seven subtasks: the serialised call, without the envelope of its transport.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

CLIENT, DISPATCHER = "client", "Dispatcher"
RESOURCE_MANAGER, JOB_MASTER = "ResourceManager", "JobMaster"


def endpoint_of(manager: int) -> str:
    """Return the name of the endpoint of a task manager."""
    return f"TaskExecutor {manager}"


class Name(StrEnum):
    """What a call is called in Flink."""

    REGISTER_TASK_EXECUTOR = "registerTaskExecutor"
    SEND_SLOT_REPORT = "sendSlotReport"
    SUBMIT_JOB = "submitJob"
    REGISTER_JOB_MASTER = "registerJobMaster"
    DECLARE_REQUIRED_RESOURCES = "declareRequiredResources"
    REQUEST_SLOT = "requestSlot"
    REGISTER_TASK_MANAGER = "registerTaskManager"
    OFFER_SLOTS = "offerSlots"
    SUBMIT_TASK = "submitTask"
    UPDATE_TASK_EXECUTION_STATE = "updateTaskExecutionState"
    TRIGGER_CHECKPOINT = "triggerCheckpoint"
    ACKNOWLEDGE_CHECKPOINT = "acknowledgeCheckpoint"
    CONFIRM_CHECKPOINT = "confirmCheckpoint"
    ABORT_CHECKPOINT = "abortCheckpoint"
    CANCEL_TASK = "cancelTask"
    FREE_SLOT = "freeSlot"
    HEARTBEAT_FROM_RESOURCE_MANAGER = "heartbeatFromResourceManager"
    HEARTBEAT_FROM_JOB_MANAGER = "heartbeatFromJobManager"
    HEARTBEAT_FROM_TASK_MANAGER = "heartbeatFromTaskManager"


@dataclass(frozen=True, slots=True)
class Call:
    """A call of a remote procedure.

    Attributes
    ----------
    source, target : str
        Endpoints.
    name : Name
        What is called.
    token : str or None
        Fencing token of the target's leader, as the caller knows it. A task executor is not
        fenced: a call to one carries the caller's own leader id. None: from a task executor to
        itself there is none.
    nbytes : int
        Size.
    args : tuple
        What it says, by position.
    """

    source: str
    target: str
    name: Name
    token: str | None
    nbytes: int
    args: tuple[Any, ...] = ()


@dataclass(frozen=True, slots=True)
class Reply:
    """A small answer to a call, or a word about a connection: not a message of the trace.

    Attributes
    ----------
    source, target : str
        Endpoints.
    name : str
        The call that is answered; ``"disconnect"``: the source has given the target up.
    value : tuple
        What it says.
    error : str
        Why the call was not executed; empty: it was.
    """

    source: str
    target: str
    name: str
    value: tuple[Any, ...] = ()
    error: str = ""


@dataclass(frozen=True, slots=True)
class After:
    """Something that an endpoint does by itself at a moment.

    Attributes
    ----------
    at : int
        When, microseconds.
    who : str
        The endpoint.
    what : str
        What it does.
    value : tuple
        With what.
    """

    at: int
    who: str
    what: str
    value: tuple[Any, ...] = ()


Effect = Call | Reply | After

SIZES: Final[dict[Name, int]] = {
    Name.REGISTER_TASK_EXECUTOR: 3195,
    Name.SEND_SLOT_REPORT: 2669,
    Name.SUBMIT_JOB: 42942,
    Name.REGISTER_JOB_MASTER: 1137,
    Name.REQUEST_SLOT: 2389,
    Name.REGISTER_TASK_MANAGER: 1571,
    Name.TRIGGER_CHECKPOINT: 2144,
    Name.CONFIRM_CHECKPOINT: 1279,
    Name.ABORT_CHECKPOINT: 1279,
    Name.CANCEL_TASK: 1341,
    Name.FREE_SLOT: 3232,
}
"""Bytes of calls that are of one size."""

ASKS_TASK_MANAGER, ASKS_JOB_MASTER, JOB_MASTER_ANSWERS = 636, 633, 634
"""Heartbeats of the resource manager, and the JobMaster's answer, bytes."""

_DECLARED, _DECLARED_NOTHING = 1772, 1195
_OFFER, _FURTHER_SLOT = 2298, 37
_REPORTED, _REPORTED_END = 1675, 3852
_SUBMIT, _ACKNOWLEDGE = (15_000, 25_000), (1785, 4517)
_ASKS_EXECUTOR, _SLOT_REPORT, _ACCUMULATORS = (1253, 1285), (2687, 3109), (3349, 8788)


def within(bounds: tuple[int, int], part: int, whole: int) -> int:
    """Return a size within the range that was measured: ``part`` of ``whole`` of the way up.

    The range of a table does not say what a size depends on. Ours goes up evenly with what the
    call lists, and reaches the upper end where it lists the most of the job.
    """
    low, high = bounds
    return low + (high - low) * min(part, whole) // whole if whole > 0 else low


def declared_bytes(slots: int) -> int:
    """Return the size of a declaration of so many slots."""
    return _DECLARED if slots > 0 else _DECLARED_NOTHING


def offer_bytes(slots: int) -> int:
    """Return the size of an offer of so many slots, at least 1."""
    return _OFFER + _FURTHER_SLOT * (slots - 1)


def report_bytes(*, is_end: bool) -> int:
    """Return the size of a report of a task's state; the last one has its accumulators."""
    return _REPORTED_END if is_end else _REPORTED


def submit_bytes(channels: int, most: int) -> int:
    """Return the size of a task's descriptor by its channels, of the most that a task has.

    A shuffle descriptor for each channel is what descriptors of one job differ in.
    """
    return within(_SUBMIT, channels, most)


def acknowledge_bytes(operators: int, most: int) -> int:
    """Return the size of an acknowledgement by the operators of the task, of the most in a task.

    It names a handle for the state of each operator of the chain; of one the least was measured.
    """
    return within(_ACKNOWLEDGE, operators - 1, most - 1)


def asks_executor_bytes(held: int, slots: int) -> int:
    """Return the size of a JobMaster's heartbeat, which lists the slots that it holds there."""
    return within(_ASKS_EXECUTOR, held, slots)


def slot_report_bytes(allocated: int, slots: int) -> int:
    """Return the size of a task executor's answer to the resource manager: its slots' holders."""
    return within(_SLOT_REPORT, allocated, slots)


def accumulators_bytes(running: int, tasks: int) -> int:
    """Return the size of its answer to a JobMaster, with what it knows of each running task."""
    return within(_ACCUMULATORS, running, tasks)


@dataclass(frozen=True, slots=True)
class ControlTask:
    """One subtask of a job, as the control plane sees it.

    Attributes
    ----------
    vertex : str
        Name of its vertex.
    subtask : int
        Index.
    manager, slot : int
        Where it runs.
    region : int
        Pipelined region: tasks of one number start and fail together.
    is_source : bool
        Whether checkpoints are triggered at it.
    channels : int
        What it reads from and writes to, each of its descriptors naming one.
    operators : int
        Operators in its chain, at least 1.
    """

    vertex: str
    subtask: int
    manager: int
    slot: int
    region: int = 0
    is_source: bool = False
    channels: int = 0
    operators: int = 1

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
