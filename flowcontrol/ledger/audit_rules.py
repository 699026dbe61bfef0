"""Invariants of the ledger of a lock-step link, as a table of claims.

Each invariant is declared once, as two figures and their comparison.
In lock-step a side acts in a batch on what the other side did in the batch before, or as many
batches ago as the channel's messages take, so a claim across the sides compares the *same* batch of
its own side with that one of the other (``seen``). How credits come about is not checked here, only
what must hold in any case.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from flowcontrol.protocol.network.subpartition_rules import ready_messages
from flowcontrol.state.network import Subpartition
from flowcontrol.state.queues import SPANNING_DATA

# --- Rows of a link's ledger as typed values for the audit.
#
# Only this module of the audit knows the JSON of a row's state: its part ``shown``. Rows of earlier
# versions have the figures in other places. Claims about the figures are in :mod:`.audit_rules`.


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


@dataclass(frozen=True, slots=True)
class SenderStep:
    """A batch of a sender's side of a channel, with its inputs.

    The start is that of the attempt: a task that restarts begins with the messages, and with the
    records that its checkpoint counts.
    """

    # After this batch, and after the one before (before the first: nothing was done).
    now: SenderRow
    before: SenderRow
    # The receiver's after the batch that the sender has heard of, the one before or an earlier one
    # (before the first: its initial credit).
    seen: ReceiverRow
    task: Sequence[SenderRow]  # Rows of all channels of the sending subtask in this batch
    overdraft: int  # Buffers that its pool may hold above its size
    routed: int  # Records that the task has given to the channel since the start
    carried: int  # Records that end in the messages sent since the start


@dataclass(frozen=True, slots=True)
class ReceiverStep:
    """A batch of a receiver's side of a channel, with its inputs."""

    # After this batch, and after the one before (before the first: its initial credit).
    now: ReceiverRow
    before: ReceiverRow
    # The sender's after the batch of which the messages have come, the one before or an earlier one
    # (before the first: nothing was done).
    seen: SenderRow
    # Rows of all channels of the receiving subtask's gate in this batch.
    task: Sequence[ReceiverRow]
    routed: int  # Records that the sender had given to the channel up to that batch
    taken: int  # Records that the receiver has taken up since the start
    # Records that end in the first 0, 1, 2 ... messages that the sender had sent.
    carried: Sequence[int]

    def records_of(self, messages: int) -> int:
        """Records that end in the channel's first messages, as far as they had been sent."""
        return self.carried[min(messages, self.seen.sent, len(self.carried) - 1)]

    @property
    def restored(self) -> int:
        """Records in flight when the attempt began that were not taken up before the batch."""
        return max(0, self.carried[0] - (self.taken - self.now.rows))


Step = TypeVar("Step", SenderStep, ReceiverStep)


@dataclass(frozen=True)
class Claim(Generic[Step]):
    """One invariant: ``left <= right``, or ``left == right``, where it applies."""

    name: str  # Stable; what a violation is called
    text: str  # The claim in words, with ``<=`` or ``==`` between its two sides
    # Returns the figures of a step that are compared: what was found and its limit.
    sides: Callable[[Step], tuple[Any, Any]]
    # Whether the claim is made of a step at all.
    applies: Callable[[Step], bool] = lambda step: True

    def broken(self, step: Step) -> str | None:
        """Return the figures if the claim does not hold, else None."""
        if not self.applies(step):
            return None
        left, right = self.sides(step)
        is_equality = "==" in self.text
        if left == right if is_equality else left <= right:
            return None
        return f"{self.text}, but {left} {'!=' if is_equality else '>'} {right}"


def _is_local(step: SenderStep | ReceiverStep) -> bool:
    return step.now.is_local


def _is_remote(step: SenderStep | ReceiverStep) -> bool:
    return not step.now.is_local


def _most(now: SenderRow | ReceiverRow, before: SenderRow | ReceiverRow, overdraft: int = 0) -> int:
    """Return how much of a pool may be in use."""
    most = now.pool_size + overdraft
    return max(most, before.pool_used) if now.may_shrink else most


# fmt: off
SENDER_CLAIMS: tuple[Claim[SenderStep], ...] = (
    Claim("written_grows", "written a batch ago <= written",
          lambda s: (s.before.written, s.now.written)),
    Claim("released_grows", "released a batch ago <= released",
          lambda s: (s.before.released, s.now.released)),
    Claim("sent_grows", "sent a batch ago <= sent", lambda s: (s.before.sent, s.now.sent)),
    Claim("released_within_written", "released <= written",
          lambda s: (s.now.released, s.now.written)),
    Claim("sent_within_released", "sent <= released", lambda s: (s.now.sent, s.now.released)),
    Claim("backlog", "sent + backlog + a full last buffer that nobody has seen == released",
          lambda s: (s.now.sent + s.now.backlog + s.now.unseen, s.now.released)),
    Claim("sent_within_announced", "sent <= announced as the sender saw it",
          lambda s: (s.now.sent, s.seen.announced), _is_remote),
    Claim("credit_not_negative", "0 <= credit", lambda s: (0, s.now.credit)),
    Claim("credit", "sent + credit == announced as the sender saw it",
          lambda s: (s.now.sent + s.now.credit, s.seen.announced), _is_remote),
    Claim("local_credit", "credit of a local channel == 0", lambda s: (s.now.credit, 0), _is_local),
    Claim("local_handed_over",
          "messages a local receiver was handed and has not returned <= size + overdraft of the"
          " sender's pool",
          lambda s: (s.now.sent - s.seen.consumed, _most(s.now, s.before, s.overdraft)), _is_local),
    Claim("sent_messages", "sent a batch ago + messages of the batch == sent",
          lambda s: (s.before.sent + len(s.now.messages), s.now.sent)),
    Claim("sent_rows_were_routed",
          "records that end in the messages sent <= records routed to the channel",
          lambda s: (s.carried, s.routed)),
    Claim("output_pool_limit", "pool_used of a result partition <= pool_size + overdraft",
          lambda s: (s.now.pool_used, _most(s.now, s.before, s.overdraft))),
    Claim("output_pool_is_its_channels",
          "pool_used of a result partition == buffers that its channels queue or lend",
          lambda s: (s.now.pool_used, sum(row.buffers for row in s.task))),
    Claim("output_pool_size", "pool_size == pool_size in the rows of the task's other channels",
          lambda s: (s.now.pool_size, s.task[0].pool_size)),
    Claim("sender_state", "sent, announced and rows of the state == those of the columns",
          lambda s: (s.now.state, (s.now.sent, 0 if s.now.is_local else s.seen.announced,
            s.routed))),
)

RECEIVER_CLAIMS: tuple[Claim[ReceiverStep], ...] = (
    Claim("announced_grows", "announced a batch ago <= announced",
          lambda s: (s.before.announced, s.now.announced)),
    Claim("consumed_grows", "consumed a batch ago <= consumed",
          lambda s: (s.before.consumed, s.now.consumed)),
    Claim("consumed_within_sent", "consumed <= sent as the receiver saw it",
          lambda s: (s.now.consumed, s.seen.sent)),
    Claim("exclusive_constant", "exclusive == exclusive a batch ago",
          lambda s: (s.now.exclusive, s.before.exclusive)),
    Claim("local_buffers", "exclusive and floating_held of a local channel == 0",
          lambda s: ((s.now.exclusive, s.now.floating_held), (0, 0)), _is_local),
    Claim("local_announced",
          "announced of a local channel == messages handed over as the receiver saw it",
          lambda s: (s.now.announced, s.seen.sent), _is_local),
    Claim("credit_is_backed", "announced - consumed <= exclusive + floating_held",
          lambda s: (s.now.announced - s.now.consumed, s.now.exclusive + s.now.floating_held),
          _is_remote),
    Claim("window", "messages that a batch found <= exclusive + pool_size of the gate",
          lambda s: (s.seen.sent - s.before.consumed, s.now.exclusive + _most(s.now, s.before)),
          _is_remote),
    Claim("floating_is_the_pools", "floating_held of all channels of a gate == pool_used",
          lambda s: (sum(row.floating_held for row in s.task), s.now.pool_used)),
    Claim("floating_pool_limit", "floating_held of all channels of a gate <= pool_size",
          lambda s: (sum(row.floating_held for row in s.task), _most(s.now, s.before))),
    Claim("floating_pool_size", "pool_size == pool_size in the rows of the gate's other channels",
          lambda s: (s.now.pool_size, s.task[0].pool_size)),
    Claim("rows_conserved", "records taken up <= records that the sender had routed",
          lambda s: (s.taken, s.routed)),
    Claim("batch_rows",
          "records taken up in a batch <= records of the messages that it found, or restored",
          lambda s: (s.now.rows,
            s.records_of(s.seen.sent) - s.records_of(s.before.consumed) + s.restored)),
    Claim("taken_within_read",
          "records taken up <= records of the messages consumed and of the one being read",
          lambda s: (s.taken, s.records_of(s.now.consumed + 1))),
    Claim("consumed_were_taken", "records of the messages consumed <= records taken up",
          lambda s: (s.records_of(s.now.consumed), s.taken), lambda s: s.now.consumed > 0),
    Claim("receiver_state",
          "announced, consumed, exclusive and rows of the state == those of the columns",
          lambda s: (s.now.state, (s.now.announced, s.now.consumed, s.now.exclusive, s.taken))),
)
# fmt: on

STRUCTURE: dict[str, str] = {
    "row": "a side fills its own columns with figures, and only those; its state can be read",
    "one_row": "each channel has exactly one row per side and batch",
    "gap_free": "batches of a side run from 0 without a gap",
    "lock_step": "a side runs a batch once the other side has run the one of which it is to hear",
    "exchange": "every record routed and not processed for good is in the exchange log",
}
"""What must hold of the table itself, before figures are compared."""

INVARIANTS: dict[str, str] = {
    **STRUCTURE,
    **{claim.name: claim.text for claim in SENDER_CLAIMS},
    **{claim.name: claim.text for claim in RECEIVER_CLAIMS},
}
"""Every invariant that a violation may name, with what it claims, in the order of looking."""
