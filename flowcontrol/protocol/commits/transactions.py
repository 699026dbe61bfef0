"""What a two-phase commit is made of: phases, transactions, the store, a sink's state.

Source: ``TwoPhaseCommitSinkFunction`` of Flink 1.20 (``org.apache.flink.streaming.api.functions
.sink``), section 5 of ``reference/checkpoints-and-time.md``.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Any, NamedTuple, Protocol, TypeAlias


class Phase(StrEnum):
    """What a sink does to a transaction, by Flink's names; also what it reports to its caller."""

    BEGIN = "begin"
    PRE_COMMIT = "pre_commit"
    COMMIT = "commit"
    ABORT = "abort"
    RECOVER_AND_COMMIT = "recover_and_commit"
    RECOVER_AND_ABORT = "recover_and_abort"
    #: A recovery's commit failed after the timeout, and the sink was told to ignore that.
    LOST = "lost"
    #: A transaction is about to be committed at an age near its timeout.
    NEAR_TIMEOUT = "near_timeout"


Action: TypeAlias = tuple[Phase, str]
"""A phase and the name of the transaction that went through it."""


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
    """A transaction that a sink knows (``TransactionHolder``).

    Attributes
    ----------
    name : str
        As the store gave it.
    began_ms : int
        When it began.
    state : TransactionState
        Open, or pre-committed.
    checkpoint : int or None
        The checkpoint at which it was pre-committed; None while it is open.
    """

    name: str
    began_ms: int
    state: TransactionState
    checkpoint: int | None = None


class TransactionStore(Protocol):
    """Where a sink's rows go: staged under a transaction's name, visible once it is committed.

    Notes
    -----
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
    """What a checkpoint keeps of a sink.

    Attributes
    ----------
    open : str or None
        Name of the transaction that began after the snapshot; None after :meth:`finish`.
    pending : mapping of int to str
        Pre-committed transactions by the number of their checkpoint, ascending; with that of the
        snapshot itself.
    open_began : int or None
        When the open one began, ms.
    began : mapping of int to int
        When each of ``pending`` began, ms.
    """

    open: str | None
    pending: Mapping[int, str]
    open_began: int | None
    began: Mapping[int, int]

    def to_json(self) -> dict[str, Any]:
        """Return the state as plain JSON, whose keys are strings."""
        pending = [[number, name, self.began[number]] for number, name in self.pending.items()]
        return {"open": self.open, "open_began": self.open_began, "pending": pending}

    @classmethod
    def from_json(cls, state: Mapping[str, Any]) -> "SinkState":
        """Return the state that :meth:`to_json` returned.

        Raises
        ------
        ValueError
            If it is not such a state.
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
