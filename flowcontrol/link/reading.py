"""How much of a channel a receiver reads: whole rows, within messages and bytes that it may take.

Integers and the log of one channel, nothing else. A message's bytes are spread evenly over its
rows, so that what is read of it in several batches adds up to exactly its weight.
"""

from __future__ import annotations

from typing import NamedTuple

from flowcontrol.ledger.channel_log import ChannelLog


class Taken(NamedTuple):
    """What a batch reads of a channel."""

    rows: int
    nbytes: int
    messages: int
    """Number of the message after the last one that it touches."""


def unread_bytes(log: ChannelLog, position: int, reach: int) -> int:
    """Return the bytes of the rows from a record on that end before a message.

    Parameters
    ----------
    position : int
        Number of the first record that was not read.
    reach : int
        Number of the message; it is not read.
    """
    first = log.holding(position)
    if first >= reach:
        return 0
    message = log.message(first)
    done = position - message.start
    read = message.weight * done // max(1, message.end - message.start)
    return log.weight(first, reach) - read


def take_rows(log: ChannelLog, position: int, reach: int, budget: int, *, least: int = 0) -> Taken:
    """Return how many rows fit into a budget.

    Parameters
    ----------
    position : int
        Number of the first record that was not read.
    reach : int
        Number of the message before which the last row must end.
    budget : int
        Most bytes of all rows; what :func:`unread_bytes` says takes all.
    least : int, default 0
        Rows of the first message to take however large they are.
    """
    start, left, number = position, budget, log.holding(position)
    touched = min(number, reach)
    while number < reach:
        message = log.message(number)
        rows, done = message.end - message.start, position - message.start
        if rows:
            read, weight = message.weight * done // rows, max(1, message.weight)
            fitting = ((left + read + 1) * rows - 1) // weight - done
            count = min(rows - done, max(least, fitting))
            if count <= 0:
                break
            position += count
            left -= message.weight * (done + count) // rows - read
        number += 1
        touched = number
        if position < message.end:
            break
        least = 0
    return Taken(position - start, budget - left, touched)
