"""A switch per hop: the receiver's queue tells its senders to stop and to go on.

JStorm 2.2 and later (``NettyServerFlowCtrlHandler``): marks of the fill, strictly above and
strictly below. Storm 2 (``BackPressureTracker``): a flag that is set when a tuple goes to the
overflow and cleared, when it is looked at every 50 ms, once the overflow is empty.
"""

from __future__ import annotations

__all__ = ["cached_grant", "is_flagged", "is_on", "is_repeated"]


def is_on(was: int, queued: int, cached: int, slots: int, high: float, low: float) -> int:
    """Return whether JStorm's receiver holds its senders up.

    Parameters
    ----------
    was : int
        Whether it does.
    queued, slots : int
        Tuples in the queue, and its size.
    cached : int
        Tuples that came when the queue was full, put aside at the receiver.
    high, low : float
        Shares; 0.8 and 0.2.
    """
    if was == 0:
        return 1 if queued > high * slots else 0
    return 0 if queued < low * slots and cached == 0 else 1


def cached_grant(is_held: int, cached_bytes: int, batch_bytes: int) -> int:
    """Return how many bytes more JStorm's sender takes before it blocks; -1 for no limit.

    Parameters
    ----------
    is_held : int
        What the receiver has last said.
    cached_bytes : int
        What the sender holds back.
    batch_bytes : int
        Size of a batch, 64 KiB: so much is kept, then the sender blocks.
    """
    return -1 if is_held == 0 else max(0, batch_bytes - cached_bytes)


def is_flagged(was: int, overflow: int, is_check: int) -> int:
    """Return whether Storm 2's receiver has a task under pressure.

    Parameters
    ----------
    was : int
        Whether it has.
    overflow : int
        Tuples in the task's overflow: any there sets the flag at once.
    is_check : int
        1 every ``topology.backpressure.check.millis``: only then it is cleared, and however full
        the queue itself is.
    """
    if overflow > 0:
        return 1
    return 0 if is_check == 1 else was


def is_repeated(overflow: int, said: int, step: int) -> int:
    """Tell whether Storm 2 says again that a task is under pressure: 1 after ``step`` tuples more.

    Parameters
    ----------
    overflow, said : int
        Tuples in the overflow now, and when it was last said.
    step : int
        10,000 in Storm 2.8.
    """
    return 1 if overflow - said > step else 0
