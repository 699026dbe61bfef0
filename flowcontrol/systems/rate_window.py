"""Hazelcast Jet's receive window: three periods of what was lately worked off.

``ReceiverTasklet`` and ``SenderTasklet`` of Jet 4.5 and Hazelcast 5. Everything is counted in units
of 64 KiB of the items' weight. A grant is cumulative: the units that may ever have been sent.
"""

from __future__ import annotations

from flowcontrol.protocol.ratios import MOST

__all__ = ["INITIAL_UNITS", "ITEM_OVERHEAD", "UNIT_BYTES", "next_window", "units"]

UNIT_BYTES = 1 << 16
"""Bytes of a unit."""

ITEM_OVERHEAD = 56
"""Bytes that an item weighs beside its own."""

INITIAL_UNITS = 800
"""Window at the beginning, about 50 MiB."""


def units(nbytes: int, unit: int) -> int:
    """Return whole units of a number of bytes."""
    return nbytes // unit


def next_window(
    window: int,
    acked: int,
    acked_before: int,
    elapsed: int,
    period: int,
    multiplier: int,
    is_empty: int,
) -> int:
    """Return the window after a period.

    Parameters
    ----------
    window : int
        The window, units.
    acked, acked_before : int
        Units ever handed to the tasklet behind, now and when the window was last set.
    elapsed, period : int
        Time since then, and the time between two flow-control packets, in the same unit.
    multiplier : int
        ``receiveWindowMultiplier``, 3.
    is_empty : int
        1 if the inbox is empty: a receiver that starves is not slow, so its window does not shrink.

    Notes
    -----
    It goes half of the way, rounded towards zero: from below it stops one unit short.
    """
    per_period = min(-(-period * (acked - acked_before) // elapsed), MOST // multiplier)
    difference = multiplier * per_period - window
    if difference < 0 and is_empty == 1:
        return window
    return window + (difference // 2 if difference >= 0 else -(-difference // 2))
