"""Requests for checkpoints: why one fails, what is asked of whom, and the figures of each.

Source: ``CheckpointRequestDecider`` (section 1 of the reference, "Queue").
"""

from bisect import insort
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from flowcontrol.protocol.network.partitioners import pointwise_senders
from flowcontrol.state.declared import Kept

# --- Why a request is refused or a checkpoint fails, in Flink's words, and which reasons count.
#
# Source: `CheckpointFailureReason` and `CheckpointFailureManager.checkFailureCounter`.


class FailureReason(StrEnum):
    """Flink's ``CheckpointFailureReason``; a member equals its name as text."""

    # The request is refused, no checkpoint exists.
    PERIODIC_SCHEDULER_SHUTDOWN = "PERIODIC_SCHEDULER_SHUTDOWN"
    TOO_MANY_CONCURRENT_CHECKPOINTS = "TOO_MANY_CONCURRENT_CHECKPOINTS"
    TOO_MANY_CHECKPOINT_REQUESTS = "TOO_MANY_CHECKPOINT_REQUESTS"
    MINIMUM_TIME_BETWEEN_CHECKPOINTS = "MINIMUM_TIME_BETWEEN_CHECKPOINTS"
    NOT_ALL_REQUIRED_TASKS_RUNNING = "NOT_ALL_REQUIRED_TASKS_RUNNING"
    BLOCKING_OUTPUT_EXIST = "BLOCKING_OUTPUT_EXIST"
    # A task could not take its snapshot.
    IO_EXCEPTION = "IO_EXCEPTION"
    CHECKPOINT_ASYNC_EXCEPTION = "CHECKPOINT_ASYNC_EXCEPTION"
    CHANNEL_STATE_SHARED_STREAM_EXCEPTION = "CHANNEL_STATE_SHARED_STREAM_EXCEPTION"
    CHECKPOINT_DECLINED = "CHECKPOINT_DECLINED"
    CHECKPOINT_DECLINED_TASK_NOT_READY = "CHECKPOINT_DECLINED_TASK_NOT_READY"
    CHECKPOINT_DECLINED_TASK_CLOSING = "CHECKPOINT_DECLINED_TASK_CLOSING"
    CHECKPOINT_DECLINED_TASK_NOT_CHECKPOINTING = "CHECKPOINT_DECLINED_TASK_NOT_CHECKPOINTING"
    CHECKPOINT_DECLINED_SUBSUMED = "CHECKPOINT_DECLINED_SUBSUMED"
    CHECKPOINT_DECLINED_ON_CANCELLATION_BARRIER = "CHECKPOINT_DECLINED_ON_CANCELLATION_BARRIER"
    CHECKPOINT_DECLINED_ALIGNMENT_LIMIT_EXCEEDED = "CHECKPOINT_DECLINED_ALIGNMENT_LIMIT_EXCEEDED"
    CHECKPOINT_DECLINED_INPUT_END_OF_STREAM = "CHECKPOINT_DECLINED_INPUT_END_OF_STREAM"
    TASK_CHECKPOINT_FAILURE = "TASK_CHECKPOINT_FAILURE"
    UNKNOWN_TASK_CHECKPOINT_NOTIFICATION_FAILURE = "UNKNOWN_TASK_CHECKPOINT_NOTIFICATION_FAILURE"
    # The coordinator, or what happens to the job.
    CHECKPOINT_EXPIRED = "CHECKPOINT_EXPIRED"
    CHECKPOINT_SUBSUMED = "CHECKPOINT_SUBSUMED"
    FINALIZE_CHECKPOINT_FAILURE = "FINALIZE_CHECKPOINT_FAILURE"
    TRIGGER_CHECKPOINT_FAILURE = "TRIGGER_CHECKPOINT_FAILURE"
    CHECKPOINT_COORDINATOR_SHUTDOWN = "CHECKPOINT_COORDINATOR_SHUTDOWN"
    CHECKPOINT_COORDINATOR_SUSPEND = "CHECKPOINT_COORDINATOR_SUSPEND"
    TASK_FAILURE = "TASK_FAILURE"
    JOB_FAILURE = "JOB_FAILURE"
    JOB_FAILOVER_REGION = "JOB_FAILOVER_REGION"


COUNTED = frozenset(
    {
        FailureReason.IO_EXCEPTION,
        FailureReason.CHECKPOINT_ASYNC_EXCEPTION,
        FailureReason.CHECKPOINT_DECLINED,
        FailureReason.CHECKPOINT_EXPIRED,
        FailureReason.FINALIZE_CHECKPOINT_FAILURE,
    }
)
"""Reasons that count against the tolerable failures; all others do not."""


# --- Requests for checkpoints, and the queue in which they wait.


CHECKPOINT = "checkpoint"
SAVEPOINT = "savepoint"
STOP_SAVEPOINT = "stop_savepoint"
KINDS = (CHECKPOINT, SAVEPOINT, STOP_SAVEPOINT)

QUEUED = "queued"
REFUSED = "refused"
STARTED = "started"
COMPLETED = "completed"
FAILED = "failed"


@dataclass
class CheckpointRequest:
    """A request for a checkpoint and what has become of it."""

    number: int  # Requests are numbered in the order in which they were made
    time: int  # When it was made
    kind: str  # "checkpoint", "savepoint" or "stop_savepoint"
    periodic: bool  # Made by a tick, or as one; False for whatever a user asks for
    # Starts at the limit of concurrent checkpoints: a savepoint while unaligned checkpoints are
    # off.
    forced: bool
    # "queued", "refused" (no checkpoint came of it), "started", "completed" or "failed".
    state: str = QUEUED
    reason: FailureReason | None = None  # Why it was refused or failed
    id: int | None = None  # Of the checkpoint, once one was started

    @property
    def is_savepoint(self) -> bool:
        """Whether it is a savepoint, with or without stop."""
        return self.kind != CHECKPOINT

    def refuse(self, reason: FailureReason) -> None:
        """End it without a checkpoint."""
        self.state, self.reason = REFUSED, reason


def _place(request: CheckpointRequest) -> tuple[bool, bool, bool, int, int]:
    """Return the key of the queue's order: savepoint, forced, made by a user, older."""
    return (
        not request.is_savepoint,
        not request.forced,
        request.periodic,
        request.time,
        request.number,
    )


class RequestQueue(Kept):
    """The requests that wait, in the order in which they will run.

    ``most``: requests that may wait, at least 1.
    """

    _kept = ("_requests",)
    _values = (CheckpointRequest,)

    def __init__(self, most: int) -> None:
        self.most = most
        self._requests: list[CheckpointRequest] = []

    def __iter__(self) -> Iterator[CheckpointRequest]:
        """Iterate in the order in which they will run."""
        return iter(self._requests)

    def __len__(self) -> int:
        """Return how many wait."""
        return len(self._requests)

    def add(self, request: CheckpointRequest) -> None:
        """Queue a request; one too many refuses the last one, or this one.

        A full queue whose last request is a user's has none but users': the new one is refused,
        whatever it is.
        """
        if len(self._requests) >= self.most and not self._requests[-1].periodic:
            request.refuse(FailureReason.TOO_MANY_CHECKPOINT_REQUESTS)
            return
        insort(self._requests, request, key=_place)
        if len(self._requests) > self.most:
            self._requests.pop().refuse(FailureReason.TOO_MANY_CHECKPOINT_REQUESTS)

    def poll(self, now: int, is_at_limit: bool, pause_ends: int | None) -> CheckpointRequest | None:
        """Take the request that is next, if it may start.

        - ``is_at_limit``: whether as many checkpoints are pending as may be: only a forced request
          starts.
        - ``pause_ends``: last completion + min pause; None before any completion.

        To be started; or refused for MINIMUM_TIME_BETWEEN_CHECKPOINTS, a periodic one that came
        before the end of the pause, which ends the choice. None: nothing may start.
        """
        if not self._requests:
            return None
        first = self._requests[0]
        if is_at_limit and not first.forced:
            return None
        del self._requests[0]
        early = pause_ends is not None and now < pause_ends
        if early and first.periodic and not first.forced:
            first.refuse(FailureReason.MINIMUM_TIME_BETWEEN_CHECKPOINTS)
        return first

    def refuse_all(self, reason: FailureReason) -> None:
        """Refuse whatever waits."""
        for request in self._requests:
            request.refuse(reason)
        self._requests.clear()


# --- What is known of a checkpoint: of each task, and of all of them together.
#
# Source: section 1 of the reference, "Statistics"; Flink's `SubtaskStateStats` and
# `PendingCheckpointStats`.


NOT_YET = -1
"""End-to-end duration before any acknowledgement."""


class TaskStatistics(NamedTuple):
    """What a task reported with its acknowledgement; -1 in place of what it does not know."""

    acknowledged: int  # When the coordinator received it
    # Durations, in the coordinator's unit.
    start_delay: int = 0
    alignment: int = 0
    sync: int = 0
    async_: int = 0
    # Bytes written for this checkpoint, bytes that it refers to.
    checkpointed_size: int = 0
    full_size: int = 0
    # In-flight bytes read during the alignment, and written with the checkpoint.
    processed: int = 0
    persisted: int = 0


class CheckpointStatistics(NamedTuple):
    """A checkpoint, over all its tasks.

    A negative figure of a task is unknown, and left out.

    ``unaligned``: whether in-flight data was persisted, whatever kind the barriers were.
    """

    id: int  # id, kind: kind is "checkpoint", "savepoint" or "stop_savepoint"
    kind: str
    # "in_progress", "completed", "expired", "declined" or "aborted" (subsumed, or the job did not
    # run any more).
    status: str
    reason: str | None  # Why it failed
    triggered: int  # triggered, ended: times; ended is None while it is pending
    ended: int | None
    subtasks: int  # Tasks of the job, those that had finished included
    acknowledged: int  # Tasks that acknowledged before it ended; those that had finished count
    # Latest acknowledgement - trigger, of a failed one failure - trigger; -1 before any.
    end_to_end: int
    # The longest of a task, late reports included, as in the sizes.
    start_delay: int
    alignment: int
    sync: int
    async_: int
    checkpointed_size: int  # checkpointed_size, full_size, processed, persisted: bytes of all tasks
    full_size: int
    processed: int
    persisted: int

    @property
    def unaligned(self) -> bool:
        """Whether in-flight data was persisted."""
        return self.persisted > 0


@dataclass
class CheckpointCounts:
    """Checkpoints by what became of them; total = in progress + completed + failed.

    A request that was refused has no checkpoint and does not count. (Flink counts a trigger that
    fails before the checkpoint has an id, as total and failed.)
    """

    total: int = 0
    restored: int = 0
    in_progress: int = 0
    completed: int = 0
    failed: int = 0

    def start(self) -> None:
        """Count a checkpoint that was triggered."""
        self.total += 1
        self.in_progress += 1

    def complete(self) -> None:
        """Count one that was in progress as completed."""
        self.in_progress -= 1
        self.completed += 1

    def fail(self) -> None:
        """Count one that was in progress as failed."""
        self.in_progress -= 1
        self.failed += 1


DURATIONS = ("start_delay", "alignment", "sync", "async_")
SIZES = ("checkpointed_size", "full_size", "processed", "persisted")


def combined(tasks: Collection[TaskStatistics]) -> dict[str, int]:
    """Return the longest durations and the sums of the sizes, negative figures left out."""
    if not tasks:
        return dict.fromkeys((*DURATIONS, *SIZES), 0)
    _, delay, alignment, sync, async_, *sizes = zip(*tasks, strict=True)
    found = {
        "start_delay": max(0, *delay),
        "alignment": max(0, *alignment),
        "sync": max(0, *sync),
        "async_": max(0, *async_),
    }
    for name, values in zip(SIZES, sizes, strict=True):
        found[name] = sum(values) if min(values) >= 0 else sum(max(0, one) for one in values)
    return found


# --- Which subtasks a checkpoint is triggered at.
#
# Source: `DefaultCheckpointPlanCalculator` (section 1 of the reference, "Trigger"); the
# channels of a pointwise edge are those of `VertexInputInfoComputationUtils`.


ALL = "all"
POINTWISE = "pointwise"


def checkpoint_plan(
    vertices: Sequence[tuple[int, Collection[int]]], edges: Sequence[tuple[int, int, str]]
) -> dict[int, list[int]]:
    """Return the subtasks to trigger: those that run and have no input from one that runs.

    ``vertices``: parallelism of a vertex, and which of its subtasks have finished, from 0.

    By vertex its subtasks to trigger, ascending; a vertex with none is absent. While nothing has
    finished these are all subtasks of the sources.
    """
    running = [set(range(count)).difference(ended) for count, ended in vertices]
    fed: list[set[int]] = [set() for _ in vertices]
    for sender, receiver, kind in edges:
        senders, receivers = vertices[sender][0], vertices[receiver][0]
        for subtask in running[receiver]:
            read = range(senders)
            if kind == POINTWISE:
                read = pointwise_senders(subtask, senders, receivers)
            if not running[sender].isdisjoint(read):
                fed[receiver].add(subtask)
    plan = {index: sorted(own - fed[index]) for index, own in enumerate(running)}
    return {index: subtasks for index, subtasks in plan.items() if subtasks}
