"""Transactions of a sink: their life, what is settled, and the figures that readers see.

Source: ``TwoPhaseCommitSinkFunction`` of Flink 1.20 (``org.apache.flink.streaming.api.functions
.sink``), section 5 of ``reference/checkpoints-and-time.md``.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Any, NamedTuple, Protocol

from flowcontrol.state.declared import Kept

# --- What a two-phase commit is made of: transactions, the store, a sink's state.


class TransactionState(StrEnum):
    """Where a transaction is that a sink still knows; committed and aborted ones are forgotten."""

    OPEN = "open"
    PRE_COMMITTED = "pre_committed"


class Lifecycle(StrEnum):
    """Where a sink is."""

    CREATED = "created"
    RUNNING = "running"
    FINISHED = "finished"
    CLOSED = "closed"


class Transaction(NamedTuple):
    """A transaction that a sink knows (``TransactionHolder``)."""

    name: str  # As the store gave it
    began_ms: int  # When it began
    state: TransactionState  # Open, or pre-committed
    # The checkpoint at which it was pre-committed; None while it is open.
    checkpoint: int | None = None


class TransactionStore(Protocol):
    """Where a sink's rows go: staged under a transaction's name, visible once it is committed.

    A sink may call ``commit``, ``abort`` and ``flush`` again for the same name, after a failure
    even for a transaction that is committed or aborted: each must then do nothing. What ``begin``
    left behind when a task failed is in no state if no checkpoint completed after it; the store
    removes it itself, by a timeout or by its names. Whatever a call raises, the sink raises.
    """

    def begin(self) -> str:
        """Begin a transaction and return its name, which no other one has."""

    def write(self, name: str, row: Any, /) -> None:
        """Stage a row in an open transaction."""

    def flush(self, name: str, /) -> None:
        """Make what is staged survive a failure (``preCommit``); nothing is visible yet."""

    def commit(self, name: str, /) -> None:
        """Make all rows of a transaction visible at once; nothing if they are already."""

    def abort(self, name: str, /) -> None:
        """Remove what is staged; nothing if there is none."""


class SinkState(NamedTuple):
    """What a checkpoint keeps of a sink."""

    # Name of the transaction that began after the snapshot; None after
    # ``TwoPhaseCommitSink.finish``.
    open: str | None
    # Pre-committed transactions by the number of their checkpoint, ascending; with that of the
    # snapshot itself.
    pending: Mapping[int, str]
    open_began: int | None  # When the open one began, ms
    began: Mapping[int, int]  # When each of ``pending`` began, ms

    def to_json(self) -> dict[str, Any]:
        """Return the state as plain JSON, whose keys are strings."""
        pending = [[number, name, self.began[number]] for number, name in self.pending.items()]
        return {"open": self.open, "open_began": self.open_began, "pending": pending}

    @classmethod
    def from_json(cls, state: Mapping[str, Any]) -> "SinkState":
        """Return the state that :meth:`to_json` returned.

        Raises ValueError if it is not such a state.
        """
        wanted = {"open", "open_began", "pending"}
        if set(state) != wanted:
            raise ValueError(
                f"the state of a sink has {', '.join(sorted(wanted))}; this one has "
                f"{', '.join(sorted(state)) or 'nothing'}: pass what to_json() returned"
            )
        pending = {int(number): name for number, name, _ in state["pending"]}
        began = {int(number): int(ms) for number, _, ms in state["pending"]}
        return cls(state["open"], pending, state["open_began"], began)


# --- The guarantees of a sink, and the figures of what its readers see


class Guarantee(StrEnum):
    """What a sink promises its readers."""

    AT_MOST_ONCE = "at-most-once"
    AT_LEAST_ONCE = "at-least-once"
    EXACTLY_ONCE = "exactly-once"


class DeliverySample(NamedTuple):
    """The figures of a subtask; counts since the start, latencies since the last sample."""

    written: int  # Records that the sink wrote, those that were written again included
    committed: int  # Rows that a reader sees; a record that is there three times is three rows
    # Rows beyond the first of their record, so ``committed - visible_twice`` records are visible.
    visible_twice: int
    lost: int  # Records that a reader will never see
    staged: int  # Records in transactions that are neither committed nor aborted
    shown: int  # Rows that became visible since the last sample
    # Nearest-rank median and largest time from a row's writing until it was visible, of those, in
    # the unit of the times; None if there are none.
    visibility_p50: int | None
    visibility_max: int | None


def percentile(counts: Mapping[int, int], percent: int) -> int | None:
    """Return a nearest-rank percentile of values that occur as often as stated; None of none.

    - ``counts``: how often each value occurs, at least once.
    - ``percent``: 1 to 100; 100 is the largest.
    """
    rank = -(-sum(counts.values()) * percent // 100)
    for value in sorted(counts):
        rank -= counts[value]
        if rank <= 0:
            return value
    return None


# --- How many rows are visible, or lost for good, of a sink's subtasks that restart together.
#
# Which rows they are nobody knows, as a rebalance may deal a row to another subtask when it
# comes again. How many come again of those that are settled is known, and that is what a
# guarantee needs.


class SettledRows(Kept):
    """The rows of some subtasks, counted together.

    - ``settled``: rows that are visible, or lost for good.
    - ``passed``: rows that came since the beginning, in the history that is left after restarts:
      those that became visible, were dropped, or do not come again. Less than ``settled`` while
      rows come again. Rows of a transaction that expired are in neither number, since they may come
      again.

    Examples
    --------
    >>> rows = SettledRows()
    >>> rows.show(10), rows.unseen(4)
    (0, 4)
    >>> rows.go_back(10, lost=0)
    >>> rows.show(3), rows.show(11), rows.settled
    (3, 7, 14)
    """

    _kept = ("settled", "passed")

    def __init__(self) -> None:
        self.settled = self.passed = 0

    @property
    def coming(self) -> int:
        """Rows that are settled, and come again."""
        return max(0, self.settled - self.passed)

    def show(self, rows: int) -> int:
        """Make rows visible; return how many of them were settled before."""
        again = self._known(rows)
        self.passed += rows
        self.settled = max(self.settled, self.passed)
        return again

    def drop(self, rows: int) -> int:
        """Pass over those of some rows that were settled before; return how many."""
        again = self._known(rows)
        self.passed += again
        return again

    def unseen(self, rows: int) -> int:
        """Return how many are not settled of rows that came, or were to come, behind the passed."""
        return max(0, self.passed + rows - self.settled)

    def go_back(self, rows: int, lost: int) -> None:
        """Have rows come again.

        - ``rows``: how many of the passed; less than 0: the others do not come again, but are
          passed.
        - ``lost``: rows that do not come again, and never were visible.
        """
        self.passed -= rows
        self.settled += lost

    def _known(self, rows: int) -> int:
        return min(rows, self.coming)


# --- A sink that writes in transactions: the two-phase commit of one subtask.
#
# Source: ``TwoPhaseCommitSinkFunction`` of Flink 1.20, section 5 of
# ``reference/checkpoints-and-time.md``.


class TwoPhaseCommitSink(Kept):
    """Pre-commits at a checkpoint's barrier, commits when the checkpoint has completed.

    **After a failure of the job** make a new sink and :meth:`open` it with what :meth:`snapshot`
    returned for the checkpoint that is restored. That commits again what may be committed already,
    so the store's ``commit`` is idempotent. After an exception from the store the task has failed:
    close the sink, and restore.

    **After a kill of the process** between two calls, ``restore(state)`` a new sink with what
    :meth:`state` returned after the last one. It calls nothing of the store, and goes on as if
    nothing had happened. Write ``json.dumps(sink.state())`` in one step with whatever else the
    process resumes from. After a kill inside a call, restore the state of before it and repeat the
    call with the same arguments: ``flush``, ``commit`` and ``abort`` find their work done, and
    ``begin`` leaves a transaction without rows behind unless the store gives the same name again.
    """

    def __init__(self, store: TransactionStore) -> None:
        self._store = store
        self._lifecycle = Lifecycle.CREATED
        self._open: Transaction | None = None
        self._pending: dict[int, Transaction] = {}

    @property
    def transactions(self) -> tuple[Transaction, ...]:
        """The transactions that it knows: pre-committed ones by checkpoint, then the open one."""
        last = () if self._open is None else (self._open,)
        return (*self._pending.values(), *last)

    def open(self, now: int, state: SinkState | None = None) -> None:
        """Begin; with the state of a checkpoint first commit and abort what it says.

        ``initializeState``. A commit that fails is raised; the sink then is not open, and what was
        committed before it stays so.

        - ``now`` (ms): time.
        - ``state``: of the checkpoint that is restored; None: start without one.
        """
        if state is not None:
            state = SinkState(*state)
            for name in state.pending.values():
                self._store.commit(name)  # it may be committed already
            if state.open is not None:
                self._store.abort(state.open)
        self._pending = {}
        self._open = self._begin(now)
        self._lifecycle = Lifecycle.RUNNING

    def write(self, row: Any) -> None:
        """Write a row into the open transaction.

        Raises ValueError if the sink is not open, or has finished.
        """
        if self._lifecycle is not Lifecycle.RUNNING or self._open is None:
            raise ValueError(
                f"the sink is {self._lifecycle} and has no open transaction: open() it before "
                "its first row, and write none after finish()"
            )
        self._store.write(self._open.name, row)

    def snapshot(self, now: int, checkpoint: int) -> SinkState:
        """Pre-commit the open transaction under a checkpoint's number, and begin the next.

        After :meth:`finish` the last one is pre-committed and none begins.

        ``now`` (ms): time.

        Returns what the checkpoint keeps; only :meth:`open` reads it.
        """
        if self._open is not None:
            opened = self._open
            self._store.flush(opened.name)
            state = TransactionState.PRE_COMMITTED
            self._pending[checkpoint] = opened._replace(state=state, checkpoint=checkpoint)
            # From here on it takes no row, whether the next one can begin or not.
            self._open = None
        if self._lifecycle is Lifecycle.RUNNING:
            self._open = self._begin(now)
        return self._state()

    def notify_complete(self, checkpoint: int) -> None:
        """Commit all that is pre-committed under this checkpoint or an earlier one, in order.

        So a notification that was lost is made good by the next. All are tried and forgotten;
        then the first error is raised, with the others as notes.
        """
        errors: list[Exception] = []
        for number in [number for number in self._pending if number <= checkpoint]:
            try:
                self._store.commit(self._pending.pop(number).name)
            except Exception as error:
                errors.append(error)
        if errors:
            for other in errors[1:]:
                errors[0].add_note(f"and of a later transaction: {other!r}")
            raise errors[0]

    def finish(self) -> None:
        """Take no more rows: the next snapshot pre-commits the last transaction."""
        self._lifecycle = Lifecycle.FINISHED

    def state(self) -> dict[str, Any]:
        """Return all that it remembers, as plain JSON if the store's names are."""
        return {"lifecycle": str(self._lifecycle), **self._state().to_json()}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on from what :meth:`state` of a sink with the same settings returned.

        Nothing is committed or aborted: a failure of the job is :meth:`open`'s business.

        Raises ValueError if it is not such a state; nothing is changed then.
        """
        rest = dict(state)
        lifecycle = Lifecycle(rest.pop("lifecycle"))
        kept = SinkState.from_json(rest)
        self._lifecycle = lifecycle
        self._open = None
        if kept.open is not None and kept.open_began is not None:
            self._open = Transaction(kept.open, kept.open_began, TransactionState.OPEN)
        done = TransactionState.PRE_COMMITTED
        self._pending = {
            number: Transaction(name, kept.began[number], done, number)
            for number, name in kept.pending.items()
        }

    def _state(self) -> SinkState:
        return SinkState(
            None if self._open is None else self._open.name,
            {number: transaction.name for number, transaction in self._pending.items()},
            None if self._open is None else self._open.began_ms,
            {number: transaction.began_ms for number, transaction in self._pending.items()},
        )

    def _begin(self, now: int) -> Transaction:
        return Transaction(self._store.begin(), now, TransactionState.OPEN)


def is_expired(now: int, began: int, timeout: int | None) -> bool:
    """Tell whether a transaction is too old to be committed: strictly older than the timeout.

    - ``now``, ``began``: time, and when it began, in the same unit.
    - ``timeout``: in that unit; None: never.
    """
    return timeout is not None and now - began > timeout
