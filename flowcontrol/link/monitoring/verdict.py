"""Which stage holds a chain of links up, in one sentence and why.

A slow stage blocks the sender of the link before it, that blocks the one before, and so on: all
links up to the slow stage are HIGH, and those behind it are not. So the bottleneck is what reads
the last link that blocks its sender.
"""

from __future__ import annotations

from collections.abc import Sequence

from flowcontrol.analysis.pressure import Pressure
from flowcontrol.link.members import ranges
from flowcontrol.link.monitoring.figures import ChannelLook, LinkLook, ReceiverLook, SenderLook
from flowcontrol.link.monitoring.words import duration
from flowcontrol.report.numbers import percent

BUSY_ABOVE = 0.5
"""Busy share of its time above which a receiver, and not the buffers before it, is slow."""

SILENT_S = 30.0
"""Time without a commit after which it is said that a receiver may have stopped."""

PATIENCE = 3.0
"""The same in usual times of a micro-batch: a slow batch is no stop."""


def describe_bottleneck(looks: Sequence[LinkLook]) -> str:
    """Return one sentence on what limits a chain of links.

    Parameters
    ----------
    looks : sequence of LinkLook
        In the order in which rows pass.

    Returns
    -------
    str
        A sentence that ends with a full stop.
    """
    if not any(look.senders for look in looks):
        return "No sender has written into a link yet."
    for wanted in (Pressure.HIGH, Pressure.LOW):
        blocking = [look for look in looks if look.verdict is wanted]
        if blocking:
            return _blocks(blocking[-1], looks)
    # All windows are about as long; the shortest is what is known of all.
    window = duration(min(look.window_s for look in looks))
    return (
        f"No bottleneck: no sender waited for a buffer more than 10 % of the last {window}; "
        "the sources set the pace."
    )


def _blocks(look: LinkLook, looks: Sequence[LinkLook]) -> str:
    """Return the sentence for the link whose sender is blocked."""
    sender = max(look.senders, key=lambda sender: sender.blocked_ratio)
    often = "" if look.verdict is Pressure.HIGH else " at times"
    blocked = (
        f"sender {sender.name} was blocked {percent(sender.blocked_ratio)} of the last "
        f"{duration(look.window_s)}"
    )
    blocked += _behind(looks[list(looks).index(look) + 1 :])
    slow = _slow_channels(look, sender)
    group = slow[0].receiver
    readers = _readers(look, group, slow)
    if not readers:
        return f"Bottleneck{often}: nobody reads {_unread(look, group, slow)}: {blocked}."
    reader = max(readers, key=lambda reader: reader.busy_ratio)
    return f"Bottleneck{often}: {_stage(look, reader, slow)}: {blocked}."


def _behind(looks: Sequence[LinkLook]) -> str:
    """Return that it is not the links further on that block."""
    if not looks:
        return ""
    what = "the link" if len(looks) == 1 else "the links"
    is_free = all(look.verdict is Pressure.OK for look in looks)
    how = "blocked nobody" if is_free else "blocked less"
    return f", and {what} behind ({', '.join(look.label for look in looks)}) {how}"


def _slow_channels(look: LinkLook, sender: SenderLook) -> list[ChannelLook]:
    """Return the channels that hold a sender up, of the receiver with most to do."""
    own = [c for c in look.channels if c.sender == sender.name and c.is_holding]
    graded = [c for c in own if c.verdict is sender.verdict] or own
    backlog: dict[str, int] = {}
    for channel in graded:
        backlog[channel.receiver] = backlog.get(channel.receiver, 0) + channel.backlog_bytes
    group = max(backlog, key=lambda name: backlog[name])
    return [channel for channel in graded if channel.receiver == group]


def _readers(look: LinkLook, group: str, slow: Sequence[ChannelLook]) -> list[ReceiverLook]:
    numbers = {channel.channel for channel in slow}
    return [r for r in look.receivers if r.name == group and numbers & set(r.channels)]


def _unread(look: LinkLook, group: str, slow: Sequence[ChannelLook]) -> str:
    """Return what has no reader."""
    if not group:
        return f"{look.label}, no receiver has started"
    numbers = ranges(channel.channel for channel in slow)
    return f"channels {numbers} of {look.label}, receiver {group} covers others only"


def _stage(look: LinkLook, reader: ReceiverLook, slow: Sequence[ChannelLook]) -> str:
    """Return what is slow, and what shows it."""
    name = f"the stage that reads {look.label} (receiver {reader.name})"
    known = [PATIENCE * reader.batch_s] if reader.batch_s else []
    if reader.silent_s > max(SILENT_S, *known, 0.0):
        since = duration(reader.silent_s)
        what = "in one micro-batch" if reader.running_s is not None else "idle"
        return f"{name}, {what} for {since} or stopped"
    if reader.busy_ratio <= BUSY_ABOVE:
        return (
            f"the buffers of {look.label}, whose receiver {reader.name} was busy only "
            f"{percent(reader.busy_ratio)} (give it more floating_buffers or buffer_bytes)"
        )
    hot = ""
    if len(slow) * 2 <= len({channel.channel for channel in look.channels}):
        noun = "channel" if len(slow) == 1 else "channels"
        hot = f", most of all {noun} {ranges(channel.channel for channel in slow)}"
    return f"{name}{hot}, busy {percent(reader.busy_ratio)}{_batches(reader)}"


def _batches(reader: ReceiverLook) -> str:
    if reader.batch_s is None:
        running = reader.running_s
        return "" if running is None else f" with its first batch, so far {duration(running)}"
    target = "" if reader.target_s is None else f" for a target of {duration(reader.target_s)}"
    if not reader.keeps_target:
        target += f", below what a batch takes without rows, {duration(reader.fixed_s)}"
    return f" with batches of {duration(reader.batch_s)}{target}"
