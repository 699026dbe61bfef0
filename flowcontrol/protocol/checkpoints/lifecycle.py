"""The life of checkpoints at the coordinator: begun, completed or failed, and kept.

Source: ``CheckpointCoordinator.startTriggeringCheckpoint``, ``completePendingCheckpoint`` and
``abortPendingCheckpoint`` (section 1 of the reference, "Trigger" to "Abort").
"""

from collections.abc import Callable, Collection, Hashable, Iterable, Mapping
from typing import Any, ClassVar

from flowcontrol.protocol.checkpoints import requests as r
from flowcontrol.protocol.checkpoints.checkpoint import (
    ABORTED,
    EXPIRED,
    NO_ID,
    Checkpoint,
    FailureCounter,
    Ticks,
)
from flowcontrol.protocol.checkpoints.requests import (
    CheckpointCounts,
    CheckpointRequest,
    FailureReason,
    TaskStatistics,
)
from flowcontrol.state.kept import Kept

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
