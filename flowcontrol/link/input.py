"""The receiving end of a link's channels: what is read of each, and the gate's buffers for it."""

import json
import logging
from collections.abc import Container, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from flowcontrol.errors import LinkError
from flowcontrol.ledger.link_index import ChannelLog
from flowcontrol.ledger.link_log import LinkLog
from flowcontrol.ledger.storage import Storage
from flowcontrol.link.event_time import EventTimes, ahead_of_others, now_ms, progress_of
from flowcontrol.link.members import Pace, Sender, resized
from flowcontrol.link.settings import LinkSettings
from flowcontrol.protocol.network.credit_rules import unsent
from flowcontrol.protocol.network.free_running import LinkGate

# --- Where a new receiver begins to read, and how the rows before that are reported.
#
# A receiver registers in the ledger first, and decides from what it reads after that. A sender
# trims only what it has announced in a commit before, and what all receivers have consumed that it
# knows of after that commit. Either the registration came first, and the sender knows of it; or the
# announcement did, and the receiver begins behind it.


_log = logging.getLogger("flowcontrol.link")


def oldest(log: LinkLog, sender: Sender, channel: int) -> tuple[int, int]:
    """Return the oldest message that stays, and the number of its first record."""
    own = log.channel(sender.number, channel)
    first = max(own.first, sender.trimmed[channel])
    return first, own.start if first == own.first else own.message(first - 1).end


def oldest_of(
    log: LinkLog, senders: Sequence[Sender], channels: Sequence[int]
) -> dict[str, list[int]]:
    """Return the oldest record that stays of each of some channels, by the sender's index."""
    return {
        str(sender.number): [oldest(log, sender, channel)[1] for channel in channels]
        for sender in senders
    }


def written_of(
    log: LinkLog, senders: Sequence[Sender], channels: Sequence[int]
) -> dict[str, list[int]]:
    """Return the records written to each of some channels, by the sender's index."""
    return {
        str(sender.number): [log.channel(sender.number, channel).records for channel in channels]
        for sender in senders
    }


def skipped_rows(begin: Mapping[str, Sequence[int]], had: Mapping[str, Sequence[int]]) -> int:
    """Return how many rows lie between where a receiver was, by default the start, and begins."""
    return sum(
        max(0, record - before)
        for sender, own in begin.items()
        for record, before in zip(own, had.get(sender, [0] * len(own)), strict=True)
    )


def skipped_text(
    senders: Sequence[Sender],
    channels: Sequence[int],
    begin: Mapping[str, Sequence[int]],
    had: Mapping[str, Sequence[int]],
) -> str:
    """Return how many rows a receiver never reads, by sender; empty if it reads all."""
    found = []
    for sender in senders:
        index = str(sender.number)
        skipped = skipped_rows({index: begin[index]}, had) if index in begin else 0
        written = sum(sender.records[channel] for channel in channels)
        if skipped:
            found.append(f"{skipped} of {written} of sender {sender.name!r}")
    return ", ".join(found)


def check_from_start(storage: Storage, group: str, skipped: str) -> None:
    """Refuse to begin in the middle.

    Raises LinkError: saying how many rows are gone.
    """
    if skipped:
        raise LinkError(
            f"{storage}: receiver {group!r} is to read from the start, but the first rows were "
            f"consumed by all others and are gone: {skipped}. Leave from_start out to begin at "
            "the oldest rows that are there, and take the others from the sink of a receiver "
            "that has them"
        )


def note_beginning(storage: Storage, group: str, skipped: str) -> None:
    """Log where a receiver begins, if that is not the first row."""
    if skipped:
        _log.warning(
            "%s: receiver %r begins in the middle: rows before it were consumed by all others and "
            "are not read: %s",
            storage,
            group,
            skipped,
        )


Cursors = dict[str, list[int]]
"""Records read of each of the receiver's channels, by the sender's index."""

Channel = tuple[int, int]
"""Index of the sender, channel."""

Takes = Mapping[Channel, tuple[int, int]]
"""Rows and bytes of each channel in a batch."""


class LinkInput:
    """A receiver's channels and their gate.

    - ``channels``: those that the receiver reads of each sender, in order.
    - ``numbers``: number in the gate of each channel, in the order in which they were added.
    - ``begin``, ``end``: begin and end of the last batch that was decided.
    - ``origin``: where the receiver began to read each sender's channels.
    - ``times``: the watermark of each channel, of the messages that are consumed.
    - ``paused``: senders that get no credit: they are ahead of the others in event time.
    """

    def __init__(self, settings: LinkSettings, log: LinkLog, channels: list[int]) -> None:
        self._settings, self._log, self.channels = settings, log, channels
        self._gate = LinkGate(settings.exclusive_buffers, settings.floating_buffers)
        self.numbers: dict[Channel, int] = {}
        self.begin: Cursors = {}
        self.end: Cursors = {}
        self.origin: Cursors = {}
        self.times = EventTimes(settings)
        self.paused: frozenset[int] = frozenset()
        self._paused_at: dict[int, int] = {}

    def restore(self, task: Mapping[str, Any], rows: Sequence[Mapping[str, Any]]) -> None:
        """Restore the state in the rows of the last commit."""
        keys = [(row["sender"], row["receiver"]) for row in rows]
        self.numbers = {key: number for number, key in enumerate(keys)}
        found = [json.loads(row["channel_state"]) for row in rows]
        states = [own["gate"] for own in found]
        for key, own_state in zip(keys, found, strict=True):
            self.times.restore(key, own_state.get("time"))
        own = self._settings
        # The pool's size comes first in its state.
        buffers = own.exclusive_buffers, own.bounded(task["gate"]["pool"][0])
        self._gate = LinkGate.restore(*buffers, task["gate"], states)
        self.begin, self.end, self.origin = task["begin"], task["end"], task["origin"]

    def adopt(self, settings: LinkSettings) -> None:
        """Take over the link's settings as they are now."""
        self._settings = settings
        self.times.adopt(settings)
        wanted = settings.exclusive_buffers, settings.bounded(self._gate.floating)
        if wanted != (self._gate.exclusive, self._gate.floating):
            self._gate.resize(*wanted)

    def widen(self, channels: int) -> None:
        """Read more channels of each sender, from their first message on."""
        more = range(len(self.channels), channels)
        self.channels = [*self.channels, *more]
        for sender in self.end:
            for channel in more:
                self.numbers[int(sender), channel] = self._gate.add_channel()
        self.origin = self.filled(self.origin)
        wide = self.filled(self.begin)
        self.begin = {sender: wide[sender] for sender in self.begin}
        self.end = self.filled(self.end)

    # ------------------------------------------------------------------ where it stands

    def filled(self, cursors: Cursors) -> Cursors:
        """Return cursors with the senders and channels that appeared later, at their origin."""
        width = len(self.channels)
        return {
            sender: [*own, *[0] * (width - len(own))]
            for sender, own in {**self.origin, **cursors}.items()
        }

    def after(self, takes: Takes) -> Cursors:
        """Return the cursors after a batch."""
        return {
            sender: [
                record + takes.get((int(sender), channel), (0, 0))[0]
                for channel, record in zip(self.channels, own, strict=True)
            ]
            for sender, own in self.end.items()
        }

    def consumed(self) -> list[int]:
        """Return the messages that were consumed of each channel."""
        return [self._gate.consumed(number) for number in self.numbers.values()]

    def _position(self, channel: Channel) -> int:
        return self.end[str(channel[0])][self.channels.index(channel[1])]

    # ------------------------------------------------------------------ channels

    def add(self, senders: Iterable[Sender]) -> None:
        """Open the channels of new senders, at the oldest message still in the log."""
        for sender in senders:
            if str(sender.number) in self.end:
                continue
            for channel in self.channels:
                self.numbers[sender.number, channel] = self._gate.add_channel()
            cursors = {str(sender.number): self._skip_to_oldest(sender)}
            self.origin, self.end = {**self.origin, **cursors}, {**self.end, **cursors}

    def resize(self, pace: Pace, released: Mapping[Channel, int]) -> None:
        """Give the gate the floating buffers for a batch that keeps the receiver busy.

        ``released``: messages of each channel that are released: what the gate has no buffer for
        waits.
        """
        settings, gate = self._settings, self._gate
        self.reach(released)
        is_short = any(
            gate.announced(own) < released[key]
            for key, own in self.numbers.items()
            if key[0] not in self.paused
        )
        floating = resized(settings, gate.floating, pace.batch_bytes, is_short=is_short)
        if floating != gate.floating:
            gate.resize(settings.exclusive_buffers, floating)

    def begin_at_oldest(self, senders: Iterable[Sender]) -> Cursors:
        """Skip to the oldest rows that stay, and return where they begin; never back."""
        begin = {sender: list(own) for sender, own in self.filled(self.end).items()}
        for sender in senders:
            own = begin[str(sender.number)]
            found = self._skip_to_oldest(sender)
            begin[str(sender.number)] = [max(both) for both in zip(found, own, strict=True)]
        return begin

    def _skip_to_oldest(self, sender: Sender) -> list[int]:
        records = []
        for channel in self.channels:
            first, record = oldest(self._log, sender, channel)
            self._gate.skip_to(self.numbers[sender.number, channel], first)
            records.append(record)
        return records

    # ------------------------------------------------------------------ credit

    def released(self, senders: Iterable[Sender]) -> dict[Channel, int]:
        """Return the messages of each channel that are released and in the log."""
        return {
            (sender.number, channel): min(
                sender.released[channel], self._log.channel(sender.number, channel).end
            )
            for sender in senders
            for channel in self.channels
        }

    def reach(self, released: Mapping[Channel, int]) -> dict[Channel, int]:
        """Grant credit for what is released; return before which message each channel may be read.

        Messages in which no record ends are consumed at once, as Flink's deserializer copies such
        a buffer out when it polls it (section 1.9 of the reference); else a row larger than all
        of a channel's buffers would never get through.
        """
        self._announce(released)
        while self._consume_begun(released):
            self._announce(released)
        gate = self._gate
        return {
            channel: gate.sent(number)
            if channel[0] in self.paused  # what was sent is still received
            else max(gate.sent(number), min(released[channel], gate.announced(number)))
            for channel, number in self.numbers.items()
        }

    def _announce(self, released: Mapping[Channel, int]) -> None:
        paused = set[int]()
        for channel, number in self.numbers.items():
            if channel[0] in self.paused:
                paused.add(number)
                continue
            backlog = max(0, unsent(released[channel], self._gate.sent(number)))
            self._gate.on_backlog(number, backlog)
        self._gate.announce(paused)

    def _consume_begun(self, released: Mapping[Channel, int]) -> bool:
        """Take and consume messages in which no record ends; whether there were any."""
        before = self.consumed()
        for channel, number in self.numbers.items():
            if channel[0] in self.paused:
                continue
            read = self._log.channel(*channel).holding(self._position(channel))
            most = min(released[channel], self._gate.announced(number))
            self._take(channel, min(read, most), released[channel])
        self.consume()
        return self.consumed() != before

    def consume(self) -> None:
        """Recycle the buffers of what has been read to its end."""
        for channel, number in self.numbers.items():
            read = self._log.channel(*channel).holding(self._position(channel))
            consumed = self._gate.consumed(number)
            done = max(0, min(read, self._gate.sent(number)) - consumed)
            if done and self.times.column is not None:
                latest = self._log.channel(*channel).latest(consumed, consumed + done)
                self.times.note(channel, latest)
            self._gate.consume(number, done)

    def align(self, senders: Iterable[Sender], finished: Container[int] = ()) -> None:
        """Advance the watermarks by what is consumed, and pause who is too far ahead."""
        self.paused = frozenset()
        if self.times.column is None:
            return
        now, known = now_ms(), list(senders)
        released = self.released(known)
        reached: dict[int, list[tuple[int, bool]]] = {sender.number: [] for sender in known}
        for channel in self.numbers:
            read = self._log.channel(*channel).holding(self._position(channel))
            # What is not released does not count: its sender's query may be dead.
            self.times.probe(channel, now, has_rows=read < released[channel])
            own = self.times.of(channel)
            reached[channel[0]].append((own.watermark, own.is_idle == 1))
        found = {
            sender.number: progress_of(
                reached[sender.number], is_finished=sender.is_removed or sender.number in finished
            )
            for sender in known
        }
        self.paused = ahead_of_others(found, self._settings.align_s)
        self._paused_at |= dict.fromkeys(self.paused, now)

    def unread_bytes(self, channel: Channel, reach: int) -> int:
        """Return the bytes of a channel that may be read before a message."""
        return unread_bytes(self._log.channel(*channel), self._position(channel), reach)

    def read(
        self, channel: Channel, reach: int, budget: int, released: int, *, least: int = 0
    ) -> tuple[int, int]:
        """Take rows of a channel within a budget, and a buffer for each message.

        Returns rows and bytes.
        """
        log, position = self._log.channel(*channel), self._position(channel)
        taken = take_rows(log, position, reach, budget, least=least)
        self._take(channel, taken.messages, released)
        return taken.rows, taken.nbytes

    def _take(self, channel: Channel, reach: int, released: int) -> None:
        """Take a buffer for every message before ``reach``."""
        number = self.numbers[channel]
        while (sent := self._gate.sent(number)) < reach:
            if not self._gate.take(number, unsent(released, sent) - 1):
                raise LinkError(f"channel {channel}: no credit for message {sent}")

    # ------------------------------------------------------------------ the ledger

    def task_state(self) -> dict[str, Any]:
        """Return what a restart needs of the gate as a whole."""
        return self._gate.task_state()

    def rows(self, takes: Takes, task: Mapping[str, Any]) -> list[dict[str, Any]]:
        """Return the ledger's row of each channel; the first carries the receiver's state."""
        gate = self._gate
        return [
            {
                "sender": channel[0],
                "receiver": channel[1],
                "announced": gate.announced(number),
                "sent": gate.sent(number),
                "consumed": gate.consumed(number),
                "exclusive": gate.exclusive_held(number),
                "floating_held": gate.floating_held(number),
                "pool_used": gate.pool_used,
                "pool_size": max(gate.floating, gate.pool_used),  # used ones go when they are free
                "rows": takes.get(channel, (0, 0))[0],
                "bytes": takes.get(channel, (0, 0))[1],
                "channel_state": json.dumps(
                    {
                        "gate": gate.channel_state(number),
                        "record": self._position(channel),
                        **self._time(channel),
                    }
                ),
                "task_state": json.dumps(task) if number == 0 else None,
            }
            for channel, number in self.numbers.items()
        ]

    def _time(self, channel: Channel) -> dict[str, Any]:
        if self.times.column is None:
            return {}
        paused_at = self._paused_at.get(channel[0])
        return {"time": {**self.times.channel_state(channel), "paused_at": paused_at}}

    def cursors(self) -> dict[str, dict[int, list[int]]]:
        """Return what senders wait for: by cursor and sender, a number per channel."""
        found: dict[str, dict[int, list[int]]] = {"announced": {}, "sent": {}, "consumed": {}}
        for name, cursors in found.items():
            for (sender, _), number in self.numbers.items():
                cursors.setdefault(sender, []).append(getattr(self._gate, name)(number))
        return found

    def forget(self) -> None:
        """Drop the index of the messages that were consumed."""
        for channel, number in self.numbers.items():
            self._log.channel(*channel).forget(self._gate.consumed(number))


class Taken(NamedTuple):
    """What a batch reads of a channel."""

    rows: int
    nbytes: int
    messages: int  # Number of the message after the last one that it touches


def unread_bytes(log: ChannelLog, position: int, reach: int) -> int:
    """Return the bytes of the rows from a record on that end before a message.

    - ``position``: number of the first record that was not read.
    - ``reach``: number of the message; it is not read.
    """
    first = log.holding(position)
    if first >= reach:
        return 0
    message = log.message(first)
    done = position - message.start
    read = message.weight * done // max(1, message.end - message.start)
    return log.weight(first, reach) - read


def take_rows(log: ChannelLog, position: int, reach: int, budget: int, *, least: int = 0) -> Taken:
    """Return how many rows fit into a budget.

    - ``position``: number of the first record that was not read.
    - ``reach``: number of the message before which the last row must end.
    - ``budget``: most bytes of all rows; what :func:`unread_bytes` says takes all.
    """
    start, left, number = position, budget, log.holding(position)
    touched = min(number, reach)
    while number < reach:
        message = log.message(number)
        rows, done = message.end - message.start, position - message.start
        if rows:
            read, weight = message.weight * done // rows, max(1, message.weight)
            fitting = ((left + read + 1) * rows - 1) // weight - done
            count = min(rows - done, max(least, fitting))
            if count <= 0:
                break
            position += count
            left -= message.weight * (done + count) // rows - read
        number += 1
        touched = number
        if position < message.end:
            break
        least = 0
    return Taken(position - start, budget - left, touched)
