"""Cursors and event time of a link's members: who reads what, how far, and who holds whom back."""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from flowcontrol.ledger.link_log import LinkLog
from flowcontrol.link.event_time import (
    Held,
    ahead_of_others,
    is_quiet,
    progress_of,
    receiver_watermark,
)
from flowcontrol.link.members import Receiver, Sender, consumed_of, least, pacing, receiver_id
from flowcontrol.link.monitoring.history import COMMITTED_AT, Key
from flowcontrol.link.settings import LinkSettings
from flowcontrol.state.tasks import MIN_TIME

# --- Which receiver reads which channel, how far, and which one a sender waits for.


NOBODY = Receiver("", [], {}, {}, {})
"""Stands for the reader of a channel that no receiver reads."""


class Cursors:
    """The newest cursors of all members.

    ``groups``: names of the receivers; one empty name as long as there is none.
    """

    def __init__(
        self, settings: LinkSettings, senders: Sequence[Sender], receivers: Sequence[Receiver]
    ) -> None:
        self.settings, self.senders, self.receivers = settings, senders, receivers
        self.groups = sorted({receiver.group for receiver in receivers}) or [NOBODY.group]
        self._readers = {
            (receiver.group, channel): receiver
            for receiver in receivers
            for channel in receiver.channels
        }
        self._consumed = {
            sender.number: consumed_of(receivers or [NOBODY], sender.number, settings.channels)
            for sender in senders
        }
        self._pacing = {
            sender.number: pacing(
                {
                    group: own
                    for group, own in self._consumed[sender.number].items()
                    if group not in sender.detached
                },
                detaches=settings.detach_after_bytes is not None,
            )
            for sender in senders
        }

    def reader(self, group: str, channel: int) -> Receiver:
        """Return the receiver of a channel; :data:`NOBODY` if there is none."""
        return self._readers.get((group, channel), NOBODY)

    def consumed(self, sender: int, group: str) -> list[int]:
        """Return the messages that a receiver has consumed, per channel."""
        return self._consumed[sender][group]

    def consumed_by_all(self, sender: int) -> list[int]:
        """Return the messages that every receiver has consumed, per channel."""
        return least(self._consumed[sender], self.settings.channels)

    def pool_used(self, sender: Sender) -> int:
        """Return the buffers of a sender's output pool that are in use."""
        done = least(self._pacing[sender.number], self.settings.channels)
        return sum(max(0, r - own) for r, own in zip(sender.released, done, strict=True))

    def is_holding(self, sender: int, group: str, channel: int) -> bool:
        """Whether a receiver is the one that a channel's sender waits for: the slowest."""
        own = self._pacing[sender]
        slowest = least(own, self.settings.channels)[channel]
        return group in own and own[group][channel] == slowest


def member_of(one: Sender | Receiver) -> str:
    """Return a member's application id."""
    if isinstance(one, Sender):
        return f"sender/{one.name}"
    return one.member or receiver_id(one.group, one.channels)


# --- Event time as a receiver sees it: the watermark of each channel, and who holds it back.


class ChannelTime(NamedTuple):
    """Event time of a channel at a receiver."""

    watermark: int | None  # Of what the receiver has consumed, ms; None before the first
    lag_s: float | None  # How far it is behind the clock
    behind_s: float | None  # How far it is behind the most advanced of the receiver's channels
    is_idle: bool  # Whether it has had no rows for so long that it does not count
    is_paused: bool  # Whether its sender gets no credit, as it is ahead of the others
    is_holding: bool  # Whether it holds the receiver's watermark back


class ReceiverTime(NamedTuple):
    """Event time of a receiver."""

    watermark: int | None  # Of the receiver, ms
    lag_s: float | None  # How far that is behind the clock
    channels: dict[Key, ChannelTime]  # By sender and channel
    # Senders that got no credit at some time in the window, as they were ahead of the others.
    paused: tuple[str, ...] = ()


NO_TIME = ReceiverTime(None, None, {})
"""Of a link without event time."""


def receiver_time(
    settings: LinkSettings,
    log: LinkLog,
    senders: Sequence[Sender],
    rows: Mapping[Key, Mapping[str, Any]],
    now: float,
    since: float,
) -> ReceiverTime:
    """Return the event time of a receiver.

    - ``rows``: the receiver's newest rows in the ledger, by sender and channel.
    - ``now``, ``since``: end and begin of the window, Unix time, seconds.
    """
    if settings.event_time_column is None:
        return NO_TIME
    by_number = {sender.number: sender for sender in senders}
    keys = [key for key in rows if key[0] in by_number]
    states = [json.loads(rows[key]["channel_state"]) for key in keys]
    found = [
        _channel(settings, log, by_number[key[0]], key[1], state, rows[key][COMMITTED_AT], now)
        for key, state in zip(keys, states, strict=True)
    ]
    held = receiver_watermark(found, _before(settings, rows.values()))
    of_sender: dict[int, list[tuple[int, bool]]] = {}
    for key, own in zip(keys, found, strict=True):
        of_sender.setdefault(key[0], []).append(own)
    progress = {number: progress_of(own) for number, own in of_sender.items()}
    ahead = ahead_of_others(progress, settings.align_s)
    most = max((watermark for watermark, _ in found), default=MIN_TIME)
    channels = {
        key: _shown(own, place, held, most, now, is_paused=key[0] in ahead)
        for place, (key, own) in enumerate(zip(keys, found, strict=True))
    }
    lately = {
        key[0]
        for key, state in zip(keys, states, strict=True)
        if (state.get("time", {}).get("paused_at") or 0) >= 1000 * since
    }
    paused = tuple(one.name for one in senders if one.number in ahead | lately)
    return ReceiverTime(held.watermark, lag_of(held.watermark, now), channels, paused)


def lag_of(watermark: int | None, now: float) -> float | None:
    """Return how far a watermark, ms, is behind a moment, s."""
    return None if watermark is None else now - watermark / 1000


def _channel(
    settings: LinkSettings,
    log: LinkLog,
    sender: Sender,
    channel: int,
    state: Mapping[str, Any],
    committed_at: int,
    now: float,
) -> tuple[int, bool]:
    """Return the watermark of a channel, ms, and whether it is idle."""
    own = state.get("time")
    if own is None or own["column"] != settings.event_time_column:
        return MIN_TIME, False
    messages = log.channel(sender.number, channel)
    has_rows = messages.holding(state["record"]) < min(sender.released[channel], messages.end)
    quiet_since = own["quiet_since"]
    if quiet_since is None:  # the timer began behind the commit, and nobody commits that
        quiet_since = committed_at // 1000
    is_idle = not has_rows and is_quiet(quiet_since, int(1000 * now), settings.idle_after_s)
    return MIN_TIME if own["watermark"] is None else own["watermark"], is_idle


def _before(settings: LinkSettings, rows: Iterable[Mapping[str, Any]]) -> int | None:
    """Return the watermark that a receiver has committed."""
    tasks = [json.loads(row["task_state"]) for row in rows if row["task_state"]]
    column, watermark = tasks[0].get("watermark", (None, None)) if tasks else (None, None)
    return watermark if column == settings.event_time_column else None


def _shown(
    own: tuple[int, bool], place: int, held: Held, most: int, now: float, *, is_paused: bool
) -> ChannelTime:
    is_known = own[0] != MIN_TIME
    watermark = own[0] if is_known else None
    return ChannelTime(
        watermark,
        lag_of(watermark, now),
        (most - own[0]) / 1000 if is_known else None,
        is_idle=own[1],
        is_paused=is_paused,
        is_holding=place in held.by,
    )
