"""A recovery in closed form: its course, the backlog that it leaves, and the time to catch up.

A run counts these in its rounds. The order of the steps is Flink's
(``reference/checkpoints-and-time.md`` section 4), the rest a model, no code of Flink. All times are
whole microseconds, moments since the start of the run; rates are records/s of the whole source.
"""

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction

from flowcontrol.protocol.restarts import MICROSECONDS
from flowcontrol.spec.functions import restored_us


def task_failure_seen_us(failed_us: int, latency_us: int = 0) -> int:
    """When the JobMaster learns of a task that failed by itself: a message later.

    ``updateTaskExecutionState``. A broken data connection is seen like this by its receiver.
    """
    return failed_us + latency_us


def cancelled_us(detected_us: int, cancel_us: Iterable[int], latency_us: int = 0) -> int:
    """When the last task is cancelled: the message there, what it has in hand, the answer.

    ``cancel_us``: of each task that still runs: what it takes to stop. None left: at once.
    """
    longest = max(cancel_us, default=None)
    return detected_us if longest is None else detected_us + 2 * latency_us + longest


def restart_us(detected_us: int, delay_us: int, cancelled: int) -> int:
    """When the restart begins: the delay is over and all tasks are cancelled.

    ``DefaultScheduler.restartTasksWithDelay``: the delay counts from the failure's report and
    runs while tasks are being cancelled.
    """
    return max(detected_us + delay_us, cancelled)


@dataclass(frozen=True)
class Recovery:
    """The moments of a recovery, microseconds since the start of the run, in their order."""

    # The failure, its report at the JobMaster, the last task's end.
    failed_us: int
    detected_us: int
    cancelled_us: int
    restarted_us: int  # The delay is over: slots are asked for
    deployed_us: int  # All tasks of the region are deployed and begin to restore
    running_us: int  # The last task runs

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

    - ``failed_us``, ``detected_us``: microseconds; the second by one of the functions of detection.
    - ``cancel_us``: as :func:`cancelled_us` takes it.
    - ``slots_us``, ``deployment_us``: until all slots are there; from then until all tasks are
      deployed.
    - ``restores``: for each task manager what :func:`restored_us` takes.

    Raises ValueError if it is detected before it happened, or as :func:`restored_us`.
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


def age_bounds_us(duration_us: int, period_us: int) -> tuple[int, Fraction, int]:
    """Age of the latest completed checkpoint at a failure: least, mean and largest, microseconds.

    The age counts from when the barrier left the source. Right after a completion it is the
    duration, right before the next one a period more.
    """
    return duration_us, duration_us + Fraction(period_us, 2), duration_us + period_us


def records_reprocessed(age_us: int, arrival: Fraction | int, capacity: Fraction | int) -> Fraction:
    """Records that are processed again: what the source emitted since the checkpoint.

    - ``age_us``: from when the restored checkpoint's barrier left the source until the source
      stopped, microseconds: at the failure if it failed, else when it was cancelled.
    - ``arrival``, ``capacity``: rates of the input and of the job, records/s; it emitted at the
      lower one.
    """
    return Fraction(min(arrival, capacity)) * age_us / MICROSECONDS


def backlog_at_restart(
    lag: int | Fraction, reprocessed: int | Fraction, arrival: int | Fraction, downtime_us: int
) -> Fraction:
    """Records to do when the job runs again, microseconds and records.

    - ``lag``: records that waited at the source when it stopped.
    - ``downtime_us``: from when the source stopped until the job runs, microseconds.
    """
    return Fraction(lag) + Fraction(reprocessed) + Fraction(arrival) * downtime_us / MICROSECONDS


def catch_up_us(
    backlog: int | Fraction,
    capacity: int | Fraction,
    arrival: int | Fraction,
    lag: int | Fraction = 0,
) -> int | None:
    """Time until only the backlog of before the failure is left, microseconds, rounded up.

    ``lag``: backlog at which it has caught up; 0: all is worked off.

    None: never, since the job can do no more than what comes. 0 if nothing is to be made up. Raises
    ValueError if a number is negative.
    """
    if min(backlog, capacity, arrival, lag) < 0:
        raise ValueError(
            f"backlog {backlog}, capacity {capacity}, arrival {arrival}, lag {lag}: "
            "none may be negative"
        )
    missing = Fraction(backlog) - Fraction(lag)
    if missing <= 0:
        return 0
    spare = Fraction(capacity) - Fraction(arrival)
    return None if spare <= 0 else -(-missing * MICROSECONDS // spare)
