"""Snapshots as text for a terminal of 80 columns or more."""

import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from typing import Any

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from flowcontrol.analysis.bottleneck import Pressure
from flowcontrol.ledger.paths import read_place
from flowcontrol.link.members import ranges
from flowcontrol.link.monitoring.bottleneck import (
    cause_sentence,
    describe_bottleneck,
    limiting_link,
    link_cause,
)
from flowcontrol.link.monitoring.figures import (
    TIME,
    UNIX_S,
    ChannelSnapshot,
    LinkSnapshot,
    ReceiverSnapshot,
    SenderSnapshot,
    clock_time,
    count,
    duration,
    fields_of,
    heads_of,
    moment,
    size,
)
from flowcontrol.link.monitoring.monitor import WINDOW_S, LinkMonitor
from flowcontrol.report.markup import percent

_STYLES = {Pressure.OK: "green", Pressure.LOW: "yellow", Pressure.HIGH: "bold red"}

LATE = 1.5
"""Times its target from which a micro-batch's time is coloured."""

_HEADS = {kind: heads_of(kind) for kind in (ChannelSnapshot, SenderSnapshot, ReceiverSnapshot)}
_MEMBERS = [one.column[1] for one in _HEADS[ReceiverSnapshot].values()]
_CHANNELS = [one.column[1] for one in _HEADS[ChannelSnapshot].values()]

_TEXTS: dict[str, Callable[[Any], str]] = {
    "rows": count,
    "rows/s": count,
    "bytes": size,
    "bytes/s": size,
    "s": duration,
}
"""How a figure is shown, by its unit."""


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


def _cells(
    one: Any, heads: Sequence[str], more: Mapping[str, Any], time: Any = duration
) -> list[Text | str]:
    """Return the cells below some heads: ``more``, and the others as their units say."""
    texts = {**_TEXTS, "s": time}
    found: dict[str, Text | str] = {
        figure.column[1]: texts.get(figure.unit, str)(getattr(one, name))
        for name, figure in _HEADS[type(one)].items()
    }
    return [(found | dict(more)).get(head, "") for head in heads]


def _sender_cells(sender: SenderSnapshot, *, has_verdict: bool) -> list[Text | str]:
    state = Text(f"blocked {percent(sender.blocked_ratio)}")
    if has_verdict:
        state = _grade(sender.backpressure_level, sender.blocked_ratio)
    more = {"pool": f"{sender.pool_used}/{sender.pool_size}", "state": state}
    return [_name(f"{sender.name} →"), *_cells(sender, _MEMBERS, more)]


def _receiver_cells(receiver: ReceiverSnapshot, name: str) -> list[Text | str]:
    state = Text("starting" if receiver.is_starting else f"busy {percent(receiver.busy_ratio)}")
    if receiver.is_detached:
        state = Text("DETACHED", style="bold red")
    more = {
        "pool": f"{receiver.pool_used}/{receiver.pool_size}",
        "batch/target": _batch(receiver),
        "state": state,
    }
    return [_name(f"→ {name}"), *_cells(receiver, _MEMBERS, more)]


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
    verdict = _grade(channel.backpressure_level, channel.held_ratio)
    return [str(channel.channel), *_cells(channel, _CHANNELS, {"verdict": verdict}, _time)]


def _total_cells(channels: Sequence[ChannelSnapshot]) -> list[Text | str]:
    """Return sums; of times the longest."""
    totals: dict[str, Any] = {}
    for name in _HEADS[ChannelSnapshot].keys() & fields_of(ChannelSnapshot).keys():
        values = [getattr(channel, name) for channel in channels]
        is_time = _HEADS[ChannelSnapshot][name].unit == "s"
        totals[name] = None if None in values else max(values) if is_time else sum(values)
    total = replace(max(channels, key=lambda c: c.held_ratio), **totals)
    return ["all", *_channel_cells(total)[1:]]


def _time(seconds: float | None) -> str:
    """Return how long a backlog waits; a dash without backlog."""
    return "-" if seconds == 0 else duration(seconds)


def _grade(backpressure_level: Pressure, ratio: float) -> Text:
    return Text(f"{backpressure_level.value} {percent(ratio)}", style=_STYLES[backpressure_level])


# ---------------------------------------------------------------------- event time

_TIMES = heads_of(ChannelSnapshot, TIME, 2 * TIME)

FIRST = float("-inf")
"""Where a channel without a watermark stands among the others."""


def watermark_lines(snapshot: LinkSnapshot) -> Iterator[Text]:
    """Yield a line for each receiver: its watermark, and what holds it back."""
    if snapshot.event_time_column is None:
        return
    for receiver in snapshot.receivers:
        own = snapshot.channels_of(receiver)
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
    table = _table("ch", (one.column[1] for one in _TIMES.values()))
    table.add_column("", no_wrap=True)
    ranked = sorted(channels, key=_rank)
    for channel in sorted(ranked[: max(1, most)], key=lambda one: one.channel):
        table.add_row(
            str(channel.channel),
            *(_time_text(getattr(channel, name), one.unit, now) for name, one in _TIMES.items()),
            _state(channel),
        )
    return table


def _rank(channel: ChannelSnapshot) -> tuple[bool, float, int]:
    """Return what comes first: channels that hold the watermark back, then the slowest."""
    watermark = FIRST if channel.watermark_s is None else channel.watermark_s
    return not channel.holds_watermark, watermark, channel.channel


def _time_text(seconds: float | None, unit: str, now: float) -> str:
    if seconds is None:
        return "-"
    return moment(seconds, now) if unit == UNIX_S else duration(seconds)


def _state(channel: ChannelSnapshot) -> Text:
    if channel.is_idle:
        return Text("idle", style="dim")
    if channel.is_paused:
        return Text("paused", style="yellow")
    return Text("holds", style="bold") if channel.holds_watermark else Text("")


# --- Show links periodically: in place on a terminal, one table after another elsewhere.


LEAST_CHANNELS = 1
"""Channels that are shown on the smallest terminal."""


class WatchConsole(Console):
    """A console that raises BrokenPipeError for a closed pipe; rich's own exits with status 1."""

    def on_broken_pipe(self) -> None:
        """Discard all further output, also at exit, and raise BrokenPipeError."""
        self.quiet = True
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise BrokenPipeError


def labels(paths: Sequence[str]) -> list[str]:
    """Return short names of links: the shortest ends of the paths that differ."""
    parts = [path.rstrip("/").split("/") for path in paths]
    for length in range(1, max((len(own) for own in parts), default=0) + 1):
        found = ["/".join(own[-length:]) for own in parts]
        if len(set(found)) == len(found):
            return found
    return list(paths)


def open_monitors(paths: Sequence[str], window_s: float = WINDOW_S) -> list[LinkMonitor]:
    """Return a monitor of each link.

    Raises LinkError, LedgerError if one of the paths is not a link, or no path.
    """
    absolute = [read_place(path).root for path in paths]
    named = zip(absolute, labels(absolute), strict=True)
    return [LinkMonitor(path, label, window_s) for path, label in named]


def watch(
    monitors: Sequence[LinkMonitor],
    console: Console,
    every_s: float,
    *,
    once: bool = False,
    on_snapshots: Callable[[Sequence[LinkSnapshot]], None] | None = None,
) -> None:
    """Print snapshots of links until interrupted.

    - ``monitors``: in the order in which rows pass.
    - ``every_s``: time between two snapshots, seconds.
    - ``on_snapshots``: called with each round of snapshots.

    Raises LinkError if a link is gone.
    """
    is_live = console.is_terminal and not once
    live = Live(console=console, auto_refresh=False) if is_live else None
    context: AbstractContextManager[object] = nullcontext() if live is None else live
    with context:
        while True:
            started = time.monotonic()
            snapshots = [monitor.snapshot() for monitor in monitors]
            if on_snapshots is not None:
                on_snapshots(snapshots)
            if live is not None:
                live.update(fitting(snapshots, console), refresh=True)
            else:
                console.print(render(snapshots))
            if once:
                return
            if live is None:
                console.print()
                sys.stdout.flush()
            time.sleep(max(0.0, every_s - (time.monotonic() - started)))


def fitting(snapshots: Sequence[LinkSnapshot], console: Console) -> RenderableType:
    """Return a render with as many channels as the terminal has lines for."""
    whole = render(snapshots)
    over = len(console.render_lines(whole)) - console.size.height + 1
    if over <= 0:
        return whole
    pairs = sum(len({(c.sender, c.receiver) for c in snapshot.channels}) for snapshot in snapshots)
    most = max((len({c.channel for c in snapshot.channels}) for snapshot in snapshots), default=0)
    pairs += sum(  # a table of event time has a line a channel too
        len({(c.sender, c.receiver) for c in snapshot.channels})
        for snapshot in snapshots
        if snapshot.event_time_column is not None
    )
    left_out = -(-over // max(1, pairs)) + 1  # and a line that says so
    return render(snapshots, max(LEAST_CHANNELS, most - left_out))
