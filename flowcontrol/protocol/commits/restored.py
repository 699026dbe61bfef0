"""Rows of sinks at a restore: those that were staged, and those that come again.

What is counted of a channel is exact, and so is the sum over the subtasks; which subtask gets a row
when it comes again is not known before. So every rule here is one of sums, and what falls to a
subtask is shared out.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from flowcontrol.protocol.commits.transactions import Guarantee, SettledRows
from flowcontrol.protocol.commits.two_phase import is_expired
from flowcontrol.state.kept import Kept

# --- Runs of records that a transactional sink has staged.
#
# A run is records that were written at one time, counted: what it costs depends on the number
# of times, not of records.


@dataclass
class StagedRuns:
    """The records of one transaction.

    Attributes
    ----------
    began : int
        When it began.
    start : int
        Position of its first record in the input of the subtask.
    times, counts : list of int
        When the first record of each run was written, ascending, and how many there are.
    records : int
        All of them; they have consecutive positions.
    """

    began: int
    start: int = 0
    times: list[int] = field(default_factory=list)
    counts: list[int] = field(default_factory=list)
    records: int = 0

    def add(self, now: int, start: int, records: int, resolution: int) -> None:
        """Add records that are written now, to the last run if that is less than this long ago."""
        if not self.records:
            self.start = start
        if self.times and now - self.times[-1] < resolution:
            self.counts[-1] += records
        else:
            self.times.append(now)
            self.counts.append(records)
        self.records += records


class RunStore(Kept):
    """A :class:`~flowcontrol.protocol.TransactionStore` of counts instead of rows.

    Parameters
    ----------
    timeout : int or None
        A transaction that is strictly older when it is committed is lost; None: never.
    resolution : int
        Records that are written less than this after the first of a run belong to it; 1: runs of
        one time.
    show, lose : callable
        Called with the runs of a transaction that becomes visible, or is lost.

    Attributes
    ----------
    now : int
        The time; whoever calls the sink sets it before.
    """

    _kept = ("now", "_begun", "_staged")
    _values = (StagedRuns,)

    def __init__(
        self,
        timeout: int | None,
        resolution: int,
        show: Callable[[StagedRuns], None],
        lose: Callable[[StagedRuns], None],
    ) -> None:
        self.now = 0
        self._timeout, self._resolution = timeout, resolution
        self._show, self._lose = show, lose
        self._staged: dict[str, StagedRuns] = {}
        self._begun = 0

    @property
    def records(self) -> int:
        """Records that are staged."""
        return sum(runs.records for runs in self._staged.values())

    def begin(self) -> str:
        """Begin a transaction."""
        self._begun += 1
        name = str(self._begun)
        self._staged[name] = StagedRuns(self.now)
        return name

    def write(self, name: str, row: tuple[int, int], /) -> None:
        """Stage records: ``row`` is the position of the first, and how many there are."""
        self._staged[name].add(self.now, *row, self._resolution)

    def flush(self, name: str, /) -> None:
        """Do nothing: counts are safe."""

    def commit(self, name: str, /) -> None:
        """Show or lose what is staged; nothing for a transaction that is committed."""
        runs = self._staged.pop(name, None)
        if runs is not None:
            is_lost = is_expired(self.now, runs.began, self._timeout)
            (self._lose if is_lost else self._show)(runs)

    def abort(self, name: str, /) -> None:
        """Remove what is staged."""
        self._staged.pop(name, None)

    def keep(self, names: Collection[str]) -> None:
        """Remove all transactions but these, as the timeout of a real store does in the end."""
        self._staged = {name: runs for name, runs in self._staged.items() if name in names}


# --- A restore of all subtasks of a sink that restart together: what comes again, and what is
# lost.


class Returning(NamedTuple):
    """Rows of one subtask at a restore, as ``Delivery.restore`` names them.

    Attributes
    ----------
    in_flight, early, stored : int
        Those on their way; before the barrier that come again; that the checkpoint holds in flight.
    again : int or None
        The others since the checkpoint that come again; None: all of them.
    """

    in_flight: int = 0
    early: int = 0
    stored: int = 0
    again: int | None = None


class Undone(NamedTuple):
    """Positions of one subtask when it is restored.

    Attributes
    ----------
    resumes_at : int
        Where the checkpoint's barrier was.
    shown_to : int
        Up to where its rows are visible, dropped or expired.
    position : int
        Up to where it had written.
    expired : (int, int)
        Rows last lost with a transaction: the first, and the one behind the last.
    """

    resumes_at: int
    shown_to: int
    position: int
    expired: tuple[int, int]


class Account(Protocol):
    """What a restore asks of an account (:class:`.delivery.Delivery`)."""

    @property
    def settled(self) -> SettledRows:
        """What is settled, of all that share it."""

    @property
    def guarantee(self) -> Guarantee:
        """What its sink promises."""

    def check_restore(self, now: int, checkpoint: int | None, returning: Returning) -> None:
        """Refuse what is no restore."""

    def abort(self, now: int, checkpoint: int | None) -> Undone:
        """Undo what was not committed; return where it stands."""

    def go_on(self, checkpoint: int | None, position: int, early: int, lost: int) -> None:
        """End a restore."""


def restore_together(
    now: int, checkpoint: int | None, restored: Sequence[tuple[Account, Returning]]
) -> None:
    """Have accounts that share what is settled go on from a checkpoint.

    Parameters
    ----------
    now : int
        Time at which the sink runs again.
    checkpoint : int or None
        The one that is restored; None: from the start, without a checkpoint.
    restored : sequence of (Account, Returning)
        The accounts, of one guarantee, and what was and is on the way to each. Subtasks that had
        finished before are not restored: they are not among them.

    Raises
    ------
    ValueError
        As ``Delivery.restore`` does; nothing is changed then.
    """
    for account, one in restored:
        account.check_restore(now, checkpoint, one)
    undone = [account.abort(now, checkpoint) for account, _ in restored]
    flights = [one.in_flight for _, one in restored]
    early = share_out(
        sum(one.early for _, one in restored),
        [one.early for _, one in restored],
        [one.resumes_at for one in undone],
    )
    starts = [one.resumes_at - count for one, count in zip(undone, early, strict=True)]
    ways = [
        one.position + flight - start
        for one, flight, start in zip(undone, flights, starts, strict=True)
    ]
    since = sum(ways)
    stored = min(since, sum(one.stored for _, one in restored))
    again = since - stored
    if all(one.again is not None for _, one in restored):
        again = min(again, sum(one.again or 0 for _, one in restored))
    # What does not come again counts as the first since the checkpoint.
    skipped = share_out(since - stored - again, ways, ways)
    positions = [start + count for start, count in zip(starts, skipped, strict=True)]
    found = sum(
        max(0, one.expired[1] - max(one.expired[0], position))
        for one, position in zip(undone, positions, strict=True)
    )
    open_rows = [
        one.position - one.shown_to + flight for one, flight in zip(undone, flights, strict=True)
    ]
    settled = restored[0][0].settled
    unseen = lost = settled.unseen(sum(open_rows))
    if restored[0][0].guarantee is not Guarantee.AT_MOST_ONCE:
        rest = since - stored
        # A subtask takes up what a checkpoint holds for it before anything else since then; and
        # what is settled and has not come again yet is of that.
        held = sum(
            max(0, one.stored - (own.shown_to - start))
            for (_, one), own, start in zip(restored, undone, starts, strict=True)
        )
        unseen -= min(unseen, max(0, held - settled.coming, unseen - rest))
        lost = unseen * (rest - again) // max(1, rest)
    settled.go_back(stored + again - found - sum(open_rows), lost)
    losses = share_out(lost, open_rows, open_rows)
    for (account, _), *own in zip(restored, positions, early, losses, strict=True):
        account.go_on(checkpoint, *own)


def share_out(total: int, weights: Sequence[int], rooms: Sequence[int]) -> list[int]:
    """Share a number out by weights, whole, with no more for any than there is room.

    What does not fit where it belongs goes to the first that have room; what fits nowhere is left
    out.

    Examples
    --------
    >>> share_out(7, [3, 1], [9, 9]), share_out(7, [3, 1], [2, 4]), share_out(0, [0, 0], [1, 1])
    ([6, 1], [2, 4], [0, 0])
    """
    whole = max(1, sum(weights))
    found = [
        min(room, total * weight // whole) for weight, room in zip(weights, rooms, strict=True)
    ]
    for index, room in enumerate(rooms):
        found[index] += min(room - found[index], total - sum(found))
    return found
