"""Named points between the steps of a commit protocol, at which tests stop the process.

A crash at each point leaves a different state. Nothing happens there unless :data:`hook` is set,
which the package itself never does.
"""

from collections.abc import Callable
from enum import StrEnum


class CrashPoint(StrEnum):
    """What is done, and what is not, when the point is reached."""

    BEFORE_EXCHANGE = "before-exchange"
    """The round's files are written, nothing is committed."""

    BEFORE_STATE = "before-state"
    """The exchange log is committed, what subtasks held at a checkpoint is not."""

    BEFORE_LEDGER = "before-ledger"
    """The exchange log (a sink: its table) is committed, the ledger is not."""

    BETWEEN_LEDGERS = "between-ledgers"
    """The ledger of a stage's first link is committed, those of its other links are not."""

    AFTER_LEDGER = "after-ledger"
    """The ledger is committed, Spark has not noted the end of the batch."""

    BEFORE_PRE_COMMIT = "before-pre-commit"
    """A sink's files of a round in which it took a checkpoint are written, the ledger is not."""

    AFTER_PRE_COMMIT = "after-pre-commit"
    """The ledger names the files that belong to the checkpoint."""

    BEFORE_COMMIT = "before-commit"
    """A sink has heard that a checkpoint is complete, and nothing of it is visible."""

    AFTER_COMMIT = "after-commit"
    """The checkpoint's files are in the sink's table, the ledger holds them as staged."""

    AFTER_COMMIT_NOTED = "after-commit-noted"
    """The ledger holds them as committed."""

    BEFORE_RESTORE = "before-restore"
    """A sink restores a checkpoint, and has not committed what that had pre-committed."""

    AFTER_RESTORE = "after-restore"
    """It has, or that was committed already; the ledger holds the state of before."""

    BEFORE_ABORT = "before-abort"
    """Of what belongs to no restored transaction nothing is deleted."""

    AMID_ABORT = "amid-abort"
    """The first of its files is deleted, others are not."""

    AFTER_ABORT = "after-abort"
    """All of it is deleted, the ledger holds it as staged."""

    AFTER_RESTORE_NOTED = "after-restore-noted"
    """The ledger holds what was restored, and nothing of what was aborted."""

    AFTER_CLAIM = "after-claim"
    """A side of a link has taken its place over, and nothing else; numbered by epoch."""

    BEFORE_RELEASE = "before-release"
    """A sender has room for more messages; numbered, as the next, by its commits to the ledger."""

    AFTER_RELEASE = "after-release"
    """The ledger lists more messages as released."""

    BEFORE_RETURN = "before-return"
    """All of a sender's batch is released, its function has not returned."""

    STEP = "step"
    """A step of moving or deleting a link is done; numbered by step."""

    PLANNED = "planned"
    """Spark has noted what a receiver's batch reads, nothing is read."""


hook: Callable[[str, int, str], None] | None = None
"""Called at each point with the stage's name, the number of its round or batch, and the point."""


def crash_point(stage: str, number: int, point: str) -> None:
    """Mark a point of the protocol."""
    if hook is not None:
        hook(stage, number, point)
