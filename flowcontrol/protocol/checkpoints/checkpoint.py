"""A checkpoint under way, when the next one is due, and how many may fail.

Source: ``PendingCheckpoint`` (section 1 of the reference, "Acknowledgement").
"""

from collections.abc import Hashable
from dataclasses import dataclass, field

from flowcontrol.protocol.checkpoints import requests as s
from flowcontrol.protocol.checkpoints.requests import (
    COMPLETED,
    COUNTED,
    FAILED,
    CheckpointRequest,
    FailureReason,
)
from flowcontrol.state.kept import Kept

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
