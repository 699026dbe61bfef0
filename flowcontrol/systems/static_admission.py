"""Structured Streaming's limits: fixed numbers per trigger, whatever the sink does.

``ReadLimit`` and its kinds, ``KafkaMicroBatchStream``, Delta's ``DeltaSource`` (Spark 3.0 to 4.2).
Kafka Streams' polls (``StreamThread.runOnce``) are the same with other limits.
"""

from __future__ import annotations

import math

__all__ = ["is_skipped", "next_trigger", "partition_share"]


def is_skipped(backlog: int, least: int, since_ms: int, delay_ms: int) -> int:
    """Tell whether a trigger makes no batch: 1 if too few rows wait and too little time has passed.

    Parameters
    ----------
    backlog, least : int
        Rows that wait, and ``minOffsetsPerTrigger``; 0: none.
    since_ms, delay_ms : int
        Time since the last batch, and ``maxTriggerDelay``, 15 min. Before the first batch the time
        since 1970, so that one is made.
    """
    return 1 if backlog < least and since_ms < delay_ms else 0


def partition_share(size: int, total: int, most: int) -> int:
    """Return the rows of one Kafka partition, in proportion to what waits there.

    Notes
    -----
    ``KafkaMicroBatchStream.rateLimit``: limit * (size / total) in doubles, in this order. A share
    below one is rounded up, any other down, and never past the partition's end, so the sum may be a
    little more or less than ``most``; 290 of 1,000 at a limit of 100 are 28, for 290 / 1,000 * 100
    is 28.999999999999996. Nothing is special about a limit that covers all that waits: then, too, a
    partition may keep a record back.
    """
    if total < 1:
        return size
    share = most * (size / total)
    return min(math.ceil(share) if share < 1 else math.floor(share), size)


def next_trigger(started: int, ended: int, interval: int) -> int:
    """Return when the next batch begins: at the next tick, or at once if a tick was missed.

    Parameters
    ----------
    started, ended : int
        When the batch before began and ended.
    interval : int
        Of the trigger, in the same unit of time; 0: no trigger.

    Notes
    -----
    ``ProcessingTimeExecutor``: ticks are whole multiples of the interval.
    """
    if interval <= 0:
        return ended
    tick = (started // interval + 1) * interval
    return tick if ended <= tick else ended
