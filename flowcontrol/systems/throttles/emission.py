"""How far apart two emissions of a source are at least, ns: what a rate or a sleep comes to."""

from __future__ import annotations

from flowcontrol.protocol.ratios import MOST

NS_PER_S = 1_000_000_000
NS_PER_MS = 1_000_000


def rate_gap_ns(rate: float) -> int:
    """Return the time between two emissions at a rate, records/s, rounded up: never faster.

    A rate so low that no run sees a second emission gives the longest time, ``MOST``.
    """
    return MOST if rate * MOST <= NS_PER_S else -int(-NS_PER_S // rate)


def sleep_gap_ns(sleep_ms: int, rate: float) -> int:
    """Return the time between two emissions of a source that sleeps after each; 0: no sleep.

    Parameters
    ----------
    sleep_ms : int
        What it sleeps.
    rate : float
        What it emits without, records/s: its own time for a record is added. 0: none to add.
    """
    if sleep_ms <= 0:
        return 0
    own = rate_gap_ns(rate) if rate > 0 else 0
    return sleep_ms * NS_PER_MS + own
