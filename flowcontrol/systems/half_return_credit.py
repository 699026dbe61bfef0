"""Credit that comes back in lots: permits of Pulsar, demand of Pekko.

``ConsumerImpl.increaseAvailablePermits`` of Apache Pulsar's client; ``ActorGraphInterpreter`` of
Apache Pekko.
"""

from __future__ import annotations

__all__ = ["half", "returned"]


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
