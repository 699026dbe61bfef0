"""Requests for checkpoints, and the queue in which they wait.

Source: ``CheckpointRequestDecider`` (section 1 of the reference, "Queue").
"""

from bisect import insort
from collections.abc import Iterator
from dataclasses import dataclass

from flowcontrol.protocol.checkpoints.reasons import FailureReason
from flowcontrol.protocol.kept import Kept

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
    """A request for a checkpoint and what has become of it.

    Attributes
    ----------
    number : int
        Requests are numbered in the order in which they were made.
    time : int
        When it was made.
    kind : str
        "checkpoint", "savepoint" or "stop_savepoint".
    periodic : bool
        Made by a tick, or as one; False for whatever a user asks for.
    forced : bool
        Starts at the limit of concurrent checkpoints: a savepoint while unaligned checkpoints
        are off.
    state : str
        "queued", "refused" (no checkpoint came of it), "started", "completed" or "failed".
    reason : FailureReason or None
        Why it was refused or failed.
    id : int or None
        Of the checkpoint, once one was started.
    """

    number: int
    time: int
    kind: str
    periodic: bool
    forced: bool
    state: str = QUEUED
    reason: FailureReason | None = None
    id: int | None = None

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

    Parameters
    ----------
    most : int
        Requests that may wait, at least 1.
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

        Notes
        -----
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

        Parameters
        ----------
        now : int
            The time.
        is_at_limit : bool
            Whether as many checkpoints are pending as may be: only a forced request starts.
        pause_ends : int or None
            Last completion + min pause; None before any completion.

        Returns
        -------
        CheckpointRequest or None
            To be started; or refused for MINIMUM_TIME_BETWEEN_CHECKPOINTS, a periodic one that
            came before the end of the pause, which ends the choice. None: nothing may start.
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
