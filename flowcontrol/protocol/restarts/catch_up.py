"""How much a failure leaves to be done, and how long a job takes to work it off: closed forms.

A model, no code of Flink (``reference/checkpoints-and-time.md`` section 4, "Model"). Rates are
records/s of the whole source, times whole microseconds.
"""

from fractions import Fraction

MICROSECONDS = 1_000_000


def age_bounds_us(duration_us: int, period_us: int) -> tuple[int, Fraction, int]:
    """Age of the latest completed checkpoint at a failure: least, mean and largest, microseconds.

    Parameters
    ----------
    duration_us : int
        From trigger to completion.
    period_us : int
        From one trigger to the next.

    Notes
    -----
    The age counts from when the barrier left the source. Right after a completion it is the
    duration, right before the next one a period more.
    """
    return duration_us, duration_us + Fraction(period_us, 2), duration_us + period_us


def records_reprocessed(age_us: int, arrival: Fraction | int, capacity: Fraction | int) -> Fraction:
    """Records that are processed again: what the source emitted since the checkpoint.

    Parameters
    ----------
    age_us : int
        From when the restored checkpoint's barrier left the source until the source stopped,
        microseconds: at the failure if it failed, else when it was cancelled.
    arrival, capacity : Fraction or int
        Rates of the input and of the job, records/s; it emitted at the lower one.
    """
    return Fraction(min(arrival, capacity)) * age_us / MICROSECONDS


def backlog_at_restart(
    lag: int | Fraction, reprocessed: int | Fraction, arrival: int | Fraction, downtime_us: int
) -> Fraction:
    """Records to do when the job runs again, microseconds and records.

    Parameters
    ----------
    lag : int or Fraction
        Records that waited at the source when it stopped.
    reprocessed : int or Fraction
        Records that are processed again.
    arrival : int or Fraction
        Records/s that came while it was down.
    downtime_us : int
        From when the source stopped until the job runs, microseconds.
    """
    return Fraction(lag) + Fraction(reprocessed) + Fraction(arrival) * downtime_us / MICROSECONDS


def catch_up_us(
    backlog: int | Fraction,
    capacity: int | Fraction,
    arrival: int | Fraction,
    lag: int | Fraction = 0,
) -> int | None:
    """Time until only the backlog of before the failure is left, microseconds, rounded up.

    Parameters
    ----------
    backlog : int or Fraction
        Records to do at the restart.
    capacity, arrival : int or Fraction
        Records/s that the job can do, and that come.
    lag : int or Fraction, default 0
        Backlog at which it has caught up; 0: all is worked off.

    Returns
    -------
    int or None
        None: never, since the job can do no more than what comes. 0 if nothing is to be made up.

    Raises
    ------
    ValueError
        If a number is negative.
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
