"""Follow a link and compute its figures from the new commits to its ledger and its log.

Needs neither Spark nor a lock: a monitor reads the two Delta logs as the link's members do, and
writes nothing.
"""

import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from flowcontrol.errors import LedgerError, LinkError
from flowcontrol.ledger.storage import Storage
from flowcontrol.link.members import Receiver, Sender, receivers_of, senders_of
from flowcontrol.link.monitoring.batches import Batches, waiting_share
from flowcontrol.link.monitoring.cursors import NOBODY, Cursors, member_of
from flowcontrol.link.monitoring.history import Key, LedgerHistory, TimedLog
from flowcontrol.link.monitoring.snapshot import (
    ChannelSnapshot,
    LinkSnapshot,
    ReceiverSnapshot,
    SenderSnapshot,
)
from flowcontrol.link.monitoring.times import NO_TIME, receiver_time
from flowcontrol.link.settings import LinkSettings, altered, read_made
from flowcontrol.protocol.network.credit_rules import credit_of

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
            raise LinkError(
                f"{self.storage}: there is no link here (no file link.json): name the folder "
                "that was given to Link(...)"
            )
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
        snapshot = _Snapshot(settings, self._ledger, self._log, now, self.window_s, since)
        found = snapshot.link(self.label, str(self.storage))
        self._forget(snapshot.cursors)
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


class _Snapshot:
    """Computes one snapshot."""

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
        self.since, self.now = since, now
        senders = [sender for sender in senders_of(ledger) if not sender.is_removed]
        self.cursors = Cursors(settings, senders, receivers_of(ledger))
        members = [member_of(one) for one in self.cursors.senders]
        members += [member_of(one) for one in self.cursors.receivers]
        self.batches = {member: Batches(ledger, member, now, window_s) for member in members}
        self._rows = {member_of(one): self._newest(one) for one in self.cursors.receivers}
        self._times = {
            member: receiver_time(settings, log, senders, rows, now, since)
            for member, rows in self._rows.items()
        }

    def _newest(self, receiver: Receiver) -> dict[Key, dict[str, Any]]:
        """Return a receiver's newest rows, by sender and channel."""
        member = member_of(receiver)
        rows = self.ledger.read(member, self.batches[member].newest)
        return {(row["sender"], row["receiver"]): row for row in rows}

    def link(self, label: str, path: str) -> LinkSnapshot:
        """Return all figures."""
        cursors = self.cursors
        channels = [
            self._channel(sender, group, channel)
            for sender in cursors.senders
            for group in cursors.groups
            for channel in range(self.settings.channels)
        ]
        return LinkSnapshot(
            label=label,
            path=path,
            at=self.now,
            window_s=self.now - self.since,
            senders=tuple(self._sender(sender, channels) for sender in cursors.senders),
            receivers=tuple(self._receiver(one, channels) for one in cursors.receivers),
            channels=tuple(channels),
            max_pool_bytes=self.settings.max_pool_bytes,
            event_time_column=self.settings.event_time_column,
            align_s=self.settings.align_s,
        )

    # ------------------------------------------------------------------ a channel

    def _channel(self, sender: Sender, group: str, channel: int) -> ChannelSnapshot:
        key, reader = (sender.number, channel), self.cursors.reader(group, channel)
        writing = self.batches[member_of(sender)]
        reading = None if reader is NOBODY else self.batches[member_of(reader)]
        written, released = sender.written[channel], sender.released[channel]
        announced, sent, _ = reader.cursors(*key)
        consumed = self.cursors.consumed(sender.number, group)[channel]
        position = self._position(reader, key, consumed)
        nbytes = self._unconsumed(key, consumed, written, position)
        return ChannelSnapshot(
            sender=sender.name,
            receiver=group,
            channel=channel,
            written=written,
            released=released,
            announced=announced,
            sent=sent,
            consumed=consumed,
            credit=credit_of(announced, sent),
            in_flight=max(0, released - consumed),
            waiting=written - released,
            waiting_bytes=self.log.channel(*key).nbytes(released, written),
            backlog_rows=max(0, sender.records[channel] - position),
            backlog_bytes=nbytes,
            age_s=self._age(key, consumed) if consumed < written else 0.0,
            drain_s=_drain(nbytes, None if reading is None else reading.busy_rate(key)),
            rows_in_per_s=writing.rows_per_s(key),
            bytes_in_per_s=writing.bytes_per_s(key),
            rows_out_per_s=0.0 if reading is None else reading.rows_per_s(key),
            bytes_out_per_s=0.0 if reading is None else reading.bytes_per_s(key),
            blocked_ratio=self._blocked(sender, channel),
            is_holding=self.cursors.is_holding(sender.number, group, channel),
            **self._time(sender, channel, reader),
        )

    def _time(self, sender: Sender, channel: int, reader: Receiver) -> dict[str, Any]:
        """Return the figures of event time; nothing if the link has none."""
        if self.settings.event_time_column is None:
            return {}
        written = dict(enumerate(sender.watermarks))
        figures: dict[str, Any] = {"written_watermark_ms": written.get(channel)}
        time = NO_TIME if reader is NOBODY else self._times[member_of(reader)]
        own = time.channels.get((sender.number, channel))
        if own is not None:
            figures |= {
                "watermark_ms": own.watermark,
                "watermark_lag_s": own.lag_s,
                "watermark_behind_s": own.behind_s,
                "is_idle": own.is_idle,
                "is_paused": own.is_paused,
                "holds_watermark": own.is_holding,
            }
        return figures

    def _position(self, reader: Receiver, key: Key, consumed: int) -> int:
        """Return how many records of a channel have been consumed."""
        row = None if reader is NOBODY else self._rows[member_of(reader)].get(key)
        if row is not None:
            return int(json.loads(row["channel_state"])["record"])  # where the batch begins
        log = self.log.channel(*key)
        if log.first < consumed <= log.end:
            return log.message(consumed - 1).end
        return log.start

    def _unconsumed(self, key: Key, low: int, high: int, position: int) -> int:
        """Bytes of the messages ``low`` to ``high``, less what was read of the first."""
        log = self.log.channel(*key)
        nbytes = log.nbytes(low, high)
        if low >= high or not log.first <= low < log.end:
            return nbytes
        message = log.message(low)
        start = log.message(low - 1).end if low > log.first else log.start
        read = max(0, position - start)
        return nbytes - message.nbytes * read // max(1, message.end - start)

    def _age(self, key: Key, consumed: int) -> float:
        """Return how long the oldest message that is not consumed has been in the log."""
        written_at = self.log.written_at(*key, max(consumed, self.log.channel(*key).first))
        return 0.0 if written_at is None else max(0.0, self.now - written_at)

    def _blocked(self, sender: Sender, channel: int | None = None) -> float:
        steps = self.ledger.steps[member_of(sender)]
        return waiting_share(steps, self.since, self.now, channel)

    # ------------------------------------------------------------------ members

    def _sender(self, sender: Sender, channels: Sequence[ChannelSnapshot]) -> SenderSnapshot:
        group = self.cursors.groups[0]
        own = [c for c in channels if (c.sender, c.receiver) == (sender.name, group)]
        return SenderSnapshot(
            name=sender.name,
            rows_written=sum(sender.records),
            rows_per_s=sum(c.rows_in_per_s for c in own),
            bytes_per_s=sum(c.bytes_in_per_s for c in own),
            pool_used=self.cursors.pool_used(sender),
            pool_size=sender.channels * self.settings.exclusive_buffers
            + self.settings.bounded(sender.floating or 0),
            waiting_bytes=sum(c.waiting_bytes for c in own),
            blocked_ratio=self._blocked(sender),
            silent_s=self.batches[member_of(sender)].silent_s,
        )

    def _receiver(
        self, receiver: Receiver, channels: Sequence[ChannelSnapshot]
    ) -> ReceiverSnapshot:
        group, rows = receiver.group, list(self._rows[member_of(receiver)].values())
        own = [c for c in channels if c.receiver == group and c.channel in receiver.channels]
        batches = self.batches[member_of(receiver)]
        states = [json.loads(row["task_state"]) for row in rows if row["task_state"]]
        read = (self._position(receiver, key, 0) for key in self._rows[member_of(receiver)])
        is_detached = any(group in sender.detached for sender in self.cursors.senders)
        has_rows = batches.running_s is not None or any(c.backlog_rows for c in own)
        return ReceiverSnapshot(
            name=group,
            member=member_of(receiver),
            channels=tuple(receiver.channels),
            rows_read=sum(read),
            rows_per_s=sum(c.rows_out_per_s for c in own),
            bytes_per_s=sum(c.bytes_out_per_s for c in own),
            batch_s=batches.batch_s,
            running_s=batches.running_s,
            target_s=states[0].get("target_batch_s") if states else None,
            fixed_s=states[0].get("fixed_s") if states else None,
            keeps_target=states[0].get("keeps_target", True) if states else True,
            busy_ratio=batches.busy_ratio,
            pool_used=rows[0]["pool_used"] if rows else 0,
            pool_size=rows[0]["pool_size"] if rows else self.settings.floating_buffers,
            is_detached=is_detached,
            silent_s=batches.silent_s,
            rows_skipped=states[0].get("skipped", 0) if states else 0,
            is_starting=batches.batch_s is None and has_rows and not is_detached,
            watermark_ms=self._times[member_of(receiver)].watermark,
            watermark_lag_s=self._times[member_of(receiver)].lag_s,
            paused=self._times[member_of(receiver)].paused,
        )


def _ends(rows: Sequence[dict[str, Any]]) -> list[dict[str, list[int]]]:
    return [json.loads(row["task_state"])["end"] for row in rows if row["task_state"]]


def _drain(nbytes: int, rate: float | None) -> float | None:
    """Return the time to move some bytes, s; None if the rate is unknown."""
    if nbytes == 0:
        return 0.0
    return nbytes / rate if rate else None
