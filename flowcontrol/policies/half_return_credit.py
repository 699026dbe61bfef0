"""Credit that comes back in lots: permits of Pulsar, demand of Pekko, two numbers of RabbitMQ.

``ConsumerImpl.increaseAvailablePermits`` of Apache Pulsar's client; ``ActorGraphInterpreter`` of
Apache Pekko; ``credit_flow.erl`` of RabbitMQ, where the lot is a number of its own.
"""

from __future__ import annotations

__all__ = ["half", "returned", "two_number_return"]


def half(size: int) -> int:
    """Return the lot of Pulsar and Pekko: half of the queue, rounded down, at least 1."""
    return max(1, size // 2)


def returned(available: int, taken: int, lot: int, is_paused: int) -> tuple[int, int]:
    """Count what was taken from a queue, and give permits back when there are enough.

    Parameters
    ----------
    available : int
        Permits that have come free and were not given back.
    taken : int
        Messages taken now.
    lot : int
        Permits from which all are given back at once.
    is_paused : int
        1 if the consumer withholds them.

    Returns
    -------
    tuple of (int, int)
        Permits that are kept, and those that the sender gets.
    """
    available += taken
    if is_paused == 1 or available < lot:
        return available, 0
    return 0, available


def two_number_return(handled: int, taken: int, more_after: int) -> tuple[int, int]:
    """Count what a RabbitMQ process has handled; grant ``more_after`` each time so many are done.

    Parameters
    ----------
    handled : int
        Messages handled since the last grant.
    taken : int
        Messages handled now.
    more_after : int
        200 with an initial credit of 400; 0 switches the credit off.

    Returns
    -------
    tuple of (int, int)
        Messages since the last grant, and what is granted.
    """
    if more_after <= 0:
        return 0, taken
    handled += taken
    granted = handled // more_after * more_after
    return handled - granted, granted
