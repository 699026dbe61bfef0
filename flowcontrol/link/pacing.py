"""Which receivers a sender waits for, and how far they are."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from flowcontrol.link.members import Receiver

Consumed = dict[str, list[int]]
"""Messages that each receiver has consumed, per channel, by the receiver's name."""


def consumed_of(receivers: Iterable[Receiver], sender: int, channels: int) -> Consumed:
    """Return how far every receiver is with a sender's channels; 0 where none of its queries reads.

    Parameters
    ----------
    receivers : iterable of Receiver
        As the ledger has them.
    sender : int
        Index of the sender.
    channels : int
        Of the sender.
    """
    found: Consumed = {}
    for receiver in receivers:
        own = found.setdefault(receiver.group, [0] * channels)
        for channel in receiver.channels:
            own[channel] = receiver.cursors(sender, channel).consumed
    return found


def pacing(consumed: Consumed, *, detaches: bool) -> Consumed:
    """Return the receivers whose buffers hold the sender up.

    Parameters
    ----------
    consumed : dict of str to list of int
        Receivers that are attached.
    detaches : bool
        Whether a slow one is cut off: then the fastest sets the pace, else all do.
    """
    if not detaches or len(consumed) < 2:
        return consumed
    fastest = max(consumed, key=lambda group: sum(consumed[group]))
    return {fastest: consumed[fastest]}


def least(consumed: Mapping[str, list[int]], channels: int) -> list[int]:
    """Return the messages of each channel that all of some receivers have consumed."""
    if not consumed:
        return [0] * channels
    return [min(counts) for counts in zip(*consumed.values(), strict=True)]
