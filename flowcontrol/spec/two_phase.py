"""A sink that writes in transactions, as Flink's test cases use it: it says what it did.

Source: ``TwoPhaseCommitSinkFunction`` of Flink 1.20, section 5 of
``reference/checkpoints-and-time.md``.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Any, TypeAlias

from flowcontrol.protocol.commits import delivery
from flowcontrol.protocol.commits import transactions as t
from flowcontrol.protocol.commits import transactions as two_phase
from flowcontrol.protocol.commits.delivery import Returning, restore_together
from flowcontrol.protocol.commits.transactions import Guarantee, SettledRows

# --- What the readers of a sink get, as an object that checks its arguments.


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


class Phase(StrEnum):
    """What a sink does to a transaction, by Flink's names; also what it reports to its caller."""

    BEGIN = "begin"
    PRE_COMMIT = "pre_commit"
    COMMIT = "commit"
    ABORT = "abort"
    RECOVER_AND_COMMIT = "recover_and_commit"
    RECOVER_AND_ABORT = "recover_and_abort"
    #: A recovery's commit failed after the timeout, and the sink ignores that.
    LOST = "lost"
    #: A transaction is about to be committed at an age near its timeout.
    NEAR_TIMEOUT = "near_timeout"


Action: TypeAlias = tuple[Phase, str]
"""A phase and the name of the transaction that went through it."""


class _ReportingStore:
    """A store that reports to a sink what it has done, and asks whether a commit may fail."""

    def __init__(self, store: t.TransactionStore, own: "TwoPhaseCommitSink") -> None:
        self._own = own
        self.write, self.flush = store.write, store.flush
        self._begin, self._commit, self._abort = store.begin, store.commit, store.abort

    def begin(self) -> str:
        """Begin a transaction."""
        name = self._begin()
        self._own.note(Phase.BEGIN, name)
        return name

    def commit(self, name: str, /) -> None:
        """Commit a transaction; one of a restored checkpoint that is too old may be lost."""
        self._own.warn(name)
        is_recovery = self._own.is_recovering
        try:
            self._commit(name)
        except Exception:
            if not (is_recovery and self._own.may_lose(name)):
                raise
            self._own.note(Phase.LOST, name)
        else:
            self._own.note(Phase.RECOVER_AND_COMMIT if is_recovery else Phase.COMMIT, name)

    def abort(self, name: str, /) -> None:
        """Abort a transaction."""
        self._abort(name)
        is_recovery = self._own.is_recovering
        self._own.note(Phase.RECOVER_AND_ABORT if is_recovery else Phase.ABORT, name)


class TwoPhaseCommitSink(two_phase.TwoPhaseCommitSink):
    """Pre-commits at a checkpoint's barrier, commits when the checkpoint has completed.

    - ``timeout_ms``: after how long the store gives a transaction up (``setTransactionTimeout``);
      None: never. It must exceed the duration of a checkpoint and of a restart, or data is lost.
    - ``ignore_after_timeout``: ignore a commit that fails during recovery if its transaction is
      older than ``timeout_ms`` (``ignoreFailuresAfterTransactionTimeout``); its rows are lost.
    - ``warning_ratio``: report a commit whose transaction is older than this share of
      ``timeout_ms`` (``enableTransactionTimeoutWarnings``); None: no reports.

    Raises ValueError if the timeout is negative, or the ratio not within 0 and 1.

    Examples
    --------
    >>> class Store:
    ...     rows, staged, number = [], {}, 0
    ...     def begin(self):
    ...         self.number += 1
    ...         return f"t{self.number}"
    ...     def write(self, name, row):
    ...         self.staged.setdefault(name, []).append(row)
    ...     def flush(self, name): pass
    ...     def commit(self, name):
    ...         self.rows += self.staged.pop(name, [])
    ...     def abort(self, name):
    ...         self.staged.pop(name, None)
    >>> store = Store()
    >>> sink = TwoPhaseCommitSink(store)
    >>> sink.open(0)
    [(<Phase.BEGIN: 'begin'>, 't1')]
    >>> sink.write("a")
    >>> state = sink.snapshot(10, 1)
    >>> (state.open, state.pending, store.rows)
    ('t2', {1: 't1'}, [])
    >>> sink.notify_complete(20, 1)
    [(<Phase.COMMIT: 'commit'>, 't1')]
    >>> store.rows
    ['a']
    """

    def __init__(
        self,
        store: t.TransactionStore,
        timeout_ms: int | None = None,
        ignore_after_timeout: bool = False,
        warning_ratio: float | None = None,
    ) -> None:
        if timeout_ms is not None and timeout_ms < 0:
            raise ValueError(f"timeout_ms is {timeout_ms}: needs at least 0, or None for never")
        if warning_ratio is not None and not 0 <= warning_ratio <= 1:
            raise ValueError(f"warning_ratio is {warning_ratio}: needs 0 to 1, or None for none")
        super().__init__(_ReportingStore(store, self))
        self._timeout_ms = timeout_ms
        self._ignores = ignore_after_timeout
        self._warning_ratio = warning_ratio
        self._actions: list[Action] = []
        self._began: dict[str, int] = {}
        self._now = 0
        self.is_recovering = False

    @property
    def lifecycle(self) -> t.Lifecycle:
        """Created, running, finished (no more rows) or closed."""
        return self._lifecycle

    def open(  # type: ignore[override]
        self, now: int, state: t.SinkState | None = None
    ) -> list[Action]:
        """Begin; with the state of a checkpoint first commit and abort what it says.

        ``initializeState``. A commit that fails is raised unless it may be ignored; the sink then
        is not open, and what was committed before it stays so.

        - ``now`` (ms): time.
        - ``state``: of the checkpoint that is restored; None: start without one.

        Returns what was done, in order: each pre-committed transaction committed (or lost), the
        open one aborted, a new one begun. Raises ValueError if it is open.
        """
        if self._lifecycle in (t.Lifecycle.RUNNING, t.Lifecycle.FINISHED):
            raise ValueError("the sink is open already: close it, or open another one")
        began: dict[str, int] = {}
        if state is not None:
            state = t.SinkState(*state)
            began = {name: state.began[number] for number, name in state.pending.items()}
        self._actions, self._now, self._began, self.is_recovering = [], now, began, True
        try:
            super().open(now, state)
        finally:
            self.is_recovering = False
        return self._actions

    def snapshot(self, now: int, checkpoint: int) -> t.SinkState:
        """Pre-commit the open transaction under a checkpoint's number, and begin the next.

        After :meth:`finish` the last one is pre-committed and none begins.

        ``now`` (ms): time.

        Returns what the checkpoint keeps; only :meth:`open` reads it. Raises ValueError if the sink
        is not open, or a transaction of this or of a later checkpoint waits: a task's checkpoints
        come in ascending order, and one that is late is not taken.
        """
        if self._lifecycle not in (t.Lifecycle.RUNNING, t.Lifecycle.FINISHED):
            raise ValueError(f"the sink is {self._lifecycle}: open() it before a checkpoint")
        newest = max(self._pending, default=None)
        if newest is not None and checkpoint <= newest:
            raise ValueError(
                f"checkpoint {checkpoint} comes after {newest}, whose transaction waits for its "
                "completion: checkpoints of a task have ascending numbers"
            )
        return super().snapshot(now, checkpoint)

    def notify_complete(  # type: ignore[override]
        self, now: int, checkpoint: int
    ) -> list[Action]:
        """Commit all that is pre-committed under this checkpoint or an earlier one, in order.

        So a notification that was lost is made good by the next. All are tried and forgotten;
        then the first error is raised, with the others as notes.

        ``now`` (ms): time.

        Returns what was committed; empty if nothing waited.
        """
        self._actions, self._now = [], now
        self._began = {one.name: one.began_ms for one in self.transactions}
        super().notify_complete(checkpoint)
        return self._actions

    def notify_aborted(self, checkpoint: int) -> list[Action]:
        """Do nothing: what was pre-committed waits for a later checkpoint, which contains it."""
        return []

    def finish(self) -> None:
        """Take no more rows: the next snapshot pre-commits the last transaction.

        Raises ValueError if the sink is not open.
        """
        if self._lifecycle not in (t.Lifecycle.RUNNING, t.Lifecycle.FINISHED):
            raise ValueError(f"the sink is {self._lifecycle}: only an open one can finish")
        super().finish()

    def close(self) -> list[Action]:
        """Abort the open transaction; what is pre-committed stays for a recovery."""
        self._actions = []
        if self._open is not None:
            self._store.abort(self._open.name)
            self._open = None
        self._lifecycle = t.Lifecycle.CLOSED
        return self._actions

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on from what :meth:`state` of a sink with the same settings returned.

        Nothing is committed or aborted: a failure of the job is :meth:`open`'s business.

        Raises ValueError if it is not such a state; nothing is changed then.
        """
        lifecycle = state.get("lifecycle", "missing")
        if lifecycle not in list(t.Lifecycle):
            raise ValueError(
                f"the lifecycle of the state is {lifecycle}, which is none of "
                f"{', '.join(t.Lifecycle)}: pass what state() of a sink returned"
            )
        super().restore(state)

    def note(self, phase: Phase, name: str) -> None:
        """Note what was done to a transaction."""
        self._actions.append((phase, name))

    def may_lose(self, name: str) -> bool:
        """Tell whether the commit of a transaction may fail, since it is too old."""
        is_old = two_phase.is_expired(self._now, self._began[name], self._timeout_ms)
        return self._ignores and is_old

    def warn(self, name: str) -> None:
        """Report a transaction that is nearly too old (``logWarningIfTimeoutAlmostReached``)."""
        ratio, timeout = self._warning_ratio, self._timeout_ms
        if ratio is None or timeout is None:
            return
        if self._now - self._began[name] > timeout * ratio:
            self.note(Phase.NEAR_TIMEOUT, name)
