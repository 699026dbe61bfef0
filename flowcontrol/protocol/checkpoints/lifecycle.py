"""The life of checkpoints at the coordinator: begun, completed or failed, kept, and looked at.

Source: ``CheckpointCoordinator.startTriggeringCheckpoint``, ``completePendingCheckpoint`` and
``abortPendingCheckpoint`` (section 1 of the reference, "Trigger" to "Abort").
"""

from collections.abc import Callable, Collection, Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from flowcontrol.protocol.checkpoints import requests as r
from flowcontrol.protocol.checkpoints import requests as s
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


@dataclass
class Lifecycle(Kept):
    """The checkpoints of a job and the rules that move them.

    Parameters are those of
    :class:`~flowcontrol.protocol.checkpoints.coordinator.CheckpointCoordinator`, which checks them.

    Attributes
    ----------
    checkpoints : dict
        By id, pending and ended ones, in the order of their triggers.
    pending : dict
        Those of them that have not ended.
    retained : list of int
        Ids in the store, oldest first.
    finished, failed : set
        Tasks that do not run.
    is_suspended : bool
        Ticks are stopped, and periodic requests refused.
    last_id : int
        Of the checkpoint triggered last, 0 before any.
    pause_ends : int or None
        Last completion + min pause.
    actions : list of tuple
        What is to be done, in order.
    """

    _kept = (
        *("ticks", "queue", "failures", "checkpoints", "retained", "finished", "failed", "counts"),
        *("is_suspended", "requests", "last_id", "pause_ends", "actions"),
    )
    _values = (Checkpoint, r.CheckpointRequest, CheckpointCounts, TaskStatistics)

    tasks: tuple[Hashable, ...]
    plan: Plan
    timeout: int
    min_pause: int
    max_concurrent: int
    most_retained: int
    after_finish: bool
    ticks: Ticks
    queue: r.RequestQueue
    failures: FailureCounter
    checkpoints: dict[int, Checkpoint] = field(default_factory=dict)
    pending: dict[int, Checkpoint] = field(default_factory=dict)
    retained: list[int] = field(default_factory=list)
    finished: set[Hashable] = field(default_factory=set)
    failed: set[Hashable] = field(default_factory=set)
    is_suspended: bool = False
    requests: int = 0
    last_id: int = 0
    pause_ends: int | None = None
    actions: list[Action] = field(default_factory=list)
    counts: CheckpointCounts = field(default_factory=CheckpointCounts)

    @property
    def latest_completed(self) -> int:
        """Newest id in the store, -1 if there is none."""
        return self.retained[-1] if self.retained else NO_ID

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on from what :meth:`state` returned."""
        super().restore(state)
        self.pending = {id: one for id, one in self.checkpoints.items() if one.is_pending}

    def start_queued(self, now: int) -> None:
        """Start requests that wait, until none may."""
        while True:
            is_at_limit = len(self.pending) >= self.max_concurrent
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

    def _obstacle(self, request: r.CheckpointRequest) -> FailureReason | None:
        """Return why a checkpoint cannot be triggered, None if it can."""
        if self.failed or (self.finished and not self.after_finish):
            return FailureReason.NOT_ALL_REQUIRED_TASKS_RUNNING
        if self.is_suspended and request.periodic:
            return FailureReason.PERIODIC_SCHEDULER_SHUTDOWN
        return None

    def _start(self, now: int, request: r.CheckpointRequest) -> None:
        """Trigger a checkpoint."""
        self.last_id += 1
        running = tuple(task for task in self.tasks if task not in self.finished)
        ends = now + self.timeout
        finished = len(self.finished)
        request.state, request.id = r.STARTED, self.last_id
        checkpoint = Checkpoint(
            self.last_id, request, now, ends, running, finished, waiting=set(running)
        )
        self.checkpoints[checkpoint.id] = self.pending[checkpoint.id] = checkpoint
        self.counts.start()
        triggered = self.plan(frozenset(self.finished))
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
            self.retained.append(checkpoint.id)
            if len(self.retained) > self.most_retained:
                subsumed = self.retained.pop(0)
        self.counts.complete()
        self.failures.succeed(checkpoint.id)
        del self.pending[checkpoint.id]
        self.pause_ends = now + self.min_pause
        if checkpoint.request.kind == r.SAVEPOINT:
            return
        for older in list(self.pending.values()):
            if older.id < checkpoint.id and not older.request.is_savepoint:
                self.fail(now, older, ABORTED, FailureReason.CHECKPOINT_SUBSUMED)
        self._notify("complete", checkpoint, subsumed)

    def fail(self, now: int, checkpoint: Checkpoint, status: str, reason: FailureReason) -> None:
        """Abort a pending checkpoint, notify, and fail the job if it endures no more."""
        checkpoint.fail(now, status, reason)
        del self.pending[checkpoint.id]
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
        for checkpoint in list(self.pending.values()):
            self.fail(now, checkpoint, ABORTED, reason)

    def _notify(self, what: str, checkpoint: Checkpoint, other_id: int) -> None:
        """Tell the tasks of a checkpoint that still run."""
        gone = self.finished | self.failed
        id = checkpoint.id
        self.actions += [
            (what, task, id, other_id) for task in checkpoint.tasks if task not in gone
        ]


# --- What a coordinator of checkpoints lets be seen; nothing here changes it


class CheckpointView(Kept):
    """The readable side of a coordinator of checkpoints."""

    _life: Lifecycle

    @property
    def pending(self) -> tuple[int, ...]:
        """Ids of the pending checkpoints, ascending."""
        return tuple(self._life.pending)

    @property
    def retained(self) -> tuple[int, ...]:
        """Ids in the store, oldest first."""
        return tuple(self._life.retained)

    @property
    def queued(self) -> tuple[CheckpointRequest, ...]:
        """Requests that wait, in the order in which they will run."""
        return tuple(self._life.queue)

    @property
    def is_waiting(self) -> bool:
        """Whether an acknowledgement, decline or expiry may start a request that is queued.

        While it is False a clock may hold acknowledgements back and hand them in later, in the
        order of their times and before whatever is due later, with the same result.
        """
        return len(self._life.queue) > 0

    @property
    def has_actions(self) -> bool:
        """Whether there is anything to fetch by ``take_actions``."""
        return len(self._life.actions) > 0

    @property
    def next_time(self) -> int | None:
        """When the coordinator must tick at the latest: the next trigger or expiry, or None."""
        due = self._life.ticks.next
        for checkpoint in self._life.pending.values():
            if due is None or checkpoint.expires < due:
                due = checkpoint.expires
        return due

    @property
    def next_id(self) -> int:
        """Id of the checkpoint that is triggered next.

        A task that has processed its last record waits for a completed checkpoint whose id is at
        least the one that this was then (FLIP-147), and calls for
        :meth:`~flowcontrol.protocol.checkpoints.coordinator.CheckpointCoordinator.finish_task`
        after it.
        """
        return self._life.last_id + 1

    @property
    def latest_completed(self) -> int:
        """Id of the newest checkpoint in the store, -1 if there is none."""
        return self._life.latest_completed

    @property
    def counts(self) -> s.CheckpointCounts:
        """Checkpoints by what became of them."""
        return self._life.counts

    @property
    def ids(self) -> tuple[int, ...]:
        """Ids of the checkpoints that are remembered, in the order of their triggers."""
        return tuple(self._life.checkpoints)

    def trigger_of(self, id: int) -> tuple[int, str]:
        """Return when a checkpoint was triggered, and its kind; a clock asks for each message.

        Raises
        ------
        ValueError
            If there was none of this id, or it was forgotten.
        """
        found = self._remembered(id)
        return found.triggered, found.request.kind

    def statistics(self, id: int) -> s.CheckpointStatistics:
        """Return the figures of a checkpoint, pending or ended, over all its tasks.

        Raises
        ------
        ValueError
            If there was none of this id, or it was forgotten.
        """
        return self._remembered(id).statistics()

    def task_statistics(self, id: int) -> dict[Hashable, s.TaskStatistics]:
        """Return what each task reported of a checkpoint, in the order of arrival.

        Raises
        ------
        ValueError
            If there was none of this id, or it was forgotten.
        """
        return dict(self._remembered(id).acknowledgements)

    def _remembered(self, id: int) -> Checkpoint:
        if id not in self._life.checkpoints:
            raise ValueError(
                f"no checkpoint {id} is remembered: needs one of {list(self._life.checkpoints)}"
            )
        return self._life.checkpoints[id]
