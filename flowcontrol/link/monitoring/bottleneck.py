"""Name the bottleneck of a chain of links, and why, in one sentence.

A slow stage blocks the sender of the link before it, that blocks the one before, and so on: all
links up to the slow stage are HIGH, and those behind it are not. So the bottleneck is what reads
the last link that blocks its sender.
"""

from collections.abc import Sequence
from math import inf

from flowcontrol.analysis.pressure import Pressure
from flowcontrol.link.members import ranges
from flowcontrol.link.monitoring.causes import BUSY_ABOVE, SILENT_S, limiting_link, may_have_stopped
from flowcontrol.link.monitoring.figures import (
    ChannelSnapshot,
    LinkSnapshot,
    ReceiverSnapshot,
    SenderSnapshot,
)
from flowcontrol.link.monitoring.short_numbers import duration
from flowcontrol.report.numbers import percent


def describe_bottleneck(snapshots: Sequence[LinkSnapshot]) -> str:
    """Return one sentence on what limits a chain of links.

    ``snapshots``: in the order in which rows pass.
    """
    if not any(snapshot.senders for snapshot in snapshots):
        return "No sender has written into a link yet."
    starting = [(snapshot, one) for snapshot in snapshots for one in snapshot.starting]
    if starting:
        return _starts(*max(starting, key=lambda found: found[1].silent_s))
    limiting = limiting_link(snapshots)
    if limiting is not None:
        return _blocks(limiting, snapshots)
    # All windows are about as long; the shortest is what is known of all.
    window = duration(min(snapshot.window_s for snapshot in snapshots))
    return (
        f"No bottleneck: no sender waited for a buffer more than 10 % of the last {window}; "
        "the sources set the pace."
    )


def _starts(snapshot: LinkSnapshot, reader: ReceiverSnapshot) -> str:
    """Return that it is too early to say anything: a buffer waits for a batch that nobody knows."""
    so_far = "" if reader.running_s is None else f", so far {duration(reader.running_s)}"
    text = (
        f"Starting: receiver {reader.name} of {snapshot.label} has not ended its first batch"
        f"{so_far}"
    )
    if reader.silent_s > SILENT_S:
        text += f"; no commit for {duration(reader.silent_s)}: check that its query runs"
    return f"{text}."


def _blocks(snapshot: LinkSnapshot, snapshots: Sequence[LinkSnapshot]) -> str:
    """Return the sentence for the link whose sender is blocked."""
    sender = max(snapshot.senders, key=lambda sender: sender.blocked_ratio)
    often = "" if snapshot.backpressure_level is Pressure.HIGH else " at times"
    blocked = (
        f"sender {sender.name} was blocked {percent(sender.blocked_ratio)} of the last "
        f"{duration(snapshot.window_s)}"
    )
    blocked += _behind(snapshots[list(snapshots).index(snapshot) + 1 :])
    slow = _slow_channels(snapshot, sender)
    group = slow[0].receiver
    readers = _readers(snapshot, group, slow)
    if any(sender.name in reader.paused for reader in readers):
        return f"Bottleneck{often}: {_slower(snapshot, group, sender)}: {blocked}."
    if not readers:
        return f"Bottleneck{often}: nobody reads {_unread(snapshot, group, slow)}: {blocked}."
    reader = max(readers, key=lambda reader: reader.busy_ratio)
    return f"Bottleneck{often}: {_stage(snapshot, reader, slow)}: {blocked}."


def _slower(snapshot: LinkSnapshot, group: str, sender: SenderSnapshot) -> str:
    """Return which senders another one waits for, as they have to catch up in event time."""
    reaches: dict[str, float] = {}
    for channel in snapshot.channels:
        if channel.receiver == group and not channel.is_idle and channel.watermark_s is not None:
            reaches[channel.sender] = max(channel.watermark_s, reaches.get(channel.sender, -inf))
    reaches.pop(sender.name, None)
    slowest = min(reaches, key=lambda name: reaches[name]) if reaches else "another one"
    limit = duration(snapshot.align_s)
    return f"sender {slowest} of {snapshot.label}, with align_s of {limit} the others wait for it"


def _behind(snapshots: Sequence[LinkSnapshot]) -> str:
    """Return that it is not the links further on that block."""
    if not snapshots:
        return ""
    what = "the link" if len(snapshots) == 1 else "the links"
    is_free = all(snapshot.backpressure_level is Pressure.OK for snapshot in snapshots)
    how = "blocked nobody" if is_free else "blocked less"
    return f", and {what} behind ({', '.join(snapshot.label for snapshot in snapshots)}) {how}"


def _slow_channels(snapshot: LinkSnapshot, sender: SenderSnapshot) -> list[ChannelSnapshot]:
    """Return the channels that hold a sender up, of the receiver with most to do."""
    own = [c for c in snapshot.channels if c.sender == sender.name and c.is_holding]
    graded = [c for c in own if c.backpressure_level is sender.backpressure_level] or own
    backlog: dict[str, int] = {}
    for channel in graded:
        backlog[channel.receiver] = backlog.get(channel.receiver, 0) + channel.backlog_bytes
    group = max(backlog, key=lambda name: backlog[name])
    return [channel for channel in graded if channel.receiver == group]


def _readers(
    snapshot: LinkSnapshot, group: str, slow: Sequence[ChannelSnapshot]
) -> list[ReceiverSnapshot]:
    numbers = {channel.channel for channel in slow}
    return [r for r in snapshot.receivers if r.name == group and numbers & set(r.channels)]


def _unread(snapshot: LinkSnapshot, group: str, slow: Sequence[ChannelSnapshot]) -> str:
    """Return what has no reader."""
    if not group:
        return f"{snapshot.label}, no receiver has started"
    numbers = ranges(channel.channel for channel in slow)
    return f"channels {numbers} of {snapshot.label}, receiver {group} covers others only"


def _stage(
    snapshot: LinkSnapshot, reader: ReceiverSnapshot, slow: Sequence[ChannelSnapshot]
) -> str:
    """Return what is slow, and what shows it."""
    name = f"the stage that reads {snapshot.label} (receiver {reader.name})"
    if may_have_stopped(reader):
        since = duration(reader.silent_s)
        what = "in one micro-batch" if reader.running_s is not None else "idle"
        return f"{name}, {what} for {since} or stopped"
    if reader.busy_ratio <= BUSY_ABOVE:
        return (
            f"the buffers of {snapshot.label}, whose receiver {reader.name} was busy only "
            f"{percent(reader.busy_ratio)} (give it more floating_buffers or buffer_bytes)"
        )
    hot = ""
    if len(slow) * 2 <= len({channel.channel for channel in snapshot.channels}):
        noun = "channel" if len(slow) == 1 else "channels"
        hot = f", most of all {noun} {ranges(channel.channel for channel in slow)}"
    return f"{name}{hot}, busy {percent(reader.busy_ratio)}{_batches(reader)}"


def _batches(reader: ReceiverSnapshot) -> str:
    if reader.batch_s is None:
        return ""
    target = "" if reader.target_s is None else f" for a target of {duration(reader.target_s)}"
    if not reader.keeps_target:
        target += f", below what a batch takes without rows, {duration(reader.fixed_s)}"
    return f" with batches of {duration(reader.batch_s)}{target}"
