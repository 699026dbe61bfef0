"""Event time of a link as text for a terminal of 80 columns or more."""

from collections.abc import Iterator, Sequence

from rich.table import Table
from rich.text import Text

from flowcontrol.link.members import ranges
from flowcontrol.link.monitoring.short_numbers import duration, moment
from flowcontrol.link.monitoring.snapshot import ChannelSnapshot, LinkSnapshot, ReceiverSnapshot

HEADS = ("written to", "watermark", "lag", "behind", "")

FIRST = float("-inf")
"""Where a channel without a watermark stands among the others."""


def watermark_lines(snapshot: LinkSnapshot) -> Iterator[Text]:
    """Yield a line for each receiver: its watermark, and what holds it back."""
    if snapshot.event_time_column is None:
        return
    for receiver in snapshot.receivers:
        own = [
            c
            for c in snapshot.channels
            if c.receiver == receiver.name and c.channel in receiver.channels
        ]
        if receiver.watermark_ms is None or receiver.watermark_lag_s is None:
            text = f"{receiver.name}: no watermark yet"
        else:
            at = moment(receiver.watermark_ms / 1000, snapshot.at)
            late = duration(abs(receiver.watermark_lag_s))
            side = "behind" if receiver.watermark_lag_s >= 0 else "ahead of"
            text = f"{receiver.name}: watermark {at}, {late} {side} the clock"
        yield Text(text + _held_by(own) + _paused(snapshot, receiver))


def _held_by(own: Sequence[ChannelSnapshot]) -> str:
    """Return which channels hold a watermark back, if not all do."""
    holding = [channel for channel in own if channel.holds_watermark]
    if not holding:
        return ", all channels are idle" if own and all(c.is_idle for c in own) else ""
    parts = []
    for sender in dict.fromkeys(channel.sender for channel in holding):
        numbers = [channel.channel for channel in holding if channel.sender == sender]
        noun = "channel" if len(numbers) == 1 else "channels"
        parts.append(f"{noun} {ranges(numbers)} of {sender}")
    return f", held by {' and '.join(parts)}"


def _paused(snapshot: LinkSnapshot, receiver: ReceiverSnapshot) -> str:
    """Return which senders have waited for the others."""
    if not receiver.paused:
        return ""
    names, limit = ", ".join(receiver.paused), duration(snapshot.align_s)
    return f"; paused for being more than {limit} ahead: {names}"


def time_table(channels: Sequence[ChannelSnapshot], most: int, now: float) -> Table:
    """Return the watermarks of the channels of a sender to a receiver.

    ``now``: Unix time, seconds.
    """
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="dim")
    table.add_column("ch")
    for head in HEADS:
        table.add_column(head, justify="right" if head else "left", no_wrap=True)
    ranked = sorted(channels, key=_rank)
    for channel in sorted(ranked[: max(1, most)], key=lambda one: one.channel):
        table.add_row(
            str(channel.channel),
            _moment(channel.written_watermark_s, now),
            _moment(channel.watermark_s, now),
            _duration(channel.watermark_lag_s),
            _duration(channel.watermark_behind_s),
            _state(channel),
        )
    return table


def _rank(channel: ChannelSnapshot) -> tuple[bool, float, int]:
    """Return what comes first: channels that hold the watermark back, then the slowest."""
    watermark = FIRST if channel.watermark_s is None else channel.watermark_s
    return not channel.holds_watermark, watermark, channel.channel


def _moment(seconds: float | None, now: float) -> str:
    return "-" if seconds is None else moment(seconds, now)


def _duration(seconds: float | None) -> str:
    return "-" if seconds is None else duration(seconds)


def _state(channel: ChannelSnapshot) -> Text:
    if channel.is_idle:
        return Text("idle", style="dim")
    if channel.is_paused:
        return Text("paused", style="yellow")
    return Text("holds", style="bold") if channel.holds_watermark else Text("")
