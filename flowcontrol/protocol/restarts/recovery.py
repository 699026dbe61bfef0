"""The course of a recovery, moment by moment: seen, cancelled, restarted, deployed, running.

All times are whole microseconds since the start of the run, all sizes bytes. Heartbeats and the
order of the steps are Flink's (``reference/checkpoints-and-time.md`` section 4); the lengths of
deployment and restore are a model.
"""

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction

MICROSECONDS = 1_000_000


def task_failure_seen_us(failed_us: int, latency_us: int = 0) -> int:
    """When the JobMaster learns of a task that failed by itself: a message later.

    Notes
    -----
    ``updateTaskExecutionState``. A broken data connection is seen like this by its receiver.
    """
    return failed_us + latency_us


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


def cancelled_us(detected_us: int, cancel_us: Iterable[int], latency_us: int = 0) -> int:
    """When the last task is cancelled: the message there, what it has in hand, the answer.

    Parameters
    ----------
    detected_us : int
        When the JobMaster began to cancel.
    cancel_us : iterable of int
        Of each task that still runs: what it takes to stop. None left: at once.
    latency_us : int, default 0
        Of a message.
    """
    longest = max(cancel_us, default=None)
    return detected_us if longest is None else detected_us + 2 * latency_us + longest


def restart_us(detected_us: int, delay_us: int, cancelled: int) -> int:
    """When the restart begins: the delay is over and all tasks are cancelled.

    Notes
    -----
    ``DefaultScheduler.restartTasksWithDelay``: the delay counts from the failure's report and
    runs while tasks are being cancelled.
    """
    return max(detected_us + delay_us, cancelled)


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


@dataclass(frozen=True)
class Recovery:
    """The moments of a recovery, microseconds since the start of the run, in their order.

    Attributes
    ----------
    failed_us, detected_us, cancelled_us : int
        The failure, its report at the JobMaster, the last task's end.
    restarted_us : int
        The delay is over: slots are asked for.
    deployed_us : int
        All tasks of the region are deployed and begin to restore.
    running_us : int
        The last task runs.
    """

    failed_us: int
    detected_us: int
    cancelled_us: int
    restarted_us: int
    deployed_us: int
    running_us: int

    @property
    def downtime_us(self) -> int:
        """From the failure to the last task's running, microseconds."""
        return self.running_us - self.failed_us


def recover(
    failed_us: int,
    detected_us: int,
    *,
    delay_us: int,
    cancel_us: Iterable[int] = (),
    latency_us: int = 0,
    slots_us: int = 0,
    deployment_us: int = 0,
    restores: Iterable[Mapping[Hashable, tuple[int, int]]] = (),
    restore_bytes_per_s: int | Fraction = 1,
) -> Recovery:
    """Put the steps of a recovery together.

    Parameters
    ----------
    failed_us, detected_us : int
        Microseconds; the second by one of the functions of detection.
    delay_us : int
        Of the restart strategy.
    cancel_us : iterable of int
        As :func:`cancelled_us` takes it.
    latency_us : int, default 0
        Of a message.
    slots_us, deployment_us : int, default 0
        Until all slots are there; from then until all tasks are deployed.
    restores : iterable of mapping
        For each task manager what :func:`restored_us` takes.
    restore_bytes_per_s : int or Fraction, default 1
        Of one task manager.

    Raises
    ------
    ValueError
        If it is detected before it happened, or as :func:`restored_us`.
    """
    if detected_us < failed_us:
        raise ValueError(f"detected at {detected_us} us: needs the failure, {failed_us}, or later")
    cancelled = cancelled_us(detected_us, cancel_us, latency_us)
    restarted = restart_us(detected_us, delay_us, cancelled)
    deployed = restarted + slots_us + deployment_us
    ends = [
        whole
        for nbytes in restores
        for _, whole in restored_us(deployed, nbytes, restore_bytes_per_s).values()
    ]
    running = max(ends, default=deployed)
    return Recovery(failed_us, detected_us, cancelled, restarted, deployed, running)


def _check_heartbeats(failed_us: int, interval_us: int, first_us: int) -> None:
    if interval_us < 1:
        raise ValueError(f"heartbeat interval is {interval_us} us: needs at least 1")
    if failed_us < first_us:
        raise ValueError(f"failed at {failed_us} us: needs the first heartbeat, {first_us}, before")
