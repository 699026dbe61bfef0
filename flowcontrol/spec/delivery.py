"""What the readers of a sink get, as an object that checks its arguments."""

from flowcontrol.protocol.commits import delivery
from flowcontrol.protocol.commits.restored import Returning
from flowcontrol.protocol.commits.together import restore_together
from flowcontrol.protocol.commits.transactions import Guarantee, SettledRows


class Delivery(delivery.Delivery):
    """The account of one sink subtask, which refuses what cannot be.

    Parameters are those of :class:`flowcontrol.protocol.commits.delivery.Delivery`.

    Raises ValueError if the guarantee is unknown, or a number is out of range.
    """

    def __init__(
        self,
        guarantee: str,
        transaction_timeout: int | None = None,
        now: int = 0,
        resolution: int = 1,
        settled: SettledRows | None = None,
    ) -> None:
        if guarantee not in list(Guarantee):
            raise ValueError(f"guarantee is {guarantee!r}: needs one of {', '.join(Guarantee)}")
        if transaction_timeout is not None and transaction_timeout < 0:
            raise ValueError(
                f"transaction_timeout is {transaction_timeout}: needs at least 0, or None for never"
            )
        if resolution < 1:
            raise ValueError(f"resolution is {resolution}: needs at least 1")
        super().__init__(guarantee, transaction_timeout, now, resolution, settled)

    def write(self, now: int, records: int, since: int | None = None) -> None:
        """Take rows, as the rules do.

        Raises ValueError if there are less than none, or time runs back.
        """
        if records < 0:
            raise ValueError(f"{records} records written at {now}: needs at least 0")
        super().write(now, records, since)

    def barrier(self, now: int, checkpoint: int, early: int = 0) -> None:
        """Take the barrier of a checkpoint, as the rules do.

        Raises ValueError if a later one has come, more rows are early than have come, or time runs
        back.
        """
        newest = max(self._barriers, default=None)
        if newest is not None and checkpoint <= newest:
            raise ValueError(
                f"the barrier of checkpoint {checkpoint} comes after that of {newest}: numbers of "
                "checkpoints ascend, so feed barriers in their order"
            )
        if not 0 <= early <= self._position:
            raise ValueError(f"early is {early}: needs 0 to {self._position}, what has come so far")
        super().barrier(now, checkpoint, early)

    def restore(
        self,
        now: int,
        checkpoint: int | None = None,
        in_flight: int = 0,
        rewinds: bool = True,
        *,
        early: int = 0,
        stored: int = 0,
        again: int | None = None,
    ) -> None:
        """Note that the job goes on from a checkpoint.

        A subtask that had finished before is not restored: feed nothing.

        - ``checkpoint``: the one that is restored; None: from the start, without a checkpoint.
        - ``in_flight``: records that were on the way to this subtask when the job failed: behind
          all that it has written or dropped, out of sources that had read them.
        - ``rewinds``: whether what came after the checkpoint comes again; False: the source goes on
          where it was (``replayable: false``), and what was on its way or staged since the
          checkpoint is lost, whatever the guarantee.
        - ``stored``: records in flight that an unaligned checkpoint holds, the first ones since it:
          they come again whether or not a source rewinds.
        - ``again``: how many of the other records since the checkpoint come again, of a sink behind
          sources of which some rewind; by default all, or none if ``rewinds`` is False. What comes
          again was visible in the same share as what does not.

        Raises ValueError if time runs back, a number of records is negative, or the checkpoint had
        no barrier here or is older than one that completed.
        """
        returning = Returning(
            in_flight, early, stored, 0 if again is None and not rewinds else again
        )
        self._check_restore(now, checkpoint, returning)
        restore_together(now, checkpoint, [(self, returning)])

    def _check_restore(self, now: int, checkpoint: int | None, returning: Returning) -> None:
        """Refuse a restore that cannot be, before anything changes."""
        for name, number in returning._asdict().items():
            if number is not None and number < 0:
                raise ValueError(f"{name} is {number}: needs at least 0")
        if checkpoint is not None and checkpoint not in self._barriers:
            known = ", ".join(map(str, self._barriers)) or "none"
            raise ValueError(
                f"checkpoint {checkpoint} cannot be restored: barriers are known of {known}; feed "
                "each barrier, and restore none older than one that completed"
            )
        self._check_time(now)

    def _check_time(self, now: int) -> None:
        if now < self._now:
            raise ValueError(f"time runs back from {self._now} to {now}: feed in order of time")

    def _move_to(self, now: int) -> None:
        self._check_time(now)
        super()._move_to(now)
