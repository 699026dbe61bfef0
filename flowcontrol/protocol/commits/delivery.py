"""What the readers of a sink see: how many records, which twice, which never, and how late.

One object a sink subtask, fed by a clock with counts: what it costs depends on the number of calls,
not of records. Sections 4 and 5 of ``reference/checkpoints-and-time.md``.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

from flowcontrol.protocol.commits.restored import RunStore, StagedRuns, Undone
from flowcontrol.protocol.commits.transactions import (
    DeliverySample,
    Guarantee,
    SettledRows,
    SinkState,
    percentile,
)
from flowcontrol.protocol.commits.two_phase import TwoPhaseCommitSink
from flowcontrol.state.declared import attributes_of, put_attributes_back


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

    **exactly-once**: a :class:`~.two_phase.TwoPhaseCommitSink` over counts; rows are
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
      by default it restarts alone. Accounts that share it are restored together (:mod:`.together`).
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
