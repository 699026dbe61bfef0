"""The sending end of a link's channels: what is released, and which receivers hold it up."""

import json
from collections.abc import Sequence
from itertools import chain
from typing import Any

from flowcontrol.ledger.link_index import ChannelLog
from flowcontrol.ledger.link_ledger import LinkLedger
from flowcontrol.ledger.link_log import LinkLog
from flowcontrol.link.event_time import EventTimes, now_ms
from flowcontrol.link.members import (
    Consumed,
    Pace,
    consumed_of,
    least,
    pacing,
    receivers_of,
    resized,
    senders_of,
    wanted_bytes,
)
from flowcontrol.link.settings import LinkSettings
from flowcontrol.protocol.network.credit_rules import credit_of, unsent
from flowcontrol.protocol.network.free_running import OutputPool


class LinkOutput:
    """A sender's channels and their output pool, as its last commit left them.

    - ``channels``: into how many it writes; the link may have more by now.
    - ``released``: messages of each channel that receivers may read.
    - ``trimmed``: messages of each channel that the last commit announced as trimmed.
    - ``detached``: receivers that are cut off.
    - ``barrier``: messages of the first channels that all must have consumed before the next batch
      is written: since then rows of one key go to another channel. Empty without one.
    - ``times``: the watermark of each channel.
    """

    def __init__(
        self, settings: LinkSettings, index: int, ledger: LinkLedger, log: LinkLog
    ) -> None:
        self.settings, self.index, self.ledger, self.log = settings, index, ledger, log
        state = {} if ledger.latest is None else ledger.latest.state
        self.channels = len(state["released"]) if state else settings.channels
        none = [0] * self.channels
        self.released: list[int] = list(state.get("released", none))
        self.trimmed: list[int] = list(state.get("trimmed", none))
        self.detached: list[str] = list(state.get("detached", ()))
        self.barrier: list[int] = list(state.get("barrier", ()))
        self._pool = self._new_pool(state.get("floating", settings.floating_buffers))
        self.times = EventTimes(settings)
        self._noted: list[int] = list(state.get("written", none))
        self.times.restore_all(state.get("time"))

    def _new_pool(self, floating: int) -> OutputPool:
        """Return a pool of so many floating buffers, within its bounds.

        Of a pool that becomes smaller nothing is taken back: what is in flight beyond it is
        charged when buffers come back, and nothing is released before.
        """
        settings = self.settings
        own = settings.exclusive_buffers, settings.bounded(floating)
        return OutputPool(*own, self._in_use())

    def adopt(self, settings: LinkSettings) -> None:
        """Take over the link's settings as they are now."""
        self.settings = settings
        self.times.adopt(settings)
        floating = settings.bounded(self._pool.floating)
        if (settings.exclusive_buffers, floating) != (self._pool.exclusive, self._pool.floating):
            self._pool = self._new_pool(floating)

    def widen(self, channels: int, barrier: Sequence[int]) -> None:
        """Write into more channels from now on, the next batch behind a barrier."""
        self.barrier = list(barrier)
        more = [0] * (channels - self.channels)
        self.released, self.trimmed = [*self.released, *more], [*self.trimmed, *more]
        self._noted += more
        self.channels = channels
        self._pool = self._new_pool(self._pool.floating)

    @property
    def logs(self) -> list[ChannelLog]:
        """Index of each channel in the exchange log."""
        return [self.log.channel(self.index, c) for c in range(self.channels)]

    # ------------------------------------------------------------------ releasing

    def release(self) -> None:
        """Release a message of each channel in turn as long as the pool has a buffer."""
        ends = [log.end for log in self.logs]
        moved = True
        while moved:
            moved = False
            for channel, end in enumerate(ends):
                if self.released[channel] < end and self._pool.request(channel):
                    self.released[channel] += 1
                    moved = True

    def recycle(self) -> None:
        """Take back the buffers of what the pacing receivers have consumed.

        A receiver that has just registered may have consumed less than those before it: what
        lies before it is in flight again, and takes buffers as far as there are any.
        """
        more = [used - had for used, had in zip(self._in_use(), self._pool.used, strict=True)]
        for channel, count in enumerate(more):
            self._pool.recycle(channel, max(0, -count))
        for channel, count in enumerate(more):
            for _ in range(count):
                if not self._pool.request(channel):
                    break

    def resize(self, away_s: float) -> None:
        """Give the pool what keeps its receivers busy, within its bounds."""
        paces: dict[str, list[Pace]] = {}
        for receiver in receivers_of(self.ledger):
            if receiver.group not in self.detached:
                paces.setdefault(receiver.group, []).append(receiver.pace)
        before, is_short = self._pool.floating, self.waiting_bytes() > 0
        wanted = wanted_bytes(paces, away_s)
        floating = resized(self.settings, before, wanted, is_short=is_short)
        if floating != before:
            self._pool = self._new_pool(floating)

    def _in_use(self) -> list[int]:
        paced = pacing(self._attached(), detaches=self.settings.detach_after_bytes is not None)
        done = least(paced, self.channels)
        return [max(0, released - own) for released, own in zip(self.released, done, strict=True)]

    def waiting_bytes(self) -> int:
        """Return the bytes that are written and not released."""
        return sum(self._waiting(c) for c in range(self.channels))

    def _waiting(self, channel: int) -> int:
        log = self.log.channel(self.index, channel)
        return log.nbytes(self.released[channel], log.end)

    # ------------------------------------------------------------------ receivers

    def _attached(self) -> Consumed:
        found = consumed_of(receivers_of(self.ledger), self.index, self.channels)
        return {group: own for group, own in found.items() if group not in self.detached}

    def consumed(self) -> list[int]:
        """Return the messages of each channel that all attached receivers have consumed."""
        return least(self._attached(), self.channels)

    def trimmable(self) -> list[int]:
        """Return the messages of each channel that may leave the log.

        They were announced in an earlier commit, so a receiver that registered after it begins
        behind them; one that registered before it is known by now, and has consumed them.
        """
        return [min(both) for both in zip(self.trimmed, self.consumed(), strict=True)]

    def detach(self) -> None:
        """Cut off receivers that lag too far behind the fastest; forget those that were removed.

        Whom another sender has cut off reads no more: it would be waited for, or be the fastest.
        """
        others = (one.detached for one in senders_of(self.ledger) if one.number != self.index)
        lost = dict.fromkeys([*self.detached, *chain.from_iterable(others)])
        if lost:
            known = {receiver.group for receiver in receivers_of(self.ledger)}
            self.detached = [group for group in lost if group in known]
        limit, attached = self.settings.detach_after_bytes, self._attached()
        if limit is None:
            return
        logs, fastest = self.logs, pacing(attached, detaches=True)
        for group, own in attached.items():
            ends = zip(logs, own, self.released, strict=True)
            lag = sum(log.nbytes(done, released) for log, done, released in ends)
            if lag > limit and group not in fastest:
                self.detached.append(group)

    def _sent_and_announced(self) -> list[tuple[int, int]]:
        """Return messages sent and credits announced per channel, by the slowest receiver."""
        found: list[list[tuple[int, int]]] = [[] for _ in self.released]
        for receiver in receivers_of(self.ledger):
            if receiver.group not in self.detached and self.index in receiver.sent:
                for channel in (c for c in receiver.channels if c < self.channels):
                    own = receiver.cursors(self.index, channel)
                    found[channel].append((own.sent, own.announced))
        return [min(own, default=(0, 0)) for own in found]

    # ------------------------------------------------------------------ the ledger

    def note_times(self) -> None:
        """Advance the watermarks by what has been written since the last time."""
        now = now_ms()
        for channel, log in enumerate(self.logs):
            if self.times.column is not None:
                self.times.note(channel, log.latest(self._noted[channel], log.end))
                self.times.probe(channel, now)
            self._noted[channel] = log.end

    def rows(
        self, rows: Sequence[int], nbytes: Sequence[int], task: dict[str, Any]
    ) -> list[dict[str, Any]]:
        """Return the ledger's row of each channel."""
        return [
            {
                "sender": self.index,
                "receiver": channel,
                "written": log.end,
                "released": self.released[channel],
                "credit": credit_of(announced, sent),
                "backlog": unsent(self.released[channel], sent),
                "pool_used": self._pool.in_use,
                "pool_size": self._pool.size,
                "rows": rows[channel],
                "bytes": nbytes[channel],
                "channel_state": json.dumps(
                    {
                        "records": log.records,
                        "waiting_bytes": self._waiting(channel),
                        **self._watermark(channel),
                    }
                ),
                "task_state": json.dumps(task) if channel == 0 else None,
            }
            for channel, (log, (sent, announced)) in enumerate(
                zip(self.logs, self._sent_and_announced(), strict=True)
            )
        ]

    def _watermark(self, channel: int) -> dict[str, int | None]:
        """Return the watermark of a channel for its row; nothing if the link has no event time."""
        if self.times.column is None:
            return {}
        return {"watermark": self.times.watermark(channel)}

    def state(self) -> dict[str, Any]:
        """Return the cursors that receivers follow and the next start checks."""
        logs, times = self.logs, self.times
        return {
            **({} if times.column is None else {"time": times.state(range(self.channels))}),
            "index": self.index,
            "written": [log.end for log in logs],
            "records": [log.records for log in logs],
            "released": list(self.released),
            "detached": list(self.detached),
            **({"barrier": self.barrier} if self.barrier else {}),
            "floating": self._pool.floating,
        }

    def forget(self) -> None:
        """Drop the index of the messages that all attached receivers have consumed."""
        for log, done in zip(self.logs, self.consumed(), strict=True):
            log.forget(done)
