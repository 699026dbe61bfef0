"""Spark Streaming's rate estimator: the source's rate follows the speed of completed batches.

``PIDRateEstimator.compute``, ``RateController`` and ``RateLimiter`` of Apache Spark's streaming
module (1.5 to 4.x). The "integral" part is no accumulator: it is the share of the batch interval
that batches have waited, so nothing winds up.
"""

from __future__ import annotations

from flowcontrol.protocol.ratios import MOST

__all__ = ["FIRST", "partition_limit", "pid_rate", "published_rate"]

HIGHEST = float(MOST)
"""Rate that is told from a higher one no more, records/s."""

FIRST = -1.0
"""What rate, error and time are before the first batch."""


def pid_rate(
    rate: float,
    error: float,
    last_ms: float,
    end_ms: float,
    records: int,
    processing_ms: float,
    scheduling_ms: float,
    interval_ms: float,
    proportional: float,
    integral: float,
    derivative: float,
    floor: float,
) -> tuple[float, float, float, int]:
    """Take notice of a completed batch.

    Parameters
    ----------
    rate, error, last_ms : float
        What the call before returned; :data:`FIRST` at the beginning. Records/s, records/s, ms.
    end_ms : float
        When the batch was done, ms.
    records : int
        Records in it.
    processing_ms, scheduling_ms : float
        How long it took, and how long it had waited for the batches before it, ms.
    interval_ms : float
        Batch interval, ms.
    proportional, integral, derivative : float
        Gains; Spark's are 1, 0.2 and 0.
    floor : float
        Least rate, records/s; Spark's is 100.

    Returns
    -------
    tuple of (float, float, float, int)
        Rate, error and time to hand in next time; 1 if the rate is a result, else 0: the first
        batch only starts the estimate, and a batch that is empty or took no time changes nothing.
    """
    if end_ms <= last_ms or records <= 0 or processing_ms <= 0:
        return rate, error, last_ms, 0
    speed = records / processing_ms * 1000
    if last_ms < 0:
        return speed, 0.0, end_ms, 0
    seconds = (end_ms - last_ms) / 1000
    found = rate - speed
    waited = scheduling_ms * speed / interval_ms
    change = (found - error) / seconds
    new = rate - proportional * found - integral * waited - derivative * change
    return max(new, floor), found, end_ms, 1


def published_rate(rate: float, most: float) -> int:
    """Return the rate that receivers are told, records/s: whole, and no more than their limit.

    Parameters
    ----------
    rate : float
        A result of :func:`pid_rate`.
    most : float
        ``spark.streaming.receiver.maxRate``; 0 or less: no limit.
    """
    whole = int(min(rate, HIGHEST))
    return min(whole, int(most)) if most > 0 else whole


def partition_limit(
    published: int, lag: int, total_lag: int, most_per_s: float, least: int, interval_ms: float
) -> int:
    """Return how many records of one Kafka partition the next batch may have; -1 for no limit.

    Parameters
    ----------
    published : int
        Rate of all partitions, records/s; 0 or less: none yet.
    lag, total_lag : int
        Records that wait in the partition, and in all.
    most_per_s : float
        ``maxRatePerPartition``; 0: no limit.
    least : int
        ``minRatePerPartition``: floor of what comes out, records per batch.

    Notes
    -----
    ``DirectKafkaInputDStream.maxMessagesPerPartition`` of Spark 4: shares by lag, each cut by the
    partition's limit, times the seconds of a batch. Older versions rounded the share to whole
    records a second first. Without lag nothing is shared out.
    """
    if published <= 0:
        rate = most_per_s
    else:
        share = lag / total_lag * published if total_lag > 0 else 0.0
        rate = min(share, most_per_s) if most_per_s > 0 else share
    if rate <= 0:
        return -1 if published <= 0 else least
    return max(int(interval_ms / 1000 * rate), least)
