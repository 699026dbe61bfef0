"""Follow a link and compute its figures from the new commits to its ledger and its log.

Needs neither Spark nor a lock: a monitor reads the two Delta logs as the link's members do, and
writes nothing.
"""

import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from flowcontrol.errors import LedgerError
from flowcontrol.ledger.storage import Storage
from flowcontrol.link.members import Receiver, Sender, receivers_of, senders_of
from flowcontrol.link.monitoring.figures import (
    ChannelSnapshot,
    LinkSnapshot,
    ReceiverSnapshot,
    SenderSnapshot,
    made,
)
from flowcontrol.link.monitoring.history import Batches, Key, LedgerHistory, TimedLog, waiting_share
from flowcontrol.link.monitoring.times import (
    NO_TIME,
    NOBODY,
    ChannelTime,
    Cursors,
    member_of,
    receiver_time,
)
from flowcontrol.link.settings import LinkSettings, altered, no_link, read_made

WINDOW_S = 10.0
"""What rates and shares cover, seconds: several micro-batches, and still the present."""


class LinkMonitor:
    """Follows one link.

    - ``label``: short name; by default the last part of the path.
    - ``window_s``: what rates and shares cover, seconds.

    Raises LinkError if there is no link.
    """

    def __init__(
        self, place: str | Path | Storage, label: str = "", window_s: float = WINDOW_S
    ) -> None:
        self.storage = place if isinstance(place, Storage) else Storage(place)
        self.window_s = window_s
        self.label = label or self.storage.root.rpartition("/")[2]
        self._settings = self._read_settings()
        self._open()

    def _open(self) -> None:
        self._ledger = LedgerHistory(self.storage.child("ledger"), self.window_s)
        self._log = TimedLog(self.storage.child("exchange"))

    def _read_settings(self) -> LinkSettings:
        found = read_made(self.storage)
        if found is None:
            raise no_link(self.storage)
        return found

    def snapshot(self, now: float | None = None) -> LinkSnapshot:
        """Return the link's figures.

        ``now``: Unix time, seconds; by default the present.

        Raises LinkError if the link is gone.
        """
        settings = self._read_settings()
        if settings.link_id != self._settings.link_id:  # recreated in the same folder
            self._open()
        self._settings = settings
        # The ledger first: a sender commits rows before it counts them there.
        for table in (self._ledger, self._log):
            try:
                table.refresh()
            except LedgerError:  # the link's first member creates the tables
                break
        settings = altered(settings, self._ledger)
        now = time.time() if now is None else now
        first = [steps[0].at for steps in self._ledger.steps.values() if steps]
        since = max(now - self.window_s, min(first, default=now))
        self._ledger.forget(since)
        view = _LinkView(settings, self._ledger, self._log, now, self.window_s, since)
        found = view.snapshot(self.label, str(self.storage))
        self._forget(view.cursors)
        return found

    def ends(self) -> dict[str, list[dict[str, list[int]]]]:
        """Return where the recent micro-batches of each receiver ended, by application id.

        An end is the offset that Spark reports: records read of each channel, by sender.
        """
        return {
            member: [end for step in steps for end in _ends(self._ledger.read(member, step))]
            for member, steps in self._ledger.steps.items()
            if member.startswith("receiver/")
        }

    def _forget(self, cursors: Cursors) -> None:
        """Drop the messages that all receivers have consumed."""
        for sender in cursors.senders:
            for channel, count in enumerate(cursors.consumed_by_all(sender.number)):
                self._log.channel(sender.number, channel).forget(count)


class _LinkView:
    """What the ledger and the log show of a link."""

    def __init__(
        self,
        settings: LinkSettings,
        ledger: LedgerHistory,
        log: TimedLog,
        now: float,
        window_s: float,
        since: float,
    ) -> None:
        self.settings, self.ledger, self.log = settings, ledger, log
        self.has_time = settings.event_time_column is not None
        self.since, self.now = since, now
        senders = [sender for sender in senders_of(ledger) if not sender.is_removed]
        self.cursors = Cursors(settings, senders, receivers_of(ledger))
        members = [member_of(one) for one in self.cursors.senders]
        members += [member_of(one) for one in self.cursors.receivers]
        self.batches = {member: Batches(ledger, member, now, window_s) for member in members}
        self.rows = {member_of(one): self._newest(one) for one in self.cursors.receivers}
        self.times = {
            member: receiver_time(settings, log, senders, rows, now, since)
            for member, rows in self.rows.items()
        }

    def _newest(self, receiver: Receiver) -> dict[Key, dict[str, Any]]:
        """Return a receiver's newest rows, by sender and channel."""
        member = member_of(receiver)
        rows = self.ledger.read(member, self.batches[member].newest)
        return {(row["sender"], row["receiver"]): row for row in rows}

    def snapshot(self, label: str, path: str) -> LinkSnapshot:
        """Return all figures."""
        cursors, settings = self.cursors, self.settings
        channels = [
            made(ChannelSnapshot, _ChannelView(self, sender, group, channel))
            for sender in cursors.senders
            for group in cursors.groups
            for channel in range(settings.channels)
        ]
        senders = [_SenderView(self, one, channels) for one in cursors.senders]
        receivers = [_ReceiverView(self, one, channels) for one in cursors.receivers]
        return LinkSnapshot(
            *(label, path, self.now, self.now - self.since),
            tuple(made(SenderSnapshot, one) for one in senders),
            tuple(made(ReceiverSnapshot, one) for one in receivers),
            tuple(channels),
            *(settings.max_pool_bytes, settings.event_time_column, settings.align_s),
        )

    def position(self, reader: Receiver, key: Key, consumed: int) -> int:
        """Return how many records of a channel have been consumed."""
        row = None if reader is NOBODY else self.rows[member_of(reader)].get(key)
        if row is not None:
            return int(json.loads(row["channel_state"])["record"])  # where the batch begins
        log = self.log.channel(*key)
        if log.first < consumed <= log.end:
            return log.message(consumed - 1).end
        return log.start

    def blocked(self, sender: Sender, channel: int | None = None) -> float:
        """Return the share of the window for which messages of a sender waited for a buffer."""
        steps = self.ledger.steps[member_of(sender)]
        return waiting_share(steps, self.since, self.now, channel)


class _ChannelView:
    """A channel from a sender to a receiver."""

    def __init__(self, link: _LinkView, sender: Sender, group: str, channel: int) -> None:
        self.link, self.sender, self.group, self.channel = link, sender, group, channel
        self.key = sender.number, channel
        self.reader = link.cursors.reader(group, channel)
        self.writing = link.batches[member_of(sender)]
        has_reader = self.reader is not NOBODY
        self.reading = link.batches[member_of(self.reader)] if has_reader else None
        self.cursors = self.reader.cursors(*self.key)
        self.consumed = link.cursors.consumed(sender.number, group)[channel]
        self.position = link.position(self.reader, self.key, self.consumed)
        self.is_holding = link.cursors.is_holding(sender.number, group, channel)
        self.log = link.log.channel(*self.key)
        self.unconsumed_bytes = self._unconsumed()

    def _unconsumed(self) -> int:
        """Bytes of the messages that are not consumed, less what was read of the first."""
        log = self.log
        low, high = self.consumed, self.sender.written[self.channel]
        nbytes = log.nbytes(low, high)
        if low >= high or not log.first <= low < log.end:
            return nbytes
        message = log.message(low)
        start = log.message(low - 1).end if low > log.first else log.start
        read = max(0, self.position - start)
        return nbytes - message.nbytes * read // max(1, message.end - start)

    @property
    def age_s(self) -> float:
        """How long the oldest message that is not consumed has been in the log."""
        if self.consumed >= self.sender.written[self.channel]:
            return 0.0
        first = max(self.consumed, self.log.first)
        written_at = self.link.log.written_at(*self.key, first)
        return 0.0 if written_at is None else max(0.0, self.link.now - written_at)

    @property
    def drain_s(self) -> float | None:
        """Time to move what is not consumed; None if the rate is unknown."""
        if self.unconsumed_bytes == 0:
            return 0.0
        rate = None if self.reading is None else self.reading.busy_rate(self.key)
        return self.unconsumed_bytes / rate if rate else None

    @property
    def time(self) -> ChannelTime | None:
        """Its event time at the receiver; None if there is none."""
        has_reader = self.reader is not NOBODY
        own = self.link.times[member_of(self.reader)] if has_reader else NO_TIME
        return own.channels.get(self.key)


class _SenderView:
    def __init__(self, link: _LinkView, sender: Sender, channels: list[ChannelSnapshot]) -> None:
        own = sender.name, link.cursors.groups[0]
        self.link, self.sender, self.batches = link, sender, link.batches[member_of(sender)]
        self.channels = [c for c in channels if (c.sender, c.receiver) == own]
        settings = link.settings
        self.pool_size = sender.channels * settings.exclusive_buffers
        self.pool_size += settings.bounded(sender.floating or 0)


class _ReceiverView:
    def __init__(
        self, link: _LinkView, receiver: Receiver, channels: list[ChannelSnapshot]
    ) -> None:
        group, self.member = receiver.group, member_of(receiver)
        self.link, self.receiver = link, receiver
        self.batches, self.time = link.batches[self.member], link.times[self.member]
        newest = link.rows[self.member]
        self.rows = list(newest.values())
        self.channels = [
            c for c in channels if c.receiver == group and c.channel in receiver.channels
        ]
        states = [json.loads(row["task_state"]) for row in self.rows if row["task_state"]]
        self.state: dict[str, Any] = states[0] if states else {}
        self.rows_read = sum(link.position(receiver, key, 0) for key in newest)
        self.is_detached = any(group in sender.detached for sender in link.cursors.senders)
        has_rows = self.batches.running_s is not None or any(c.backlog_rows for c in self.channels)
        self.is_starting = self.batches.batch_s is None and has_rows and not self.is_detached


def _ends(rows: Sequence[dict[str, Any]]) -> list[dict[str, list[int]]]:
    return [json.loads(row["task_state"])["end"] for row in rows if row["task_state"]]
