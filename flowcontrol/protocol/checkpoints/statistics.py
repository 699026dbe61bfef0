"""What is known of a checkpoint: of each task, and of all of them together.

Source: section 1 of the reference, "Statistics"; Flink's ``SubtaskStateStats`` and
``PendingCheckpointStats``.
"""

from collections.abc import Collection
from dataclasses import dataclass
from typing import NamedTuple

NOT_YET = -1
"""End-to-end duration before any acknowledgement."""


class TaskStatistics(NamedTuple):
    """What a task reported with its acknowledgement; -1 in place of what it does not know.

    Attributes
    ----------
    acknowledged : int
        When the coordinator received it.
    start_delay, alignment, sync, async_ : int
        Durations, in the coordinator's unit.
    checkpointed_size, full_size : int
        Bytes written for this checkpoint, bytes that it refers to.
    processed, persisted : int
        In-flight bytes read during the alignment, and written with the checkpoint.
    """

    acknowledged: int
    start_delay: int = 0
    alignment: int = 0
    sync: int = 0
    async_: int = 0
    checkpointed_size: int = 0
    full_size: int = 0
    processed: int = 0
    persisted: int = 0


class CheckpointStatistics(NamedTuple):
    """A checkpoint, over all its tasks.

    Attributes
    ----------
    id, kind : int, str
        Kind is "checkpoint", "savepoint" or "stop_savepoint".
    status : str
        "in_progress", "completed", "expired", "declined" or "aborted" (subsumed, or the job did
        not run any more).
    reason : FailureReason or None
        Why it failed.
    triggered, ended : int, int or None
        Times; ended is None while it is pending.
    subtasks : int
        Tasks of the job, those that had finished included.
    acknowledged : int
        Tasks that acknowledged before it ended; those that had finished count.
    end_to_end : int
        Latest acknowledgement - trigger, of a failed one failure - trigger; -1 before any.
    start_delay, alignment, sync, async_ : int
        The longest of a task, late reports included, as in the sizes.
    checkpointed_size, full_size, processed, persisted : int
        Bytes of all tasks.
    unaligned : bool
        Whether in-flight data was persisted, whatever kind the barriers were.

    Notes
    -----
    A negative figure of a task is unknown, and left out.
    """

    id: int
    kind: str
    status: str
    reason: str | None
    triggered: int
    ended: int | None
    subtasks: int
    acknowledged: int
    end_to_end: int
    start_delay: int
    alignment: int
    sync: int
    async_: int
    checkpointed_size: int
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

    Notes
    -----
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
