"""Rates and shares of time, from when micro-batches ran. Pure: no clock, no files.

The window is the last seconds. A micro-batch may be longer than that, so what counts is every
batch that ended within the window, or else the newest one that ended.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

Time = tuple[float, float]
"""From when to when, Unix time, seconds."""

PATIENCE = 3.0
"""Usual times of a batch after which a side that is silent counts as having stopped."""


def recent(times: Sequence[Time], since: float) -> int:
    """Return how many of the last batches count: those that ended after ``since``, or one.

    Parameters
    ----------
    times : sequence of Time
        Of batches that have ended, in order.
    since : float
        Begin of the window, Unix time, s.
    """
    count = sum(end > since for _, end in times)
    return count or min(1, len(times))


def mean_length(times: Sequence[Time]) -> float | None:
    """Return how long a batch takes on average, s; None without any."""
    if not times:
        return None
    return sum(end - start for start, end in times) / len(times)


def spread_time(times: Sequence[Time], now: float, window_s: float) -> float:
    """Return the time over which recent batches moved their rows, idle time counted.

    Parameters
    ----------
    times : sequence of Time
        Of the recent batches, in order.
    now : float
        Unix time, s.
    window_s : float
        Length of the window, s.

    Returns
    -------
    float
        Seconds from the start of the first to the end of the last. The time since then counts as
        far as it is longer than a batch usually takes: only then the next one is late. 0 if there
        are none, or none for longer than the window and three batches: nothing moves.
    """
    usual = mean_length(times)
    if usual is None:
        return 0.0
    silent = now - times[-1][1]
    if silent > max(window_s, PATIENCE * usual):
        return 0.0
    return times[-1][1] - times[0][0] + max(0.0, silent - usual)


def busy_rate(
    amount: float, length_s: float, running: tuple[float, float] | None = None
) -> float | None:
    """Return what is moved per second while a batch runs.

    Parameters
    ----------
    amount, length_s : float
        What the recent batches moved, and how long they took together.
    running : tuple of (float, float), optional
        The same of the batch that runs, so far. If it takes longer than the others let expect
        it lowers the rate, as if it ended now.

    Returns
    -------
    float or None
        None as long as no batch has ended.
    """
    if length_s <= 0:
        return None
    found = amount / length_s
    if running is not None:
        found = min(found, (amount + running[0]) / (length_s + max(0.0, running[1])))
    return found


def share(intervals: Iterable[Time], since: float, now: float) -> float:
    """Return the share of the time from ``since`` to ``now`` that intervals cover, 0 to 1."""
    if now <= since:
        return 0.0
    covered = sum(max(0.0, min(end, now) - max(start, since)) for start, end in intervals)
    return min(1.0, covered / (now - since))
