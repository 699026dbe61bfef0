"""gRPC's window: it doubles while a round trip fills it and no bandwidth was higher before.

``bdp_estimator.go`` of gRPC for Go: ``bwCurrent == bwMax`` once the maximum has taken the sample
in, so a bandwidth that equals the highest counts. gRPC's C++ core differs: there it must be a new
high. The window only grows.
"""

from __future__ import annotations

__all__ = ["ALPHA", "BETA", "GAMMA", "INITIAL_BYTES", "MOST_BYTES", "SETTLING", "next_window"]

ALPHA, BETA, GAMMA = 0.9, 0.66, 2
"""Weight of the old round trip in the mean; share that a sample must fill; growth."""

INITIAL_BYTES, MOST_BYTES = 65_535, 16 << 20

SETTLING = 10
"""Samples for which the mean of round trips is a plain one."""


def next_window(
    window: int,
    trip_s: float,
    highest: float,
    samples: int,
    sample: int,
    measured_s: float,
    most: int,
) -> tuple[int, float, float, int]:
    """Take notice of a round trip: the bytes that came in it, and how long it took.

    Parameters
    ----------
    window : int
        The window, bytes.
    trip_s, highest : float
        Mean round trip, s, and the highest bandwidth so far, whole bytes/s; 0 at the beginning.
    samples : int
        Round trips so far.
    sample : int
        Bytes received during this one.
    measured_s : float
        How long it took, s.
    most : int
        The window does not grow any more from here, bytes.

    Returns
    -------
    tuple of (int, float, float, int)
        The four that are handed in next time.

    Notes
    -----
    The bandwidth is sample / (1.5 x mean round trip): a ping leaves, on average, half a trip late.
    It is compared in whole bytes/s, which is how a channel's row keeps the highest one.
    """
    samples += 1
    if samples < SETTLING:
        trip_s += (measured_s - trip_s) / samples
    else:
        trip_s += (measured_s - trip_s) * ALPHA
    bandwidth = float(round(sample / (trip_s * 1.5))) if trip_s > 0 else 0.0
    is_highest = bandwidth >= highest
    highest = max(highest, bandwidth)
    if window < most and is_highest and sample >= BETA * window:
        window = min(GAMMA * sample, most)
    return window, trip_s, highest, samples
