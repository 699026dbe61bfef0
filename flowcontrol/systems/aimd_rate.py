"""A rate that grows by steps and falls by a factor: OpenSearch's bulk limiter, and TCP's avoidance.

``BulkRequestRateLimiterImpl`` of OpenSearch for Spark; RFC 5681 with a unit for a segment.
"""

from __future__ import annotations

__all__ = ["BAD", "GOOD", "TIMEOUT", "next_rate", "outcome", "used_rate"]

GOOD, BAD, TIMEOUT = 0, 1, 2
"""What a request has met: an answer in time; a failure that may be tried again, or a late answer;
none at all."""


def outcome(age_ms: float, late_ms: float) -> int:
    """Return what the oldest request has met, by its age; negative if there is none."""
    return BAD if age_ms > late_ms else GOOD


def used_rate(sent: int, window_ms: float) -> float:
    """Return the rate that was measured lately, a second.

    Notes
    -----
    ``RequestRateMeter``: what was sent within the window, over the whole window even while the
    window is older than the flow, so a rate cannot grow in its first seconds.
    """
    return sent * 1000 / window_ms


def next_rate(
    rate: float,
    outcome: int,
    used: float,
    since_fall_ms: int,
    least: float,
    most: float,
    add: float,
    factor: float,
    cooldown_ms: int,
    use_share: float,
) -> tuple[float, int]:
    """Return the rate after a request, and 1 if it fell.

    Parameters
    ----------
    rate : float
        The rate, in whatever a second.
    outcome : int
        :data:`GOOD`, :data:`BAD` or :data:`TIMEOUT`.
    used : float
        Rate that was measured lately: who does not use what it has gets no more.
    since_fall_ms : int
        Time since the rate last fell.
    least, most : float
        Bounds; 500 kB/s and 3500 kB/s.
    add, factor : float
        100 kB/s for a good answer, half for a bad one; a timeout goes to the least.
    cooldown_ms : int
        20 s in which it does not fall again.
    use_share : float
        0.8 of the rate must be used for it to grow.
    """
    if outcome == GOOD:
        grown = min(rate + add, most) if used >= use_share * rate else rate
        return grown, 0
    if since_fall_ms < cooldown_ms:
        return rate, 0
    fallen = least if outcome == TIMEOUT else max(rate * factor, least)
    return fallen, 1
