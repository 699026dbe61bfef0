"""A sink that writes in transactions: the two-phase commit of one subtask.

Source: ``TwoPhaseCommitSinkFunction`` of Flink 1.20, section 5 of
``reference/checkpoints-and-time.md``.
"""

from collections.abc import Mapping
from typing import Any

from flowcontrol.protocol.commits import transactions as t
from flowcontrol.state.declared import Kept


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

    def __init__(self, store: t.TransactionStore) -> None:
        self._store = store
        self._lifecycle = t.Lifecycle.CREATED
        self._open: t.Transaction | None = None
        self._pending: dict[int, t.Transaction] = {}

    @property
    def transactions(self) -> tuple[t.Transaction, ...]:
        """The transactions that it knows: pre-committed ones by checkpoint, then the open one."""
        last = () if self._open is None else (self._open,)
        return (*self._pending.values(), *last)

    def open(self, now: int, state: t.SinkState | None = None) -> None:
        """Begin; with the state of a checkpoint first commit and abort what it says.

        ``initializeState``. A commit that fails is raised; the sink then is not open, and what was
        committed before it stays so.

        - ``now`` (ms): time.
        - ``state``: of the checkpoint that is restored; None: start without one.
        """
        if state is not None:
            state = t.SinkState(*state)
            for name in state.pending.values():
                self._store.commit(name)  # it may be committed already
            if state.open is not None:
                self._store.abort(state.open)
        self._pending = {}
        self._open = self._begin(now)
        self._lifecycle = t.Lifecycle.RUNNING

    def write(self, row: Any) -> None:
        """Write a row into the open transaction.

        Raises ValueError if the sink is not open, or has finished.
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

        ``now`` (ms): time.

        Returns what the checkpoint keeps; only :meth:`open` reads it.
        """
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
        self._lifecycle = t.Lifecycle.FINISHED

    def state(self) -> dict[str, Any]:
        """Return all that it remembers, as plain JSON if the store's names are."""
        return {"lifecycle": str(self._lifecycle), **self._state().to_json()}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on from what :meth:`state` of a sink with the same settings returned.

        Nothing is committed or aborted: a failure of the job is :meth:`open`'s business.

        Raises ValueError if it is not such a state; nothing is changed then.
        """
        rest = dict(state)
        lifecycle = t.Lifecycle(rest.pop("lifecycle"))
        kept = t.SinkState.from_json(rest)
        self._lifecycle = lifecycle
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


def is_expired(now: int, began: int, timeout: int | None) -> bool:
    """Tell whether a transaction is too old to be committed: strictly older than the timeout.

    - ``now``, ``began``: time, and when it began, in the same unit.
    - ``timeout``: in that unit; None: never.
    """
    return timeout is not None and now - began > timeout
