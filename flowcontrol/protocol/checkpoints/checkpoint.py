"""A checkpoint from its trigger to its end, and what of it is kept afterwards.

Source: ``PendingCheckpoint`` (section 1 of the reference, "Acknowledgement").
"""

from collections.abc import Hashable
from dataclasses import dataclass, field

from flowcontrol.protocol.checkpoints import statistics as s
from flowcontrol.protocol.checkpoints.reasons import FailureReason
from flowcontrol.protocol.checkpoints.requests import COMPLETED, FAILED, CheckpointRequest

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

    Parameters
    ----------
    id : int
        From 1.
    request : CheckpointRequest
        What asked for it; its state follows the checkpoint's.
    triggered, expires : int
        Times of the trigger and the timeout.
    tasks : sequence
        All tasks that run, in the job's order: they must acknowledge, and are notified.
    finished : int
        Tasks that had finished at the trigger: they count as acknowledged.

    Attributes
    ----------
    acknowledgements : dict
        By task what it reported, in the order of arrival, late ones included.
    waiting : set
        Tasks that had not acknowledged it when it ended, or have not yet.
    status : str
        "in_progress", "completed", "expired", "declined" or "aborted".
    ended : int or None
        When it completed or failed.
    """

    id: int
    request: CheckpointRequest
    triggered: int
    expires: int
    tasks: tuple[Hashable, ...]
    finished: int
    acknowledgements: dict[Hashable, s.TaskStatistics] = field(default_factory=dict)
    waiting: set[Hashable] = field(default_factory=set)
    status: str = IN_PROGRESS
    ended: int | None = None

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

        Returns
        -------
        str
            "success"; "duplicate", the first one stands; "unknown", the task is not one that
            must acknowledge; "discarded", the checkpoint has ended: the task's state is of no
            use, its figures are recorded if it has not reported before, but it does not count
            as acknowledged (``CheckpointStatsTracker.reportIncompleteStats``).
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
