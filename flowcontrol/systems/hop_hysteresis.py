"""A switch per hop: the receiver's queue tells its senders to stop and to go on.

JStorm 2.2 and later (``NettyServerFlowCtrlHandler``): marks of the fill, strictly above and
strictly below. Storm 2 (``BackPressureTracker``): a flag that is set when a tuple goes to the
overflow and cleared, when it is looked at every 50 ms, once the overflow is empty.
"""

from __future__ import annotations

__all__ = ["is_flagged", "is_on"]


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
