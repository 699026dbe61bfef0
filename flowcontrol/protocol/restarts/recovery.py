"""Moments of a recovery: when the death of a process is seen, and when tasks have their state.

All times are whole microseconds since the start of the run, all sizes bytes. Heartbeats are
Flink's (``reference/checkpoints-and-time.md`` section 4); the length of a restore is a model.
"""

from collections.abc import Hashable, Mapping
from fractions import Fraction

MICROSECONDS = 1_000_000


def silent_death_seen_us(
    failed_us: int, interval_us: int, timeout_us: int, first_us: int = 0
) -> int:
    """When a process that died without a trace is given up: a timeout after its last heartbeat.

    Parameters
    ----------
    failed_us : int
        When it died; a heartbeat at that very moment is still answered.
    interval_us, timeout_us : int
        ``heartbeat.interval`` and ``heartbeat.timeout``.
    first_us : int, default 0
        When its first heartbeat was, or it registered.

    Returns
    -------
    int
        In (timeout - interval, timeout] after the failure.

    Raises
    ------
    ValueError
        If the interval is not positive, the timeout is shorter, or it died before ``first_us``.
    """
    _check_heartbeats(failed_us, interval_us, first_us)
    if timeout_us < interval_us:
        raise ValueError(
            f"heartbeat timeout is {timeout_us} us: needs at least the interval, {interval_us}"
        )
    since_last = (failed_us - first_us) % interval_us
    return failed_us - since_last + timeout_us


def refused_death_seen_us(
    failed_us: int, interval_us: int, threshold: int = 2, first_us: int = 0
) -> int:
    """When a process is given up whose host refuses connections: after some failed heartbeats.

    Parameters
    ----------
    failed_us, interval_us, first_us : int
        As for :func:`silent_death_seen_us`.
    threshold : int, default 2
        Failed heartbeats in a row, at least 1 (``heartbeat.rpc-failure-threshold``; Flink's -1
        switches this off: then only the timeout holds).

    Returns
    -------
    int
        In (threshold - 1, threshold] intervals after the failure.

    Raises
    ------
    ValueError
        If a number is out of range.
    """
    _check_heartbeats(failed_us, interval_us, first_us)
    if threshold < 1:
        raise ValueError(f"threshold is {threshold} failed heartbeats: needs at least 1")
    since_last = (failed_us - first_us) % interval_us
    return failed_us - since_last + threshold * interval_us


def restored_us(
    start_us: int, nbytes: Mapping[Hashable, tuple[int, int]], bytes_per_s: int | Fraction
) -> dict[Hashable, tuple[int, int]]:
    """When the tasks of one task manager have read their in-flight data, and all their state.

    They begin together and share the bandwidth evenly: while a task reads its b-th byte each
    other one has read min(b, its size), so it is there when the sum of these is read.

    Parameters
    ----------
    start_us : int
        When they are deployed.
    nbytes : mapping of task to (int, int)
        In-flight data of an unaligned checkpoint, which is read first, and state; bytes.
    bytes_per_s : int or Fraction
        ``cluster.restore_bytes_per_s``, positive.

    Returns
    -------
    dict of task to (int, int)
        Rounded up to microseconds.

    Raises
    ------
    ValueError
        If a size is negative or the bandwidth not positive.
    """
    if bytes_per_s <= 0:
        raise ValueError(f"restore bandwidth is {bytes_per_s} bytes/s: needs more than 0")
    for task, sizes in nbytes.items():
        if min(sizes) < 0:
            raise ValueError(f"task {task!r} restores {sizes} bytes: none may be negative")
    totals = [sum(sizes) for sizes in nbytes.values()]

    def read_by(size: int) -> int:
        served = sum(min(size, total) for total in totals)
        return start_us + -(-served * MICROSECONDS // Fraction(bytes_per_s))

    return {task: (read_by(sizes[0]), read_by(sum(sizes))) for task, sizes in nbytes.items()}


def _check_heartbeats(failed_us: int, interval_us: int, first_us: int) -> None:
    if interval_us < 1:
        raise ValueError(f"heartbeat interval is {interval_us} us: needs at least 1")
    if failed_us < first_us:
        raise ValueError(f"failed at {failed_us} us: needs the first heartbeat, {first_us}, before")
