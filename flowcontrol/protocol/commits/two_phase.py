"""A sink that writes in transactions: the two-phase commit of one subtask.

Source: ``TwoPhaseCommitSinkFunction`` of Flink 1.20, section 5 of
``reference/checkpoints-and-time.md``.
"""

from collections.abc import Mapping
from typing import Any

from flowcontrol.protocol.commits import transactions as t
from flowcontrol.state.kept import Kept


class TwoPhaseCommitSink(Kept):
    """Pre-commits at a checkpoint's barrier, commits when the checkpoint has completed.

    Parameters
    ----------
    store : TransactionStore
        Where transactions are.
    timeout_ms : int, optional
        After how long the store gives a transaction up (``setTransactionTimeout``); None: never.
        It must exceed the duration of a checkpoint and of a restart, or data is lost.
    ignore_after_timeout : bool, default False
        Ignore a commit that fails during recovery if its transaction is older than ``timeout_ms``
        (``ignoreFailuresAfterTransactionTimeout``); its rows are lost.
    warning_ratio : float, optional
        Report a commit whose transaction is older than this share of ``timeout_ms``
        (``enableTransactionTimeoutWarnings``); None: no reports.

    Raises
    ------
    ValueError
        If the timeout is negative, or the ratio not within 0 and 1.

    Notes
    -----
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
        self._store = store
        self._timeout_ms = timeout_ms
        self._ignores = ignore_after_timeout
        self._warning_ratio = warning_ratio
        self._lifecycle = t.Lifecycle.CREATED
        self._open: t.Transaction | None = None
        self._pending: dict[int, t.Transaction] = {}

    @property
    def lifecycle(self) -> t.Lifecycle:
        """Created, running, finished (no more rows) or closed."""
        return self._lifecycle

    @property
    def transactions(self) -> tuple[t.Transaction, ...]:
        """The transactions that it knows: pre-committed ones by checkpoint, then the open one."""
        last = () if self._open is None else (self._open,)
        return (*self._pending.values(), *last)

    def open(self, now: int, state: t.SinkState | None = None) -> list[t.Action]:
        """Begin; with the state of a checkpoint first commit and abort what it says.

        Parameters
        ----------
        now : int, ms
            Time.
        state : SinkState, optional
            Of the checkpoint that is restored; None: start without one.

        Returns
        -------
        list of (Phase, str)
            What was done, in order: each pre-committed transaction committed (or lost), the open
            one aborted, a new one begun.

        Raises
        ------
        ValueError
            If it is open.

        Notes
        -----
        ``initializeState``. A commit that fails is raised unless it may be ignored; the sink then
        is not open, and what was committed before it stays so.
        """
        if self._lifecycle in (t.Lifecycle.RUNNING, t.Lifecycle.FINISHED):
            raise ValueError("the sink is open already: close it, or open another one")
        actions: list[t.Action] = []
        if state is not None:
            state = t.SinkState(*state)
            for checkpoint, name in state.pending.items():
                self._recover(now, name, state.began[checkpoint], actions)
            if state.open is not None:
                self._store.abort(state.open)
                actions.append((t.Phase.RECOVER_AND_ABORT, state.open))
        self._pending = {}
        self._open = self._begin(now)
        self._lifecycle = t.Lifecycle.RUNNING
        actions.append((t.Phase.BEGIN, self._open.name))
        return actions

    def write(self, row: Any) -> None:
        """Write a row into the open transaction.

        Raises
        ------
        ValueError
            If the sink is not open, or has finished.
        """
        if self._lifecycle is not t.Lifecycle.RUNNING or self._open is None:
            raise ValueError(
                f"the sink is {self._lifecycle} and has no open transaction: open() it before "
                "its first row, and write none after finish()"
            )
        self._store.write(self._open.name, row)

    def snapshot(self, now: int, checkpoint: int) -> t.SinkState:
        """Pre-commit the open transaction under a checkpoint's number, and begin the next.

        After :meth:`finish` the last one is pre-committed and none begins.

        Parameters
        ----------
        now : int, ms
            Time.
        checkpoint : int
            Its number.

        Returns
        -------
        SinkState
            What the checkpoint keeps; only :meth:`open` reads it.

        Raises
        ------
        ValueError
            If the sink is not open, or a transaction of this or of a later checkpoint waits: a
            task's checkpoints come in ascending order, and one that is late is not taken.
        """
        if self._lifecycle not in (t.Lifecycle.RUNNING, t.Lifecycle.FINISHED):
            raise ValueError(f"the sink is {self._lifecycle}: open() it before a checkpoint")
        newest = max(self._pending, default=None)
        if newest is not None and checkpoint <= newest:
            raise ValueError(
                f"checkpoint {checkpoint} comes after {newest}, whose transaction waits for its "
                "completion: checkpoints of a task have ascending numbers"
            )
        if self._open is not None:
            opened = self._open
            self._store.flush(opened.name)
            state = t.TransactionState.PRE_COMMITTED
            self._pending[checkpoint] = opened._replace(state=state, checkpoint=checkpoint)
            # From here on it takes no row, whether the next one can begin or not.
            self._open = None
        if self._lifecycle is t.Lifecycle.RUNNING:
            self._open = self._begin(now)
        return self._state()

    def notify_complete(self, now: int, checkpoint: int) -> list[t.Action]:
        """Commit all that is pre-committed under this checkpoint or an earlier one, in order.

        So a notification that was lost is made good by the next. All are tried and forgotten;
        then the first error is raised, with the others as notes.

        Parameters
        ----------
        now : int, ms
            Time.
        checkpoint : int
            Number of the checkpoint that has completed.

        Returns
        -------
        list of (Phase, str)
            What was committed; empty if nothing waited.
        """
        actions: list[t.Action] = []
        errors: list[Exception] = []
        for number in [number for number in self._pending if number <= checkpoint]:
            transaction = self._pending[number]
            self._warn(now, transaction.name, transaction.began_ms, actions)
            try:
                self._store.commit(transaction.name)
                actions.append((t.Phase.COMMIT, transaction.name))
            except Exception as error:
                errors.append(error)
            del self._pending[number]
        if errors:
            for other in errors[1:]:
                errors[0].add_note(f"and of a later transaction: {other!r}")
            raise errors[0]
        return actions

    def notify_aborted(self, checkpoint: int) -> list[t.Action]:
        """Do nothing: what was pre-committed waits for a later checkpoint, which contains it."""
        return []

    def finish(self) -> None:
        """Take no more rows: the next snapshot pre-commits the last transaction.

        Raises
        ------
        ValueError
            If the sink is not open.
        """
        if self._lifecycle not in (t.Lifecycle.RUNNING, t.Lifecycle.FINISHED):
            raise ValueError(f"the sink is {self._lifecycle}: only an open one can finish")
        self._lifecycle = t.Lifecycle.FINISHED

    def close(self) -> list[t.Action]:
        """Abort the open transaction; what is pre-committed stays for a recovery."""
        actions: list[t.Action] = []
        if self._open is not None:
            self._store.abort(self._open.name)
            actions.append((t.Phase.ABORT, self._open.name))
            self._open = None
        self._lifecycle = t.Lifecycle.CLOSED
        return actions

    def state(self) -> dict[str, Any]:
        """Return all that it remembers, as plain JSON if the store's names are."""
        return {"lifecycle": str(self._lifecycle), **self._state().to_json()}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on from what :meth:`state` of a sink with the same settings returned.

        Nothing is committed or aborted: a failure of the job is :meth:`open`'s business.

        Raises
        ------
        ValueError
            If it is not such a state; nothing is changed then.
        """
        rest = dict(state)
        lifecycle = rest.pop("lifecycle", "missing")
        if lifecycle not in list(t.Lifecycle):
            raise ValueError(
                f"the lifecycle of the state is {lifecycle}, which is none of "
                f"{', '.join(t.Lifecycle)}: pass what state() of a sink returned"
            )
        kept = t.SinkState.from_json(rest)
        self._lifecycle = t.Lifecycle(lifecycle)
        self._open = None
        if kept.open is not None and kept.open_began is not None:
            self._open = t.Transaction(kept.open, kept.open_began, t.TransactionState.OPEN)
        done = t.TransactionState.PRE_COMMITTED
        self._pending = {
            number: t.Transaction(name, kept.began[number], done, number)
            for number, name in kept.pending.items()
        }

    def _state(self) -> t.SinkState:
        return t.SinkState(
            None if self._open is None else self._open.name,
            {number: transaction.name for number, transaction in self._pending.items()},
            None if self._open is None else self._open.began_ms,
            {number: transaction.began_ms for number, transaction in self._pending.items()},
        )

    def _begin(self, now: int) -> t.Transaction:
        return t.Transaction(self._store.begin(), now, t.TransactionState.OPEN)

    def _recover(self, now: int, name: str, began: int, actions: list[t.Action]) -> None:
        """Commit a transaction of a restored checkpoint, which may be committed already."""
        self._warn(now, name, began, actions)
        try:
            self._store.commit(name)
        except Exception:
            if not (self._ignores and is_expired(now, began, self._timeout_ms)):
                raise
            actions.append((t.Phase.LOST, name))
        else:
            actions.append((t.Phase.RECOVER_AND_COMMIT, name))

    def _warn(self, now: int, name: str, began: int, actions: list[t.Action]) -> None:
        """Report a transaction that is nearly too old (``logWarningIfTimeoutAlmostReached``)."""
        ratio, timeout = self._warning_ratio, self._timeout_ms
        if ratio is not None and timeout is not None and now - began > timeout * ratio:
            actions.append((t.Phase.NEAR_TIMEOUT, name))


def is_expired(now: int, began: int, timeout: int | None) -> bool:
    """Tell whether a transaction is too old to be committed: strictly older than the timeout.

    Parameters
    ----------
    now, began : int
        Time, and when it began, in the same unit.
    timeout : int or None
        In that unit; None: never.
    """
    return timeout is not None and now - began > timeout
