"""Snapshots as text for a terminal of 80 columns or more."""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from flowcontrol.analysis.pressure import Pressure
from flowcontrol.link.members import ranges
from flowcontrol.link.monitoring.bottleneck import describe_bottleneck
from flowcontrol.link.monitoring.causes import cause_sentence, limiting_link, link_cause
from flowcontrol.link.monitoring.short_numbers import clock_time, count, duration, size
from flowcontrol.link.monitoring.snapshot import (
    ChannelSnapshot,
    LinkSnapshot,
    ReceiverSnapshot,
    SenderSnapshot,
)
from flowcontrol.link.monitoring.time_table import time_table, watermark_lines
from flowcontrol.report.numbers import percent

_STYLES = {Pressure.OK: "green", Pressure.LOW: "yellow", Pressure.HIGH: "bold red"}

LATE = 1.5
"""Times its target from which a micro-batch's time is coloured."""

_MEMBERS = ("rows/s", "bytes/s", "pool", "batch/target", "state", "seen")
_CHANNELS = ("rows", "bytes", "age", "drain", "credit", "waits", "in/s", "out/s", "verdict")

_SUMMED = (
    *("backlog_rows", "backlog_bytes", "credit", "waiting_bytes"),
    *("rows_in_per_s", "rows_out_per_s"),
)
"""Figures that the line of all channels adds up."""


def render(snapshots: Sequence[LinkSnapshot], most_channels: int | None = None) -> RenderableType:
    """Return the sentence on the bottleneck and all links, for ``rich``.

    - ``snapshots``: in the order in which rows pass.
    - ``most_channels``: channels to show of each pair of a sender and a receiver: the worst. By
      default all.
    """
    parts: list[RenderableType] = [Text(describe_bottleneck(snapshots))]
    limiting = limiting_link(snapshots)
    cause = None if limiting is None else link_cause(limiting)
    if cause is not None:
        parts.append(Text(cause_sentence(cause)))
    for snapshot in snapshots:
        parts += ["", *_link(snapshot, most_channels)]
    return Group(*parts)


def _link(snapshot: LinkSnapshot, most_channels: int | None) -> list[RenderableType]:
    title = Table.grid(expand=True)
    title.add_column(no_wrap=True, overflow="ellipsis")
    title.add_column(justify="right", no_wrap=True)
    window = f"last {duration(snapshot.window_s)}" if snapshot.window_s else "no commit yet"
    label = Text(snapshot.label, style="bold")
    if snapshot.max_pool_bytes is not None:
        label.append(f"  pool to {size(snapshot.max_pool_bytes)}", style="dim")
    title.add_row(label, f"{clock_time(snapshot.at)}, {window}")
    if not snapshot.senders and not snapshot.receivers:
        return [title, "No sender and no receiver has started yet."]
    parts: list[RenderableType] = [title, _members(snapshot), *_missed(snapshot), *_late(snapshot)]
    parts += watermark_lines(snapshot)
    starting = {receiver.name for receiver in snapshot.starting}
    pairs = list(dict.fromkeys((c.sender, c.receiver) for c in snapshot.channels))
    for sender, receiver in pairs:
        own = [c for c in snapshot.channels if (c.sender, c.receiver) == (sender, receiver)]
        parts.append("")
        if len(pairs) > 1:
            parts.append(Text(f"{sender} → {receiver}", style="italic"))
        table = _channels(own, most_channels, has_verdict=receiver not in starting)
        parts += [table, *_left_out(own, most_channels)]
        if snapshot.event_time_column is not None:
            most = len(own) if most_channels is None else most_channels
            parts += ["", time_table(own, most, snapshot.at)]
    return parts


def _table(first: str, heads: Iterable[str]) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="dim")
    table.add_column(first)  # the only one that gives way where lines are short
    for head in heads:
        table.add_column(head, justify="right", no_wrap=True)
    return table


# ---------------------------------------------------------------------- senders and receivers


def _name(text: str) -> Text:
    """Return a name that is cut where the figures beside it need the line."""
    return Text(text, no_wrap=True, overflow="ellipsis")


def _members(snapshot: LinkSnapshot) -> Table:
    table = _table("", _MEMBERS)
    for sender in snapshot.senders:
        table.add_row(*_sender_cells(sender, has_verdict=not snapshot.starting))
    shared = {
        r.name for r in snapshot.receivers if sum(o.name == r.name for o in snapshot.receivers) > 1
    }
    for receiver in snapshot.receivers:
        name = receiver.name
        if name in shared:
            name += f" {ranges(receiver.channels)}"
        table.add_row(*_receiver_cells(receiver, name))
    return table


def _late(snapshot: LinkSnapshot) -> list[RenderableType]:
    """Return a line for each receiver that began in the middle."""
    return [
        Text(f"{one.name} began {count(one.rows_skipped)} rows late: the others had consumed them")
        for one in snapshot.receivers
        if one.rows_skipped
    ]


def _sender_cells(sender: SenderSnapshot, *, has_verdict: bool) -> list[Text | str]:
    blocked = Text(f"blocked {percent(sender.blocked_ratio)}")
    return [
        _name(f"{sender.name} →"),
        count(sender.rows_per_s),
        size(sender.bytes_per_s),
        f"{sender.pool_used}/{sender.pool_size}",
        "",
        _grade(sender.backpressure_level, sender.blocked_ratio) if has_verdict else blocked,
        duration(sender.silent_s),
    ]


def _receiver_cells(receiver: ReceiverSnapshot, name: str) -> list[Text | str]:
    state = Text("starting" if receiver.is_starting else f"busy {percent(receiver.busy_ratio)}")
    if receiver.is_detached:
        state = Text("DETACHED", style="bold red")
    return [
        _name(f"→ {name}"),
        count(receiver.rows_per_s),
        size(receiver.bytes_per_s),
        f"{receiver.pool_used}/{receiver.pool_size}",
        _batch(receiver),
        state,
        duration(receiver.silent_s),
    ]


def _missed(snapshot: LinkSnapshot) -> list[RenderableType]:
    """Return a line for each receiver whose target is below what a batch costs anyway."""
    return [
        Text(
            f"{receiver.name}: a batch takes {duration(receiver.fixed_s)} without rows, its target "
            f"is {duration(receiver.target_s)}; batches are longer, for 80 % of the throughput",
            style="yellow",
        )
        for receiver in snapshot.receivers
        if not receiver.keeps_target
    ]


def _batch(receiver: ReceiverSnapshot) -> Text:
    """Return the batch time against its target; of a batch that takes longer, its time so far."""
    taken, sign = receiver.batch_s, ""
    if receiver.running_s is not None and (taken is None or receiver.running_s > taken):
        taken, sign = receiver.running_s, ">"
    if taken is None:
        return Text("")
    target = "" if receiver.target_s is None else f"/{duration(receiver.target_s)}"
    is_late = receiver.target_s is not None and taken > LATE * receiver.target_s
    return Text(f"{sign}{duration(taken)}{target}", style="yellow" if is_late else "")


# ---------------------------------------------------------------------- channels


def _channels(channels: Sequence[ChannelSnapshot], most: int | None, *, has_verdict: bool) -> Table:
    table = _table("ch", _CHANNELS)
    chosen = _worst(channels, len(channels) if most is None else most)
    lines = [_channel_cells(channel) for channel in chosen] + [_total_cells(channels)]
    for line in lines:
        cells = line if has_verdict else [*line[:-1], "starting"]
        table.add_row(*cells, style="bold" if line is lines[-1] else None)
    return table


def _left_out(channels: Sequence[ChannelSnapshot], most: int | None) -> list[RenderableType]:
    """Return a line that counts the channels that are not shown."""
    count = 0 if most is None else len(channels) - max(1, most)
    return [Text(f"and {count} channels that wait less", style="dim")] if count > 0 else []


def _worst(channels: Sequence[ChannelSnapshot], most: int) -> list[ChannelSnapshot]:
    """Return the channels that are blocked most or have most to do, in their order."""
    ranked = sorted(channels, key=lambda c: (-c.blocked_ratio, -c.backlog_bytes, c.channel))
    return sorted(ranked[: max(1, most)], key=lambda c: c.channel)


def _channel_cells(channel: ChannelSnapshot) -> list[Text | str]:
    return [
        str(channel.channel),
        count(channel.backlog_rows),
        size(channel.backlog_bytes),
        _time(channel.age_s),
        _time(channel.drain_s),
        str(channel.credit),
        size(channel.waiting_bytes),
        count(channel.rows_in_per_s),
        count(channel.rows_out_per_s),
        _grade(channel.backpressure_level, channel.held_ratio),
    ]


def _total_cells(channels: Sequence[ChannelSnapshot]) -> list[Text | str]:
    """Return sums; of times the longest."""
    drains = [channel.drain_s for channel in channels]
    known = [drain for drain in drains if drain is not None]
    total = replace(
        max(channels, key=lambda c: c.held_ratio),
        **{name: sum(getattr(c, name) for c in channels) for name in _SUMMED},
        age_s=max(c.age_s for c in channels),
        drain_s=max(known) if len(known) == len(drains) else None,
    )
    return ["all", *_channel_cells(total)[1:]]


def _time(seconds: float | None) -> str:
    """Return how long a backlog waits; a dash without backlog."""
    return "-" if seconds == 0 else duration(seconds)


def _grade(backpressure_level: Pressure, ratio: float) -> Text:
    return Text(f"{backpressure_level.value} {percent(ratio)}", style=_STYLES[backpressure_level])
