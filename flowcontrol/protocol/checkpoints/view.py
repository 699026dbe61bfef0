"""What a coordinator of checkpoints lets be seen; nothing here changes it."""

from collections.abc import Hashable

from flowcontrol.protocol.checkpoints import statistics as s
from flowcontrol.protocol.checkpoints.checkpoint import Checkpoint
from flowcontrol.protocol.checkpoints.lifecycle import Lifecycle
from flowcontrol.protocol.checkpoints.requests import CheckpointRequest
from flowcontrol.protocol.kept import Kept


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
        """When :meth:`tick` must be called at the latest: the next trigger or expiry, or None."""
        due = self._life.ticks.next
        for checkpoint in self._life.pending.values():
            if due is None or checkpoint.expires < due:
                due = checkpoint.expires
        return due

    @property
    def next_id(self) -> int:
        """Id of the checkpoint that is triggered next.

        A task that has processed its last record waits for a completed checkpoint whose id is at
        least the one that this was then (FLIP-147), and calls for :meth:`finish_task` after it.
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
