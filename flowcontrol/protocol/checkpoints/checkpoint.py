"""A checkpoint under way, when the next one is due, and how many may fail.

Source: ``PendingCheckpoint`` (section 1 of the reference, "Acknowledgement").
"""

from collections.abc import Callable, Collection, Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from flowcontrol.protocol.checkpoints import requests as r
from flowcontrol.protocol.checkpoints import requests as s
from flowcontrol.protocol.checkpoints.requests import (
    COMPLETED,
    COUNTED,
    FAILED,
    CheckpointCounts,
    CheckpointRequest,
    FailureReason,
    TaskStatistics,
)
from flowcontrol.state.declared import Kept

# --- How many failed checkpoints in a row a job endures.
#
# Source: `CheckpointFailureManager` (section 1 of the reference, "Failure count").


NO_ID = -1
"""In place of the id of a checkpoint where there is none."""


@dataclass
class FailureCounter(Kept):
    """Counts failures since the last success.

    ``tolerable``: failures that the job endures, at least 0.
    """

    _kept = ("count", "last_success", "counted")

    tolerable: int
    count: int = 0  # Failures that counted since the last success, or since the job failed for them
    last_success: int = NO_ID  # Highest id that completed, -1 before any
    counted: set[int] = field(default_factory=set)  # Ids behind ``count``: each counts once

    def fail(self, id: int, reason: FailureReason) -> bool:
        """Count a failed checkpoint, and tell whether the job fails for it.

        - ``id``: of the checkpoint; one that is not above the last success does not count.
        - ``reason``: those in :data:`~flowcontrol.protocol.checkpoints.requests.COUNTED` count.

        Returns True if more than the tolerable ones have failed; the count then starts again.
        """
        if id <= self.last_success:
            return False
        if reason in COUNTED and id not in self.counted:
            self.counted.add(id)
            self.count += 1
        if self.count <= self.tolerable:
            return False
        self._clear()
        return True

    def succeed(self, id: int) -> None:
        """Forget the failures, unless a later checkpoint has completed before."""
        if id > self.last_success:
            self.last_success = id
            self._clear()

    def _clear(self) -> None:
        self.count = 0
        self.counted.clear()


# --- When periodic checkpoints are requested.
#
# Source: `CheckpointCoordinator.startCheckpointScheduler`, `getRandomInitDelay` and
# `rescheduleTrigger` (section 1 of the reference, "Ticks").


@dataclass
class Ticks(Kept):
    """The ticks of the periodic trigger.

    - ``interval``: between ticks; None: there are none.
    - ``min_pause``: ticks are at least this far apart.
    """

    _kept = ("next",)

    interval: int | None
    min_pause: int
    next: int | None = None  # When the next tick is due; None while they are stopped

    def start(self, now: int, delay: int | None) -> None:
        """Start ticking after a delay, which is needed if there is an interval."""
        if self.interval is not None and delay is not None:
            self.next = now + delay

    def stop(self) -> None:
        """Tick no more."""
        self.next = None

    def advance(self, now: int) -> None:
        """Move the next tick beyond now, by whole periods: those that were missed are one."""
        if self.next is not None and self.next <= now:
            self.next += self._period * ((now - self.next) // self._period + 1)

    def move_to(self, time: int) -> None:
        """Have the next tick at a time, and the others a period apart from there."""
        if self.next is not None:
            self.next = time

    @property
    def _period(self) -> int:
        """Between ticks; without an interval there are none."""
        return max(self.interval or 0, self.min_pause)


# --- A checkpoint from its trigger to its end, and what of it is kept afterwards.


SUCCESS = "success"
DUPLICATE = "duplicate"
UNKNOWN = "unknown"
DISCARDED = "discarded"

IN_PROGRESS = "in_progress"
EXPIRED = "expired"
DECLINED = "declined"
ABORTED = "aborted"


@dataclass(eq=False)
class Checkpoint:
    """A checkpoint, pending or ended.

    - ``request``: what asked for it; its state follows the checkpoint's.
    - ``tasks``: all tasks that run, in the job's order: they must acknowledge, and are notified.
    """

    id: int
    request: CheckpointRequest
    triggered: int
    expires: int
    tasks: tuple[Hashable, ...]
    finished: int
    # By task what it reported, in the order of arrival, late ones included.
    acknowledgements: dict[Hashable, s.TaskStatistics] = field(default_factory=dict)
    # Tasks that had not acknowledged it when it ended, or have not yet.
    waiting: set[Hashable] = field(default_factory=set)
    status: str = IN_PROGRESS  # "in_progress", "completed", "expired", "declined" or "aborted"
    ended: int | None = None  # When it completed or failed

    @property
    def is_pending(self) -> bool:
        """Whether it has neither completed nor failed."""
        return self.ended is None

    @property
    def is_acknowledged(self) -> bool:
        """Whether no task is waited for."""
        return not self.waiting

    @property
    def acknowledged(self) -> int:
        """Tasks that acknowledged it while it was pending."""
        return len(self.tasks) - len(self.waiting)

    def acknowledge(self, task: Hashable, report: s.TaskStatistics) -> str:
        """Take an acknowledgement in.

        Returns "success"; "duplicate", the first one stands; "unknown", the task is not one that
        must acknowledge; "discarded", the checkpoint has ended: the task's state is of no use, its
        figures are recorded if it has not reported before, but it does not count as acknowledged
        (``CheckpointStatsTracker.reportIncompleteStats``).
        """
        expected = task in self.waiting and task not in self.acknowledgements
        if expected:
            self.acknowledgements[task] = report
        if not self.is_pending:
            return DISCARDED
        if expected:
            self.waiting.remove(task)
            return SUCCESS
        return DUPLICATE if task in self.acknowledgements else UNKNOWN

    def complete(self, now: int) -> None:
        """End it with success."""
        self.status, self.ended = COMPLETED, now
        self.request.state = COMPLETED

    def fail(self, now: int, status: str, reason: FailureReason) -> None:
        """End it without."""
        self.status, self.ended = status, now
        self.request.state, self.request.reason = FAILED, reason

    def statistics(self) -> s.CheckpointStatistics:
        """Return its figures over all tasks as they are now."""
        reports = self.acknowledgements.values()
        return s.CheckpointStatistics(
            id=self.id,
            kind=self.request.kind,
            status=self.status,
            reason=self.request.reason,
            triggered=self.triggered,
            ended=self.ended,
            subtasks=len(self.tasks) + self.finished,
            acknowledged=self.acknowledged + self.finished,
            end_to_end=self._end_to_end(),
            **s.combined(reports),
        )

    def _end_to_end(self) -> int:
        """Latest acknowledgement - trigger; of a failed one the failure's time, however late."""
        if self.ended is not None and self.status != COMPLETED:
            return self.ended - self.triggered
        latest = [report.acknowledged for report in self.acknowledgements.values()]
        if latest:
            return max(latest) - self.triggered
        # All tasks had finished: it completed as it was triggered.
        return s.NOT_YET if self.ended is None else self.ended - self.triggered


# --- The life of checkpoints at the coordinator: begun, completed or failed, and kept.
#
# Source: ``CheckpointCoordinator.startTriggeringCheckpoint``, ``completePendingCheckpoint`` and
# ``abortPendingCheckpoint`` (section 1 of the reference, "Trigger" to "Abort").


# --- What happens to checkpoints: triggered, completed, subsumed, aborted, notified.


Action = tuple[Any, ...]
"""("trigger", task, id), ("complete", task, id, subsumed), ("abort", task, id, latest_completed)
or ("fail_job",)."""

Plan = Callable[[Collection[Hashable]], Iterable[Hashable]]
"""Returns the tasks to trigger, given those that have finished."""


class Lifecycle(Kept):
    """The checkpoints of a job and the rules that move them.

    - ``tasks``: all tasks of the job, each once: they must acknowledge, and are notified in this
      order.
    - ``plan``: is given the finished tasks and returns the tasks to trigger, as
      :func:`~flowcontrol.protocol.checkpoints.requests.checkpoint_plan` works them out.
    - ``interval``: of periodic checkpoints; None: none.
    - ``unaligned``: unaligned checkpoints are on: savepoints are then not forced.
    - ``first_delay``: from the start to the first tick; needed if there is an interval.
    - ``checkpoints_after_tasks_finish``: False: once a task has finished, requests are refused.
    - ``checkpoints``: by id, pending and ended ones, in the order of their triggers.
    - ``counts``: checkpoints by what became of them.
    - ``finished``, ``failed``: tasks that do not run.
    - ``is_suspended``: ticks are stopped, and periodic requests refused.
    - ``last_id``: of the checkpoint triggered last, 0 before any.
    - ``pause_ends``: last completion + min pause.
    - ``actions``: what is to be done, in order.
    """

    _kept: ClassVar[tuple[str, ...]] = (
        *("ticks", "queue", "failures", "checkpoints", "_retained", "finished", "failed", "counts"),
        *("is_suspended", "requests", "last_id", "pause_ends", "actions"),
    )
    _values = (Checkpoint, CheckpointRequest, CheckpointCounts, TaskStatistics)

    def __init__(
        self,
        tasks: Iterable[Hashable],
        plan: Plan,
        interval: int | None = None,
        min_pause: int = 0,
        timeout: int = 600_000,
        max_concurrent: int = 1,
        tolerable_failures: int = 0,
        retained: int = 1,
        unaligned: bool = False,
        max_queued: int = 1000,
        first_delay: int | None = None,
        checkpoints_after_tasks_finish: bool = True,
    ) -> None:
        self.tasks, self._plan = tuple(tasks), plan
        self._timeout, self._min_pause, self._most_pending = timeout, min_pause, max_concurrent
        self._most_retained, self._unaligned = retained, unaligned
        self._after_finish = checkpoints_after_tasks_finish
        self.ticks = Ticks(interval, min_pause)
        self.queue = r.RequestQueue(max_queued)
        self.failures = FailureCounter(tolerable_failures)
        self.checkpoints: dict[int, Checkpoint] = {}
        self._pending: dict[int, Checkpoint] = {}
        self._retained: list[int] = []
        self.finished: set[Hashable] = set()
        self.failed: set[Hashable] = set()
        self.is_suspended = False
        self.requests = self.last_id = 0
        self.pause_ends: int | None = None
        self.actions: list[Action] = []
        self.counts = CheckpointCounts()
        self.ticks.start(0, first_delay)

    @property
    def latest_completed(self) -> int:
        """Id of the newest checkpoint in the store, -1 if there is none."""
        return self._retained[-1] if self._retained else NO_ID

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on from what :meth:`state` returned."""
        super().restore(state)
        self._pending = {id: one for id, one in self.checkpoints.items() if one.is_pending}

    def start_queued(self, now: int) -> None:
        """Start requests that wait, until none may."""
        while True:
            is_at_limit = len(self._pending) >= self._most_pending
            request = self.queue.poll(now, is_at_limit, self.pause_ends)
            if request is None:
                return
            if request.state == r.REFUSED:  # too early, so the next tick is when the pause ends
                if self.pause_ends is not None:
                    self.ticks.move_to(self.pause_ends)
                return
            if (reason := self._obstacle(request)) is not None:
                request.refuse(reason)
            else:
                self._start(now, request)

    def _obstacle(self, request: CheckpointRequest) -> FailureReason | None:
        """Return why a checkpoint cannot be triggered, None if it can."""
        if self.failed or (self.finished and not self._after_finish):
            return FailureReason.NOT_ALL_REQUIRED_TASKS_RUNNING
        if self.is_suspended and request.periodic:
            return FailureReason.PERIODIC_SCHEDULER_SHUTDOWN
        return None

    def _start(self, now: int, request: CheckpointRequest) -> None:
        """Trigger a checkpoint."""
        self.last_id += 1
        running = tuple(task for task in self.tasks if task not in self.finished)
        ends = now + self._timeout
        finished = len(self.finished)
        request.state, request.id = r.STARTED, self.last_id
        checkpoint = Checkpoint(
            self.last_id, request, now, ends, running, finished, waiting=set(running)
        )
        self.checkpoints[checkpoint.id] = self._pending[checkpoint.id] = checkpoint
        self.counts.start()
        triggered = self._plan(frozenset(self.finished))
        self.actions += [("trigger", task, checkpoint.id) for task in triggered]
        if checkpoint.is_acknowledged:
            self.complete(now, checkpoint)

    def complete(self, now: int, checkpoint: Checkpoint) -> None:
        """Complete a checkpoint: store, subsume, drop what is older and pending, notify.

        A plain savepoint does none of these; one with stop drops and notifies.
        """
        checkpoint.complete(now)
        subsumed = NO_ID
        if not checkpoint.request.is_savepoint:
            self._retained.append(checkpoint.id)
            if len(self._retained) > self._most_retained:
                subsumed = self._retained.pop(0)
        self.counts.complete()
        self.failures.succeed(checkpoint.id)
        del self._pending[checkpoint.id]
        self.pause_ends = now + self._min_pause
        if checkpoint.request.kind == r.SAVEPOINT:
            return
        for older in list(self._pending.values()):
            if older.id < checkpoint.id and not older.request.is_savepoint:
                self.fail(now, older, ABORTED, FailureReason.CHECKPOINT_SUBSUMED)
        self._notify("complete", checkpoint, subsumed)

    def fail(self, now: int, checkpoint: Checkpoint, status: str, reason: FailureReason) -> None:
        """Abort a pending checkpoint, notify, and fail the job if it endures no more."""
        checkpoint.fail(now, status, reason)
        del self._pending[checkpoint.id]
        self.counts.fail()
        self._notify("abort", checkpoint, self.latest_completed)
        if self._fails_job(checkpoint, status, reason):
            self.actions.append(("fail_job",))

    def _fails_job(self, checkpoint: Checkpoint, status: str, reason: FailureReason) -> bool:
        """Count a failure, and tell whether the job fails for it.

        A stop with savepoint fails it whatever the reason, unless the job left RUNNING by itself.
        Expiry of a savepoint is its user's concern, so it does not count
        (``handleJobLevelCheckpointException``); a task's decline of one does.
        """
        if checkpoint.request.kind == r.STOP_SAVEPOINT:
            return status != ABORTED
        if checkpoint.request.is_savepoint and status == EXPIRED:
            return False
        return self.failures.fail(checkpoint.id, reason)

    def stop(self, now: int, reason: FailureReason) -> None:
        """Stop the ticks, refuse what is queued, abort what is pending."""
        self.ticks.stop()
        self.queue.refuse_all(reason)
        for checkpoint in list(self._pending.values()):
            self.fail(now, checkpoint, ABORTED, reason)

    def _notify(self, what: str, checkpoint: Checkpoint, other_id: int) -> None:
        """Tell the tasks of a checkpoint that still run."""
        gone = self.finished | self.failed
        id = checkpoint.id
        self.actions += [
            (what, task, id, other_id) for task in checkpoint.tasks if task not in gone
        ]
