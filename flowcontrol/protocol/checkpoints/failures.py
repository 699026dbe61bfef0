"""How many failed checkpoints in a row a job endures.

Source: ``CheckpointFailureManager`` (section 1 of the reference, "Failure count").
"""

from dataclasses import dataclass, field

from flowcontrol.protocol.checkpoints.reasons import COUNTED, FailureReason
from flowcontrol.protocol.kept import Kept

NO_ID = -1
"""In place of the id of a checkpoint where there is none."""


@dataclass
class FailureCounter(Kept):
    """Counts failures since the last success.

    Parameters
    ----------
    tolerable : int
        Failures that the job endures, at least 0.

    Attributes
    ----------
    count : int
        Failures that counted since the last success, or since the job failed for them.
    last_success : int
        Highest id that completed, -1 before any.
    counted : set of int
        Ids behind ``count``: each counts once.
    """

    _kept = ("count", "last_success", "counted")

    tolerable: int
    count: int = 0
    last_success: int = NO_ID
    counted: set[int] = field(default_factory=set)

    def fail(self, id: int, reason: FailureReason) -> bool:
        """Count a failed checkpoint, and tell whether the job fails for it.

        Parameters
        ----------
        id : int
            Of the checkpoint; one that is not above the last success does not count.
        reason : FailureReason
            Those in :data:`~flowcontrol.protocol.checkpoints.reasons.COUNTED` count.

        Returns
        -------
        bool
            True if more than the tolerable ones have failed; the count then starts again.
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
