"""Why a link is slow: the causes that a run of the emulator has, read off a link's figures."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from flowcontrol.analysis.causes.cause import Cause, Word
from flowcontrol.analysis.causes.shares import LARGER
from flowcontrol.analysis.pressure import Pressure
from flowcontrol.link.monitoring.figures import (
    ChannelSnapshot,
    LinkSnapshot,
    ReceiverSnapshot,
    SenderSnapshot,
)
from flowcontrol.link.monitoring.short_numbers import duration
from flowcontrol.report.numbers import percent

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
        return _cause(worst.receiver or None, None, "downstream", (text,), 1.0, "start a receiver")
    reader = readers[0]
    if may_have_stopped(reader):
        text = f"Receiver {reader.name} of {snapshot.label} has not committed for "
        text += f"{duration(reader.silent_s)}."
        return _cause(reader.name, None, "downstream", (text,), 0.8, "check that its query runs")
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
    return _cause(hot.receiver, hot.channel, "key_skew", (text,), 0.9, what)


def _not_busy(snapshot: LinkSnapshot, reader: ReceiverSnapshot) -> Cause | None:
    if reader.busy_ratio > BUSY_ABOVE:
        return None
    text = (
        f"Receiver {reader.name} of {snapshot.label} was busy only "
        f"{percent(reader.busy_ratio)} of the time while its sender waited for buffers."
    )
    what = "more floating_buffers or buffer_bytes"
    return _cause(reader.name, None, "buffers", (text,), 0.8, what)


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
    return _cause(reader.name, None, "external", (text,), 0.7, what)


def _slow(reader: ReceiverSnapshot) -> Cause:
    took = "" if reader.batch_s is None else f", with batches of {duration(reader.batch_s)}"
    text = f"Receiver {reader.name} was busy {percent(reader.busy_ratio)} of the time{took}."
    what = "a faster query, or more receivers side by side"
    return _cause(reader.name, None, "operator", (text,), 0.7, what)


def _cause(
    stage: str | None,
    subtask: int | None,
    word: Word,
    shown: tuple[str, ...],
    sure: float,
    what: str,
) -> Cause:
    return Cause(stage, subtask, word, shown, sure, advice=what)
