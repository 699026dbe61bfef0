"""What the readers of a sink see: how many records, which twice, which never, and how late.

One object a sink subtask, fed by a clock with counts: what it costs depends on the number of calls,
not of records. Sections 4 and 5 of ``reference/checkpoints-and-time.md``.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from flowcontrol.protocol.commits.transactions import (
    DeliverySample,
    Guarantee,
    SettledRows,
    SinkState,
    TwoPhaseCommitSink,
    is_expired,
    percentile,
)
from flowcontrol.state.declared import Kept, attributes_of, put_attributes_back


class _Barrier(NamedTuple):
    """What is known of a checkpoint: where a restore of it resumes, and its transactions."""

    resumes_at: int
    state: SinkState | None


class Delivery:
    """The account of one sink subtask.

    Times are whole numbers of one unit, which never fall.

    The records that reach a subtask have positions 0, 1, 2 ... A restore puts the position back to
    that of the checkpoint. What comes next are records that came before, yet a rebalance may give
    them to another subtask the second time. So how many of them are visible already is known of all
    subtasks that restart together (:class:`~.transactions.SettledRows`): the
    first that come to any of them count as those. The sums over these subtasks hold whatever
    fails; a subtask's own ``visible_twice`` are those of the rows that it wrote.

    **exactly-once**: a :class:`~.transactions.TwoPhaseCommitSink` over counts; rows are
    visible at the commit. **at-least-once**: rows are visible when they are written, and what is
    written again is there twice. **at-most-once**: likewise, but what a restore brings again is
    dropped: what was written is visible already, what was on its way is lost.

    ``json.dumps(delivery.state())`` between any two calls, and :meth:`restore_state` of a new
    object with the same settings, go on after a kill as if there had been none.

    - ``transaction_timeout``: a transaction that is strictly older when it is committed, at a
      notification or at a restore, is lost; None: never. Only of exactly-once.
    - ``resolution``: records of a transaction that are written less than this after the first of a
      run have its time, so latencies are up to this much too long. A clock whose rounds are short
      and whose checkpoints are far apart saves memory by it: a run is kept until it is visible.
    - ``settled``: what is settled of the subtasks of its sink that restart with it, which share it;
      by default it restarts alone. Accounts that share it are restored together.
    - ``guarantee``: what it promises.
    - ``written``, ``committed``, ``visible_twice``, ``lost``: the figures so far, as in
      :class:`~.transactions.DeliverySample`.
    - ``settled``: what is settled, of those that restart with it too.

    Examples
    --------
    >>> account = Delivery("exactly-once")
    >>> account.write(10, 5)
    >>> account.barrier(20, 1)
    >>> account.write(25, 2)
    >>> account.complete(30, 1)
    >>> account.sample()[:6], account.committed
    ((7, 5, 0, 0, 2, 5), 5)
    """

    _kept = (
        *("written", "committed", "visible_twice", "lost", "settled", "_now", "_position"),
        *("_beginning", "_shown_to", "_expired", "_latencies", "_barriers", "_store", "_sink"),
    )
    _values = (_Barrier, SinkState)

    def __init__(
        self,
        guarantee: str,
        transaction_timeout: int | None = None,
        now: int = 0,
        resolution: int = 1,
        settled: SettledRows | None = None,
    ) -> None:
        self.guarantee = Guarantee(guarantee)
        self.written = self.committed = self.visible_twice = self.lost = 0
        self._now = now
        self._position = 0
        # Where a restore without a checkpoint goes back to: what the last one skipped stays so.
        self._beginning = 0
        # Up to it transactions are committed, or expired; without them all that came.
        self._shown_to = 0
        self.settled = SettledRows() if settled is None else settled
        # The records last lost with a transaction, of which a restore may bring some again.
        self._expired = (0, 0)
        self._barriers: dict[int, _Barrier] = {}
        self._latencies: dict[int, int] = {}
        self._store = RunStore(transaction_timeout, resolution, self._show_staged, self._lose)
        self._sink: TwoPhaseCommitSink | None = None
        if self.guarantee is Guarantee.EXACTLY_ONCE:
            self._store.now = now
            self._sink = TwoPhaseCommitSink(self._store)
            self._sink.open(now)

    @property
    def staged(self) -> int:
        """Records in transactions that are neither committed nor aborted."""
        return self._store.records

    def write(self, now: int, records: int, since: int | None = None) -> None:
        """Note that the sink has written records.

        ``since``: when they were written, if that is not now: not before the last barrier, nor
        before what was written earlier. A clock that looks now and then knows it later.
        """
        if records == 0:
            return
        self._move_to(now)
        start = self._position
        self._position += records
        if self._sink is not None:
            self.written += records
            self._store.now = now if since is None else since
            self._sink.write((start, records))
            self._store.now = now
            return
        self._shown_to = self._position
        # At most once the first records after a restore, as many as are settled, are dropped.
        drops = self.guarantee is Guarantee.AT_MOST_ONCE
        fresh = records - (self.settled.drop(records) if drops else 0)
        if fresh:
            self.written += fresh
            self._latencies[0] = self._latencies.get(0, 0) + fresh
            self._show(fresh)

    def barrier(self, now: int, checkpoint: int, early: int = 0) -> None:
        """Note that the sink has snapshotted its state for a checkpoint."""
        self._move_to(now)
        state = None if self._sink is None else self._sink.snapshot(now, checkpoint)
        self._barriers[checkpoint] = _Barrier(self._position - early, state)

    def complete(self, now: int, checkpoint: int, *, is_savepoint: bool = False) -> None:
        """Note that the notification of a checkpoint's completion has arrived.

        One that is lost is not fed; the next one commits its records too. Of a checkpoint that is
        aborted nothing is fed. Older checkpoints than this one cannot be restored any more, unless
        this is a savepoint, one with which the job stops: a failure restores the latest checkpoint.
        """
        self._move_to(now)
        if self._sink is not None:
            self._sink.notify_complete(checkpoint)
        if not is_savepoint:
            self._barriers = {n: kept for n, kept in self._barriers.items() if n >= checkpoint}

    def abort(self, now: int, checkpoint: int | None) -> Undone:
        """Begin to restore: commit what the checkpoint holds, and abort everything else."""
        self._move_to(now)
        barrier = _Barrier(self._beginning, None)
        if checkpoint is not None:
            barrier = self._barriers[checkpoint]
        if self._sink is not None:
            self._recover(now, barrier.state)
        return Undone(barrier.resumes_at, self._shown_to, self._position, self._expired)

    def go_on(self, checkpoint: int | None, position: int, early: int, lost: int) -> None:
        """End a restore: go on from a position, to which another restore goes back as well.

        - ``position``: how far the subtask counts as being: what does not come again is behind it.
        - ``lost``: records of this subtask that do not come again, and are not visible.
        """
        self.lost += lost
        self._position = self._shown_to = position
        first, last = self._expired
        if last > position:  # these come again
            kept = max(first, position)
            self.lost -= last - kept
            self._expired = (first, kept) if kept > first else (0, 0)
        resumes_at = position + early
        if checkpoint is None:
            self._beginning = resumes_at
        else:
            kept_state = self._barriers[checkpoint].state
            self._barriers[checkpoint] = _Barrier(resumes_at, kept_state)
        self._barriers = {
            number: kept
            for number, kept in self._barriers.items()
            if checkpoint is not None and number <= checkpoint
        }

    def sample(self) -> DeliverySample:
        """Return the figures, and begin anew with the latencies."""
        latencies, self._latencies = self._latencies, {}
        return DeliverySample(
            self.written,
            self.committed,
            self.visible_twice,
            self.lost,
            self.staged,
            sum(latencies.values()),
            percentile(latencies, 50),
            percentile(latencies, 100),
        )

    def state(self) -> dict[str, Any]:
        """Return all that it remembers, as plain JSON."""
        return attributes_of(self)

    def restore_state(self, state: Mapping[str, Any]) -> None:
        """Go on from what :meth:`state` of an account with the same settings returned.

        Raises ValueError if it is not such a state; nothing is changed then.
        """
        own = self.state()
        if own.keys() != state.keys() or (own["sink"] is None) != (state["sink"] is None):
            raise ValueError(
                f"this is not the state of an account with the guarantee {self.guarantee}: pass "
                f"what state() of one returned, which has {', '.join(sorted(own))}"
            )
        put_attributes_back(self, state)

    def _move_to(self, now: int) -> None:
        self._now = self._store.now = now

    def _show(self, records: int) -> None:
        """Make records visible; as many as were settled are there already."""
        self.committed += records
        self.visible_twice += self.settled.show(records)

    def _show_staged(self, runs: StagedRuns) -> None:
        for time, count in zip(runs.times, runs.counts, strict=True):
            latency = self._now - time
            self._latencies[latency] = self._latencies.get(latency, 0) + count
        self._show(runs.records)
        self._shown_to = max(self._shown_to, runs.start + runs.records)

    def _lose(self, runs: StagedRuns) -> None:
        """Count an expired transaction; it settles nothing, as a restore may bring it again."""
        end = runs.start + runs.records
        start = runs.start + self.settled.drop(runs.records)  # a first row of those is visible
        self._shown_to = max(self._shown_to, end)
        if start < end:
            self.lost += end - start
            first, last = self._expired
            self._expired = (first if last == start else start, end)

    def _recover(self, now: int, state: SinkState | None) -> None:
        """Open a new sink as a restarted task does."""
        self._store.keep(() if state is None else {*state.pending.values(), state.open or ""})
        self._sink = TwoPhaseCommitSink(self._store)
        self._sink.open(now, state)


# --- Rows of sinks at a restore: those that were staged, and those that come again.
#
# What is counted of a channel is exact, and so is the sum over the subtasks; which subtask gets a
# row when it comes again is not known before. So every rule here is one of sums, and what falls to
# a subtask is shared out.


# --- Runs of records that a transactional sink has staged.
#
# A run is records that were written at one time, counted: what it costs depends on the number
# of times, not of records.


@dataclass
class StagedRuns:
    """The records of one transaction."""

    began: int  # When it began
    start: int = 0  # Position of its first record in the input of the subtask
    # When the first record of each run was written, ascending, and how many there are.
    times: list[int] = field(default_factory=list)
    counts: list[int] = field(default_factory=list)
    records: int = 0  # All of them; they have consecutive positions

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
    """A :class:`~.transactions.TransactionStore` of counts instead of rows.

    - ``timeout``: a transaction that is strictly older when it is committed is lost; None: never.
    - ``resolution``: records that are written less than this after the first of a run belong to it;
      1: runs of one time.
    - ``now``: the time; whoever calls the sink sets it before.
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
    """Rows of one subtask at a restore, as ``Delivery.restore`` names them."""

    # Those on their way; before the barrier that come again; that the checkpoint holds in flight.
    in_flight: int = 0
    early: int = 0
    stored: int = 0
    again: int | None = None  # The others since the checkpoint that come again; None: all of them


class Undone(NamedTuple):
    """Positions of one subtask when it is restored."""

    resumes_at: int  # Where the checkpoint's barrier was
    shown_to: int  # Up to where its rows are visible, dropped or expired
    position: int  # Up to where it had written
    # Rows last lost with a transaction: the first, and the one behind the last.
    expired: tuple[int, int]


# --- The subtasks of a sink go back to a checkpoint together.


def restore_together(
    now: int, checkpoint: int | None, restored: Sequence[tuple[Delivery, Returning]]
) -> None:
    """Have accounts that share what is settled go on from a checkpoint.

    - ``checkpoint``: the one that is restored; None: from the start, without a checkpoint.
    - ``restored``: the accounts, of one guarantee, and what was and is on the way to each. Subtasks
      that had finished before are not restored: they are not among them.
    """
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
