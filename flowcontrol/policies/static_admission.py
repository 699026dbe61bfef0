"""Structured Streaming's limits: fixed numbers per trigger, whatever the sink does.

``ReadLimit`` and its kinds, ``KafkaMicroBatchStream``, Delta's ``DeltaSource`` (Spark 3.0 to 4.2).
"""

from __future__ import annotations

__all__ = ["admitted", "is_skipped", "next_trigger", "partition_share", "takes_file"]


def admitted(backlog: int, most: int) -> int:
    """Return the rows of a batch; ``most`` of 0 or less is no limit."""
    return min(backlog, most) if most > 0 else backlog


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
    A share below one is rounded up, any other down, and never past the partition's end: the sum may
    be a little more or less than ``most``.
    """
    if total <= most:
        return size
    share = most * size / total
    whole = -int(-share // 1) if share < 1 else int(share)
    return min(whole, size)


def takes_file(files: int, nbytes: int, most_files: int, most_bytes: int) -> int:
    """Tell whether Delta's source admits one more file: 1 while any capacity is left.

    Parameters
    ----------
    files, nbytes : int
        Admitted so far.
    most_files, most_bytes : int
        Limits; negative: none. So the last file may go over the bytes, and one is always taken.
    """
    is_full = (most_files >= 0 and files >= most_files) or (
        most_bytes >= 0 and nbytes >= most_bytes
    )
    return 0 if is_full and files > 0 else 1


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
