"""Rows of a link's ledger as typed values for the audit.

Only this module of the audit knows the JSON of a row's state: its part ``shown``. Rows of earlier
versions have the figures in other places. Claims about the figures are in :mod:`.audit_rules`.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from flowcontrol.protocol.network.subpartition_rules import ready_messages
from flowcontrol.state.network import Subpartition
from flowcontrol.state.queues import SPANNING_DATA

SIDES = ("sender", "receiver")

COMMON = ("batch_id", "sender", "receiver", "pool_used", "pool_size", "rows", "bytes")
OWNED = {
    "sender": ("written", "released", "sent", "credit", "backlog"),
    "receiver": ("announced", "consumed", "exclusive", "floating_held"),
}
"""Columns that a side fills and the other leaves null."""

MAY_BE_NEGATIVE = "credit"
"""Negative credit is a broken invariant of its own; any other negative figure is not a row."""

Raw = Mapping[str, Any]


class MalformedRowError(ValueError):
    """A row that cannot be one of a ledger; the text says why."""


@dataclass(frozen=True, slots=True)
class SenderRow:
    """What the sender's side of a channel says after a batch."""

    # The columns of the ledger.
    batch_id: int
    sender: int
    receiver: int
    written: int
    released: int
    sent: int
    credit: int
    backlog: int
    pool_used: int
    pool_size: int
    rows: int
    is_local: bool  # Both ends on one task manager: no credit
    # Messages sent, credits announced as heard (0 of a local channel) and records ever routed, as
    # the state has them.
    state: tuple[int, int, int]
    buffers: int  # Buffers of the pool that the channel uses: queued, and lent to a local receiver
    # 1: its last buffer is full, which shows when something is added or flushed. It is released,
    # but not in the backlog. -1: a buffer has nothing left to send, which is in the backlog, but no
    # message. Behind a barrier that blocks: all that is released.
    unseen: int
    # Records that end in each message sent in the batch. Backlogs announced by themselves have -1
    # there, and are left out.
    messages: tuple[int, ...]
    # Buffers that the pool may hold above its size; None where the row carries no state of the task
    # (only one row of each task needs to).
    overdraft: int | None
    is_gone: bool = False  # The task was not deployed: it had failed, or was about to begin anew
    trip: int = 1  # Batches that a message of the channel takes, and what is told in return
    # A connection sends its messages behind a batch: they are in the next one's row.
    has_turn: bool = False
    # Other jobs may take buffers from its pool, which gives them back by and by.
    may_shrink: bool = False

    @property
    def task(self) -> int:
        """Subtask that wrote the row."""
        return self.sender

    def __str__(self) -> str:
        """Return its figures in one line."""
        return (
            f"sender   batch {self.batch_id}: written {self.written}, released {self.released}, "
            f"sent {self.sent}, credit {self.credit}, backlog {self.backlog}, "
            f"pool {self.pool_used} of {self.pool_size}, rows {self.rows}"
        )


@dataclass(frozen=True, slots=True)
class ReceiverRow:
    """What the receiver's side of a channel says after a batch."""

    # The columns of the ledger, and ``rows``.
    batch_id: int
    sender: int
    receiver: int
    announced: int
    consumed: int
    exclusive: int
    floating_held: int
    pool_used: int
    pool_size: int
    rows: int
    is_local: bool  # Both ends on one task manager
    # Announced, consumed, exclusive and records ever taken up, as the state has them.
    state: tuple[int, int, int, int]
    waiting: int = 0  # Records that are queued or in the buffer that is being read
    is_gone: bool = False  # The task was not deployed
    trip: int = 1  # Batches that a message of the channel takes, and what is told in return
    # Other jobs may take buffers from its pool, which gives them back by and by.
    may_shrink: bool = False

    @property
    def task(self) -> int:
        """Subtask that wrote the row."""
        return self.receiver

    def __str__(self) -> str:
        """Return its figures in one line."""
        return (
            f"receiver batch {self.batch_id}: announced {self.announced}, consumed "
            f"{self.consumed}, exclusive {self.exclusive}, floating_held {self.floating_held}, "
            f"pool {self.pool_used} of {self.pool_size}, rows {self.rows}"
        )


def read_row(raw: Raw) -> SenderRow | ReceiverRow:
    """Read one row of a ledger.

    ``raw``: values by column.

    Raises MalformedRowError if a column of the row's side is null, negative or no integer, a column
    of the other side is not null, or the state does not hold what it has to.
    """
    side = raw["side"]
    if side not in SIDES:
        raise MalformedRowError(f"side is {side!r}, must be sender or receiver")
    figures = {name: _figure(raw, name) for name in (*COMMON, *OWNED[side])}
    del figures["bytes"]
    for name in OWNED["receiver" if side == "sender" else "sender"]:
        if raw[name] is not None:
            raise MalformedRowError(f"{name} is {raw[name]!r}, must be null: the other side's")
    try:
        if side == "sender":
            return _sender_row(figures, raw)
        return _receiver_row(figures, raw)
    except (ValueError, TypeError, KeyError, IndexError, AttributeError) as error:
        text = f"state cannot be read ({type(error).__name__}: {error})"
        raise MalformedRowError(text) from error


def is_without_credits(raw: Raw) -> bool:
    """Tell whether a receiver's row is of a channel without credits; its state says so."""
    try:
        state = json.loads(raw["channel_state"])
        return "grant" in state.get("shown", state)
    except (ValueError, TypeError, KeyError):
        return False  # which is a fault of the row


def is_spilled(raw: Raw) -> bool:
    """Tell whether a sender's row is of a channel of a partition on disk; its state says so."""
    try:
        return "is_spilled" in json.loads(raw["channel_state"]).get("shown", {})
    except (ValueError, TypeError, KeyError):
        return False  # which is a fault of the row


def _figure(raw: Raw, name: str) -> int:
    value = raw[name]
    if not isinstance(value, int) or isinstance(value, bool):
        raise MalformedRowError(f"{name} is {value!r}, must be an integer")
    if value < 0 and name != MAY_BE_NEGATIVE:
        raise MalformedRowError(f"{name} is {value}, must not be negative")
    return value


def _sender_row(figures: dict[str, int], raw: Raw) -> SenderRow:
    state = json.loads(raw["channel_state"])
    shown: dict[str, Any] | None = state.get("shown")
    if shown is not None:
        sent, announced, routed = map(int, shown.pop("state"))
        messages = tuple(map(int, shown.pop("messages")))
        read: dict[str, Any] = {**figures, **shown}
        return SenderRow(state=(sent, announced, routed), messages=messages, **read)
    channel = state["channel"]
    return SenderRow(
        **figures,
        is_local=bool(state["local"]),
        state=(int(channel["sent"]), int(channel["announced"]), int(state["routed"])),
        buffers=int(channel["buffers"]) + sum(state["held"]),
        unseen=unseen_messages(Subpartition(**channel), figures["pool_size"]),
        messages=tuple(
            int(one["records"]) for one in state["messages"] if one["kind"] <= SPANNING_DATA
        ),
        overdraft=_overdraft(raw["task_state"], figures["pool_size"]),
        is_gone=state.get("gone", 0) == 1,
        trip=int(state.get("trip", 1)),
        has_turn=False,
        may_shrink=False,
    )


def unseen_messages(channel: Subpartition, pool_size: int) -> int:
    """Return the messages that are released and that a channel does not report."""
    if channel.is_blocked:  # behind a barrier nothing is reported
        return ready_messages(channel)
    shows_tail = channel.is_open or channel.is_flushed or channel.ends_in_event
    has_full_tail = channel.buffers > 0 and not shows_tail
    return int(has_full_tail and pool_size > 0) - int(channel.empty)


def _overdraft(text: str | None, pool_size: int) -> int | None:
    """Return what the task's pool may hold above its size; of equal pools, the most."""
    if text is None:
        return None
    pools = [partition["pool"] for partition in json.loads(text)["partitions"]]
    return max((int(p["max_overdraft"]) for p in pools if p["size"] == pool_size), default=0)


def _receiver_row(figures: dict[str, int], raw: Raw) -> ReceiverRow:
    state = json.loads(raw["channel_state"])
    shown: dict[str, Any] | None = state.get("shown")
    if shown is not None:
        shown.pop("grant", None)
        announced, consumed, exclusive, processed = map(int, shown.pop("state"))
        read: dict[str, Any] = {**figures, **shown}
        return ReceiverRow(state=(announced, consumed, exclusive, processed), **read)
    channel = state["channel"]
    is_local = bool(state["local"])
    announced = channel["arrived" if is_local else "announced"]
    exclusive = max(0, channel["initial"])
    return ReceiverRow(
        **figures,
        is_local=is_local,
        state=(int(announced), int(channel["consumed"]), exclusive, int(channel["processed"])),
        waiting=sum(int(one["records"]) for one in state["queue"]) + int(state.get("reading", 0)),
        is_gone=state.get("gone", 0) == 1,
        trip=int(state.get("trip", 1)),
        may_shrink=False,
    )
