"""Audit a ledger: find the first violation of an invariant.

The audit knows only the invariants of the cursors; it shares no code with the rules that move them.
See :data:`flowcontrol.ledger.audit_rules.INVARIANTS` for all of them.
"""

from __future__ import annotations

import json
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, chain, pairwise
from pathlib import Path
from typing import Any, Generic, NamedTuple, TypeVar

import pyarrow as pa

from flowcontrol.errors import LedgerError
from flowcontrol.ledger.audit_rules import (
    RECEIVER_CLAIMS,
    SENDER_CLAIMS,
    SIDES,
    STRUCTURE,
    MalformedRowError,
    ReceiverRow,
    ReceiverStep,
    SenderRow,
    SenderStep,
    is_spilled,
    is_without_credits,
    read_row,
)
from flowcontrol.ledger.exchange import ExchangeView
from flowcontrol.ledger.ledger import read_history
from flowcontrol.records import LEDGER

# --- A link's whole ledger in memory: rows by side, batch and channel, and running totals.


AnyRow = TypeVar("AnyRow", SenderRow, ReceiverRow)
Channel = tuple[int, int]

UNKNOWN = -1
"""Batch, sender or receiver of a row that does not say."""


class Fault(NamedTuple):
    """What is wrong with the rows themselves, and where."""

    batch_id: int
    sender: int
    receiver: int
    invariant: str
    text: str

    @property
    def order(self) -> tuple[int, int, int, int]:
        """By place; at one place in the order of the table of invariants."""
        return (*self[:3], list(STRUCTURE).index(self.invariant))


class _Side(Generic[AnyRow]):
    """One side's rows, by batch and channel."""

    def __init__(self) -> None:
        self.batches: dict[int, dict[Channel, AnyRow]] = {}
        self._tasks: dict[tuple[int, int], list[AnyRow]] = {}

    @property
    def last(self) -> int:
        return max(self.batches, default=-1)

    def add(self, row: AnyRow) -> bool:
        """Take a row; False if the batch has one of the channel."""
        rows = self.batches.setdefault(row.batch_id, {})
        return rows.setdefault((row.sender, row.receiver), row) is row

    def row(self, batch: int, channel: Channel) -> AnyRow | None:
        return self.batches.get(batch, {}).get(channel)

    def of_channel(self, channel: Channel) -> Iterator[AnyRow]:
        """Yield a channel's rows in the order of batches."""
        for batch in sorted(self.batches):
            if channel in self.batches[batch]:
                yield self.batches[batch][channel]

    def of_task(self, row: AnyRow) -> list[AnyRow]:
        """Return the rows of all channels of the subtask that wrote a row, in order."""
        if (row.batch_id, row.task) not in self._tasks:
            for _, other in sorted(self.batches[row.batch_id].items()):
                self._tasks.setdefault((other.batch_id, other.task), []).append(other)
        return self._tasks[row.batch_id, row.task]


class LinkHistory:
    """The whole ledger of a link.

    - ``rows``: rows of the ledger, in any order.
    - ``channels``: sender and receiver of each channel, in order.
    - ``fault``: the first thing that is wrong with the rows themselves. Steps exist of the batches
      before it only.
    """

    def __init__(self, rows: Iterable[Mapping[str, Any]]) -> None:
        self.senders: _Side[SenderRow] = _Side()
        self.receivers: _Side[ReceiverRow] = _Side()
        faults = [fault for raw in rows if (fault := self._add(raw)) is not None]
        first = [*self.senders.batches.get(0, ()), *self.receivers.batches.get(0, ())]
        self.channels: list[Channel] = sorted(set(first))
        self.last_batch = max(self.senders.last, self.receivers.last)
        for side, own in (("sender", self.senders), ("receiver", self.receivers)):
            faults += self._missing(side, own.batches, own.last)
        faults += [*self._ahead(), *self._stateless()]
        self.fault = min(faults, key=lambda fault: fault.order, default=None)
        self._attempts = {channel: self._attempts_of(channel) for channel in self.channels}

    def _add(self, raw: Mapping[str, Any]) -> Fault | None:
        try:
            row = read_row(raw)
        except MalformedRowError as error:
            return Fault(*_place(raw), "row", f"the {raw['side']}'s row is malformed: {error}")
        is_new = self.senders.add(row) if isinstance(row, SenderRow) else self.receivers.add(row)
        if is_new:
            return None
        text = f"the {raw['side']} has more than one row of the channel, must be one"
        return Fault(row.batch_id, row.sender, row.receiver, "one_row", text)

    def _missing(
        self, side: str, batches: Mapping[int, Mapping[Channel, object]], last: int
    ) -> Iterator[Fault]:
        """Yield batches without rows, and channels without a row or unknown in the first one."""
        for batch in range(last + 1):
            rows = batches.get(batch)
            if rows is None:
                text = f"the {side} has no rows of batch {batch}, but of batches up to {last}"
                yield Fault(batch, *self._first_channel, "gap_free", text)
                continue
            for channel in self.channels:
                if channel not in rows:
                    text = f"the {side} has no row of the channel, must be one"
                    yield Fault(batch, *channel, "one_row", text)
            for channel in set(rows) - set(self.channels):
                text = f"the {side} has a row of a channel that batch 0 does not know"
                yield Fault(batch, *channel, "one_row", text)

    def _ahead(self) -> Iterator[Fault]:
        """Yield the first batch that a side ran without what it was to see of the other's."""
        lasts = {"sender": self.senders.last, "receiver": self.receivers.last}
        trip = min(map(self._trip, self.channels), default=1)
        for side, other in (SIDES, SIDES[::-1]):
            batch = lasts[other] + trip + 1
            if lasts[side] >= batch:
                text = f"the {side} ran batch {batch}, the {other}'s last one is {lasts[other]}"
                yield Fault(batch, *self._first_channel, "lock_step", text)

    def _stateless(self) -> Iterator[Fault]:
        """Yield sending tasks of which no row carries the state."""
        for batch, rows in self.senders.batches.items():
            told = {row.task for row in rows.values() if row.overdraft is not None}
            for channel, row in rows.items():
                if row.task not in told:
                    text = "no row of the sender carries the state of its task, one must"
                    yield Fault(batch, *channel, "row", text)

    def _trip(self, channel: Channel) -> int:
        """Return the batches that a message of a channel takes, as either side says."""
        row = self.senders.row(0, channel) or self.receivers.row(0, channel)
        return 1 if row is None else row.trip

    @property
    def _first_channel(self) -> Channel:
        """The channel by which something is named that concerns all of them."""
        return self.channels[0] if self.channels else (UNKNOWN, UNKNOWN)

    # ------------------------------------------------------------------ steps

    def _attempts_of(self, channel: Channel) -> list[_Attempt]:
        """Return the attempts of a channel's ends, which begin together."""
        sent = list(self.senders.of_channel(channel))
        received = list(self.receivers.of_channel(channel))
        begins = {0, *_begins(sent), *_begins(received)}
        ends = [*sorted(begins), self.last_batch + 1]
        return [
            _Attempt(begin, sent[begin:end], received[begin:end]) for begin, end in pairwise(ends)
        ]

    def _attempt(self, batch: int, channel: Channel) -> _Attempt:
        found = self._attempts[channel]
        return found[bisect_right(found, batch, key=lambda one: one.begin) - 1]

    def sender_step(self, batch: int, channel: Channel) -> SenderStep | None:
        """Return what a sender did in a batch; None if it has no row of it, or was gone."""
        now = self.senders.row(batch, channel)
        if now is None or now.is_gone:
            return None
        attempt = self._attempt(batch, channel)
        before = self.senders.row(attempt.before(batch), channel) or replace(
            _NOTHING_SENT, sender=now.sender, receiver=now.receiver
        )
        heard = attempt.before(batch, now.trip)
        seen = self.receivers.row(heard, channel) or self._initial(channel)
        if seen is None:  # the receiver's first batch is not there yet: take the sender's word
            seen = _nothing_received(channel, now.state[1])
        task = self.senders.of_task(now)
        overdraft = max((row.overdraft for row in task if row.overdraft is not None), default=0)
        return SenderStep(
            now=now,
            before=before,
            seen=seen,
            task=task,
            overdraft=overdraft,
            routed=attempt.routed[batch + 1 - attempt.begin],
            carried=attempt.carried[min(now.sent, len(attempt.carried) - 1)],
        )

    def receiver_step(self, batch: int, channel: Channel) -> ReceiverStep | None:
        """Return what a receiver did in a batch; None if it has no row of it, or was gone."""
        now = self.receivers.row(batch, channel)
        if now is None or now.is_gone:
            return None
        initial = _nothing_received(channel, now.exclusive)
        attempt = self._attempt(batch, channel)
        sent = self.senders.row(batch, channel)
        first = self.senders.row(0, channel)
        # What a connection has sent behind the batch that is heard of stands in the next one's row.
        late = first is not None and first.has_turn
        if late and sent is None:
            return None
        heard = attempt.before(batch, now.trip - late)
        return ReceiverStep(
            now=now,
            before=self.receivers.row(attempt.before(batch), channel) or initial,
            seen=self.senders.row(heard, channel) or _NOTHING_SENT,
            task=self.receivers.of_task(now),
            routed=attempt.routed[max(0, batch + 1 - now.trip - attempt.begin)],
            taken=attempt.taken[batch + 1 - attempt.begin],
            carried=attempt.carried,
        )

    def _initial(self, channel: Channel) -> ReceiverRow | None:
        first = self.receivers.row(0, channel)
        return None if first is None else _nothing_received(channel, first.exclusive)

    def taken_up(self, channel: Channel) -> tuple[int, int]:
        """Return the records of a channel taken up, and those routed, as of the last batches.

        By their numbers on the channel: a source that cannot rewind has routed more.
        """
        last = self._attempts[channel][-1]
        return last.taken[-1], last.carried[0] + last.routed[-1] - last.routed[0]

    def transitions(self, batch: int, channel: Channel, count: int) -> list[str]:
        """Return the last rows of a channel up to a batch, both sides', as text."""
        found: list[str] = []
        for number in range(max(0, batch - count + 1), batch + 1):
            rows: Sequence[object] = (
                self.senders.row(number, channel),
                self.receivers.row(number, channel),
            )
            found += [str(row) for row in rows if row is not None]
        return found


class _Attempt:
    """What has gone over one channel in one attempt of its ends.

    - ``begin``: its first batch.
    - ``routed``, ``taken``: records by the begin, and by the end of each batch; as their counts
      stand, which may go back where an attempt begins.
    - ``carried``: number of the record behind the last one that ends in the first 0, 1, 2 ...
      messages.
    """

    def __init__(
        self, begin: int, sent: Sequence[SenderRow], received: Sequence[ReceiverRow]
    ) -> None:
        self.begin = begin
        routed = taken = written = 0
        if begin > 0 and sent and received:
            routed = sent[0].state[2] - sent[0].rows
            taken = received[0].state[3] - received[0].rows
            written = received[0].state[3] + received[0].waiting  # nothing has arrived yet
        self.routed = list(accumulate((row.rows for row in sent), initial=routed))
        self.taken = list(accumulate((row.rows for row in received), initial=taken))
        messages = chain.from_iterable(row.messages for row in sent)
        self.carried = list(accumulate(messages, initial=written))

    def before(self, batch: int, by: int = 1) -> int:
        """Return the batch so many before one; at the begin nothing is known of it."""
        return batch - by if batch - by >= self.begin else UNKNOWN


def _begins(rows: Sequence[AnyRow]) -> Iterator[int]:
    """Yield the batches in which a task is deployed that was gone in the one before."""
    for before, row in pairwise(rows):
        if before.is_gone and not row.is_gone:
            yield row.batch_id


def _place(raw: Mapping[str, Any]) -> tuple[int, int, int]:
    found = (raw["batch_id"], raw["sender"], raw["receiver"])
    batch, sender, receiver = (v if isinstance(v, int) else UNKNOWN for v in found)
    return batch, sender, receiver


_NOTHING_SENT = SenderRow(-1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, False, (0, 0, 0), 0, 0, (), None)


def _nothing_received(channel: Channel, credit: int) -> ReceiverRow:
    """Return a receiver's row before its first batch: only the initial credit is announced."""
    return ReceiverRow(-1, *channel, credit, 0, credit, 0, 0, 0, 0, False, (credit, 0, credit, 0))


TRANSITIONS = 3
"""Batches of a channel that a violation shows, the one of the violation included."""


@dataclass(frozen=True)
class Violation:
    """The first invariant that does not hold.

    Attributes
    ----------
    invariant : str
        Its name, a key of :data:`~flowcontrol.ledger.audit_rules.INVARIANTS`.
    batch_id, sender, receiver : int
        Batch and channel; -1 where the row itself does not say. What is claimed of a whole
        gate or partition is named with its first channel.
    message : str
        The claim, what was found and its limit, and the last transitions of the channel.
    edge : str, default ""
        Name of the edge, if a whole run was audited.
    """

    invariant: str
    batch_id: int
    sender: int
    receiver: int
    message: str
    edge: str = ""

    def __str__(self) -> str:
        """Return everything, the place first."""
        edge = f"{self.edge} " if self.edge else ""
        channel = f"{edge}{self.sender}->{self.receiver}"
        return f"{self.invariant}: batch {self.batch_id}, channel {channel}: {self.message}"


def audit(ledger: Path | str | pa.Table, exchange: Path | str | None = None) -> Violation | None:
    """Return the first violation of any invariant in the ledgers of a run.

    Parameters
    ----------
    ledger : Path, str or pyarrow.Table
        The folder of a live run, all of whose links are audited; or the Delta table of one link's
        ledger, or its rows in any order with the columns of :data:`flowcontrol.records.LEDGER`.
    exchange : Path or str, optional
        The link's exchange log; then it is checked as well that every record that was routed
        and not yet processed is in it.

    Returns
    -------
    Violation or None
        The first one by batch, then sender, then receiver; the sender's side before the
        receiver's. None if there is none, as in an empty ledger.

    Raises
    ------
    LedgerError
        If there is no ledger, the table has not its columns, or it is that of a transport without
        credits, or of a partition on disk.

    Notes
    -----
    The invariants are those of Flink's credits. Other transports have none; under most of them,
    such as ``blocking_queue``, a cursor counts records, and there are no buffers to look at.

    A batch with a malformed, missing or doubled row is not looked into: that row is the
    violation. A side may be a batch ahead of the other, as a killed run leaves it.

    Examples
    --------
    >>> from flowcontrol import audit
    >>> found = audit("out/experiment-live")  # doctest: +SKIP
    >>> assert found is None, found  # doctest: +SKIP
    """
    if not isinstance(ledger, pa.Table) and (Path(ledger) / "links").is_dir():
        return audit_run(ledger)
    table = ledger if isinstance(ledger, pa.Table) else read_history(Path(ledger))
    lacking = [name for name in LEDGER.names if name not in table.column_names]
    if lacking:
        raise LedgerError(f"the table is not a ledger: it has no column {', '.join(lacking)}")
    rows = table.to_pylist()
    received = next((row for row in rows if row["side"] == "receiver"), None)
    if received is not None and is_without_credits(received):
        where = "the table" if isinstance(ledger, pa.Table) else str(ledger)
        raise LedgerError(
            f"{where} is the ledger of a transport without credits: audit knows the invariants of "
            "Flink's credits, so give it a run with system.transport: credit"
        )
    sent = next((row for row in rows if row["side"] == "sender"), None)
    if sent is not None and is_spilled(sent):
        where = "the table" if isinstance(ledger, pa.Table) else str(ledger)
        raise LedgerError(
            f"{where} is the ledger of a result partition on disk, whose buffers are not those of "
            "its channels: give it a run with partition_type: pipelined_bounded or pipelined"
        )
    link = LinkHistory(rows)
    end = link.last_batch + 1 if link.fault is None else link.fault.batch_id
    for batch in range(end):
        for channel in link.channels:
            found = _broken(link, batch, channel)
            if found is not None:
                return _violation(link, *found, batch, channel)
    if link.fault is not None:
        fault = link.fault
        channel = (fault.sender, fault.receiver)
        return _violation(link, fault.invariant, fault.text, fault.batch_id, channel)
    return None if exchange is None else _check_exchange(link, Path(exchange))


def audit_run(folder: Path | str) -> Violation | None:
    """Audit every link of a run's folder.

    ``folder``: what ``--out`` named.

    Returns the first violation of the first link, by the links' folders, that has one; ``edge``
    names the link. Raises LedgerError if the folder holds no links.
    """
    links = sorted(Path(folder).glob("links/*/ledger"))
    if not links:
        raise LedgerError(f"{folder} holds no links/*/ledger: not the folder of a live run")
    names = _edge_names(Path(folder) / "run.json")
    for ledger in links:
        exchange = ledger.with_name("exchange")
        found = audit(ledger, exchange if exchange.exists() else None)
        if found is not None:
            return replace(found, edge=names.get(ledger.parent.name, ledger.parent.name))
    return None


def _edge_names(run_file: Path) -> Mapping[str, str]:
    """Names of the edges by their folders, as far as the run says (``a-b`` may be either)."""
    try:
        edges = json.loads(run_file.read_text())["scenario"]["edges"]
        return {f"{e['from']}-{e['to']}": f"{e['from']}->{e['to']}" for e in edges}
    except (OSError, ValueError, KeyError, TypeError):
        return {}


def _broken(link: LinkHistory, batch: int, channel: tuple[int, int]) -> tuple[str, str] | None:
    """Name and text of the first claim that a batch of a channel breaks."""
    sent = link.sender_step(batch, channel)
    if sent is not None:
        for claim in SENDER_CLAIMS:
            if text := claim.broken(sent):
                return claim.name, text
    received = link.receiver_step(batch, channel)
    if received is not None:
        for claim_made in RECEIVER_CLAIMS:
            if text := claim_made.broken(received):
                return claim_made.name, text
    return None


def _check_exchange(link: LinkHistory, path: Path) -> Violation | None:
    """Check that every record in flight is in the exchange log."""
    view = ExchangeView(path)
    view.refresh()
    for channel in link.channels:
        taken, routed = link.taken_up(channel)
        try:
            spans = view.locate(channel[0], channel[1], taken, routed - taken)
        except LedgerError as error:
            return _violation(link, "exchange", str(error), link.last_batch, channel)
        for span in spans:
            if not Path(span.path).exists():
                text = f"{span.path} is named in the log, but is not there"
                return _violation(link, "exchange", text, link.last_batch, channel)
    return None


def _violation(
    link: LinkHistory, invariant: str, text: str, batch: int, channel: tuple[int, int]
) -> Violation:
    last = "\n  ".join(link.transitions(batch, channel, TRANSITIONS))
    message = f"{text}\n  {last}" if last else text
    return Violation(invariant, batch, *channel, message)
