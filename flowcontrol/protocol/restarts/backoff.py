"""The three rules by which Flink decides on a restart, each a function of what it remembers.

Source: ``FixedDelayRestartBackoffTimeStrategy``, ``FailureRateRestartBackoffTimeStrategy`` and
``ExponentialDelayRestartBackoffTimeStrategy`` of Flink 1.20.
"""

from collections.abc import Sequence
from hashlib import blake2b

LONGEST = (1 << 63) - 1
"""Java's largest long: what a delay is cut to that has grown beyond it."""


def fixed_allows(failures: int, attempts: int) -> bool:
    """Tell whether a fixed-delay strategy restarts after so many failures."""
    return failures <= attempts


def rate_allows(failed_at: Sequence[int], failures: int, interval: int, now: int) -> bool:
    """Tell whether a failure-rate strategy restarts.

    Parameters
    ----------
    failed_at : sequence of int
        When the latest failures were, oldest first, at most ``failures`` + 1 of them, ms.
    failures : int
        Most failures in an interval.
    interval : int
        Its length, ms.
    now : int
        Milliseconds.

    Notes
    -----
    One failure more than allowed is kept: if it is there, the oldest must be *more* than an
    interval ago.
    """
    return len(failed_at) <= failures or now - failed_at[0] > interval


def exponential_delay(
    initial: int, maximum: int, multiplier: float, jitter: float, attempt: int, seed: int, draw: int
) -> int:
    """Delay before a restart of an exponential-delay strategy, ms.

    Parameters
    ----------
    initial, maximum : int
        Bounds of the delay, ms.
    multiplier : float
        Growth from one attempt to the next.
    jitter : float
        Largest deviation, as a share of the delay.
    attempt : int
        Restarts since the delay was reset, from 0.
    seed, draw : int
        Of the deviation, and its number: one that is not drawn again after a reset.

    Notes
    -----
    ``calculateActualBackoffTime``: the deviation belongs to the delay before it is cut to the
    maximum, so a delay far above the maximum has none.
    """
    try:
        delay = int(min(initial * multiplier**attempt, float(LONGEST)))
    except OverflowError:  # Java's power is infinite then
        delay = LONGEST
    return max(initial, min(delay + deviation(int(delay * jitter), seed, draw), maximum))


def deviation(most: int, seed: int, number: int) -> int:
    """Return an integer uniform in [-most, most], drawn from a seed and the number of the draw."""
    digest = blake2b(f"{seed}/{number}".encode(), digest_size=16).digest()
    return int.from_bytes(digest, "big") % (2 * most + 1) - most
