"""AMQP's credit: what may ever be delivered, so that a lost or repeated grant does no harm.

OASIS AMQP 1.0, core transport 2.6.7; RabbitMQ's limits; Reactive Streams 1.0.4, whose demand adds
up.
"""

from __future__ import annotations

__all__ = ["UNBOUNDED", "credit", "delivery_limit", "requested", "topped_up"]

UNBOUNDED = (1 << 63) - 1
"""Demand from which a publisher need not count any more (Reactive Streams 3.17)."""


def delivery_limit(receiver_count: int, link_credit: int) -> int:
    """Return the number of deliveries that the receiver's newest flow allows, ever."""
    return receiver_count + link_credit


def credit(limit: int, sender_count: int) -> int:
    """Return what a sender may deliver now, by the newest limit that it knows; never negative."""
    return max(0, limit - sender_count)


def topped_up(left: int, most: int, mark: int) -> int:
    """Return the credit that a receiver adds: up to ``most`` once no more than ``mark`` is left.

    Parameters
    ----------
    left : int
        Credit that the sender has by the receiver's count.
    most, mark : int
        128 a link in RabbitMQ, topped up at half.

    Returns
    -------
    int
        Credit that is added.
    """
    return most - left if left <= mark else 0


def requested(demand: int, more: int) -> int:
    """Return the total demand after a subscriber has requested more (Reactive Streams 3.8, 3.17).

    Raises
    ------
    ValueError
        If ``more`` is not positive (3.9).
    """
    if more <= 0:
        raise ValueError(f"request({more}): demand must be positive (Reactive Streams 3.9)")
    return UNBOUNDED if demand > UNBOUNDED - more else demand + more
