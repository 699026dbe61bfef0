"""Name the bottleneck of a chain of links, and why, in one sentence.

A slow stage blocks the sender of the link before it, that blocks the one before, and so on: all
links up to the slow stage are HIGH, and those behind it are not. So the bottleneck is what reads
the last link that blocks its sender.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import inf
from typing import Final

from flowcontrol.analysis.bottleneck import Pressure
from flowcontrol.analysis.causes.root_cause import LARGER
from flowcontrol.analysis.causes.run import Cause
from flowcontrol.link.members import ranges
from flowcontrol.link.monitoring.figures import (
    ChannelSnapshot,
    LinkSnapshot,
    ReceiverSnapshot,
    SenderSnapshot,
    duration,
)
from flowcontrol.report.markup import percent

# --- Why a link is slow: the causes that a run of the emulator has, read off a link's figures.


BUSY_ABOVE: Final = 0.5
"""Busy share of its time above which a receiver, and not the buffers before it, is slow."""

SILENT_S: Final = 30.0
"""Time without a commit after which a receiver is reported as perhaps stopped."""

PATIENCE: Final = 3.0
"""The same in usual times of a micro-batch: a slow batch is no stop."""

HOT: Final = 1.5
"""Share of the rows of a channel, over an even share, from which its key is skewed."""

FIXED: Final = 0.5
"""Part of a micro-batch that it takes without rows, from which batches are too small."""


def limiting_link(snapshots: Sequence[LinkSnapshot]) -> LinkSnapshot | None:
    """Return the last link that blocks its sender most; None if none does.

    ``snapshots``: in the order in which rows pass.
    """
    for wanted in (Pressure.HIGH, Pressure.LOW):
        blocking = [one for one in snapshots if one.backpressure_level is wanted]
        if blocking:
            return blocking[-1]
    return None


def may_have_stopped(reader: ReceiverSnapshot) -> bool:
    """Tell whether a receiver has been silent for longer than a slow micro-batch would be."""
    usual_s = PATIENCE * reader.batch_s if reader.batch_s else 0.0
    return reader.silent_s > max(SILENT_S, usual_s)


def link_cause(snapshot: LinkSnapshot) -> Cause | None:
    """Return why the reader of a link holds its sender up.

    Returns ``downstream`` (nobody reads, or a receiver that may have stopped), ``key_skew`` (a
    channel has far more rows than the others), ``buffers`` (the receiver has time left),
    ``external`` (a micro-batch mostly takes what it takes without rows) or ``operator``; its
    ``stage`` is the receiver. None if no sender is blocked, a receiver has not ended its first
    batch, or senders wait for one another in event time.
    """
    if snapshot.backpressure_level is Pressure.OK or snapshot.starting:
        return None
    sender = max(snapshot.senders, key=lambda one: one.blocked_ratio)
    own = [c for c in snapshot.channels if c.sender == sender.name and c.is_holding]
    worst = max(own, key=lambda one: one.blocked_ratio, default=None)
    if worst is None:
        return None
    group = [one for one in snapshot.receivers if one.name == worst.receiver]
    readers = [one for one in group if worst.channel in one.channels]
    if any(sender.name in one.paused for one in readers):
        return None
    if not readers:
        text = f"Channel {worst.channel} of {snapshot.label} has no reader."
        who, what = worst.receiver or None, "start a receiver"
        return Cause(who, None, "downstream", (text,), 1.0, advice=what)
    reader = readers[0]
    if may_have_stopped(reader):
        text = f"Receiver {reader.name} of {snapshot.label} has not committed for "
        text += f"{duration(reader.silent_s)}."
        what = "check that its query runs"
        return Cause(reader.name, None, "downstream", (text,), 0.8, advice=what)
    channels = [c for c in own if c.receiver == worst.receiver]
    return (
        _skewed(snapshot, sender, channels, group)
        or _not_busy(snapshot, reader)
        or _small_batches(reader)
        or _slow(reader)
    )


def cause_sentence(cause: Cause) -> str:
    """Return a cause as the terminal has it: the word, what shows it, what helps."""
    return f"Cause: {cause.cause}. {' '.join(cause.evidence)} What helps: {cause.advice}."


def _skewed(
    snapshot: LinkSnapshot,
    sender: SenderSnapshot,
    channels: Sequence[ChannelSnapshot],
    group: Sequence[ReceiverSnapshot],
) -> Cause | None:
    """Return that one channel has far more rows than the others, and holds the sender up."""
    rows = {one.channel: one.rows_in_per_s for one in channels}
    total = sum(rows.values())
    if len(rows) < 2 or total <= 0:
        return None
    hot = max(channels, key=lambda one: one.rows_in_per_s)
    others = [one.blocked_ratio for one in channels if one is not hot]
    over = rows[hot.channel] * len(rows) / total
    blocks = hot.blocked_ratio >= LARGER * (sum(others) / len(others))
    if over < HOT or not blocks:
        return None
    text = (
        f"Channel {hot.channel} of {snapshot.label} gets {percent(rows[hot.channel] / total)} of "
        f"the rows of {sender.name}, {over:.1f} times an even share, and was blocked "
        f"{percent(hot.blocked_ratio)} of the time."
    )
    what = "another key" if len(group) > 1 else "a receiver of its own for it, or another key"
    return Cause(hot.receiver, hot.channel, "key_skew", (text,), 0.9, advice=what)


def _not_busy(snapshot: LinkSnapshot, reader: ReceiverSnapshot) -> Cause | None:
    if reader.busy_ratio > BUSY_ABOVE:
        return None
    text = (
        f"Receiver {reader.name} of {snapshot.label} was busy only "
        f"{percent(reader.busy_ratio)} of the time while its sender waited for buffers."
    )
    what = "more floating_buffers or buffer_bytes"
    return Cause(reader.name, None, "buffers", (text,), 0.8, advice=what)


def _small_batches(reader: ReceiverSnapshot) -> Cause | None:
    """Return that most of a micro-batch is what it takes without any rows."""
    fixed, batch = reader.fixed_s, reader.batch_s
    if fixed is None or batch is None or fixed < FIXED * batch:
        return None
    text = (
        f"A micro-batch of receiver {reader.name} takes {duration(batch)}, and "
        f"{duration(fixed)} without any rows: planning, commits, the sink's own calls."
    )
    what = "larger batches (a higher target_batch_s, more buffers)"
    return Cause(reader.name, None, "external", (text,), 0.7, advice=what)


def _slow(reader: ReceiverSnapshot) -> Cause:
    took = "" if reader.batch_s is None else f", with batches of {duration(reader.batch_s)}"
    text = f"Receiver {reader.name} was busy {percent(reader.busy_ratio)} of the time{took}."
    what = "a faster query, or more receivers side by side"
    return Cause(reader.name, None, "operator", (text,), 0.7, advice=what)


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
