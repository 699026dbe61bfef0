"""JStorm's coordinated slow-down: bolts vote, the spouts sleep longer after every tuple.

``BackpressureTrigger``, ``BackpressureCoordinator`` and ``BackpressureController`` of JStorm 2.1.1.
Times are whole milliseconds, as there. A controller is three of them: ``sleep``, and the largest
and the smallest bound that it has had, all 0 at rest.
"""

from __future__ import annotations

__all__ = [
    "NOTHING",
    "START",
    "STOP",
    "faster",
    "is_start_due",
    "is_stop_forwarded",
    "is_widespread",
    "slower",
    "tally",
    "vote",
]

START, STOP, NOTHING = 1, -1, 0

SURPRISE_MS = 5
"""An execution time that beats the largest by more than this is taken notice of at once."""


def vote(fill: float, high: float, low: float) -> int:
    """Return what a sample of a bolt's queue says: :data:`START`, :data:`STOP`, :data:`NOTHING`.

    Parameters
    ----------
    fill : float
        Share of the receive queue that is taken.
    high, low : float
        Marks; JStorm's are 0.8 and 0.05.
    """
    if fill > high:
        return START
    return STOP if fill <= low else NOTHING


def tally(starts: int, stops: int, samples: int, ratio: float, is_pressed: int) -> int:
    """Return what a bolt reports after its last sample.

    Parameters
    ----------
    starts, stops : int
        Votes of either kind.
    samples : int
        All samples; JStorm takes 4.
    ratio : float
        Share of samples that is needed; 1 as shipped, 0.75 without a file.
    is_pressed : int
        1 since the bolt has reported a start, until the coordinator tells it that all spouts above
        it go at full speed again: until then it reports a stop each time.
    """
    if starts > stops and starts / samples >= ratio:
        return START
    if is_pressed == 1 and stops / samples >= ratio:
        return STOP
    return NOTHING


def is_start_due(
    elapsed: int, period: int, was_start: int, execute_ms: int, largest_ms: int
) -> int:
    """Tell whether the coordinator takes notice of a start for a spout: 1 if so.

    Parameters
    ----------
    elapsed, period : int
        Since it last took notice of one for this spout, and interval x samples, in one unit of
        time. Before the first it is due.
    was_start : int
        1 if that was a start.
    execute_ms, largest_ms : int
        The bolt's last execution time, and the largest that the spout's bolts have last reported.
    """
    is_surprise = execute_ms >= 0 and execute_ms > largest_ms + SURPRISE_MS
    return 1 if elapsed >= period or was_start == 0 or is_surprise else 0


def is_widespread(pressed: int, tasks: int, share: float) -> int:
    """Tell whether a start that is due is handed on to the spouts: 1 if so.

    Parameters
    ----------
    pressed, tasks : int
        Tasks of the bolt that are under pressure, and all.
    share : float
        ``topology.backpressure.coordinator.trigger.ratio``, 0.1: very few tasks shall not slow the
        whole job.
    """
    return 1 if pressed / tasks >= share else 0


def is_stop_forwarded(elapsed: int, period: int) -> int:
    """Tell whether the coordinator hands a stop on to the spouts: 1 if so."""
    return 1 if elapsed >= period else 0


def slower(sleep: int, largest: int, smallest: int, execute_ms: int) -> tuple[int, int, int]:
    """Return a spout's sleep and bounds after a start that carries an execution time, ms."""
    if execute_ms <= 0:
        sleep += 1
    elif largest < execute_ms:
        sleep = execute_ms
    elif largest == execute_ms:
        sleep = sleep + 1 if sleep >= largest else _mean_up(execute_ms, sleep)
    elif largest <= sleep:
        sleep += 1
    elif sleep >= execute_ms:
        sleep = _mean_up(largest, sleep)
    else:
        sleep = _mean_up(execute_ms, sleep)
    return sleep, max(largest, sleep), smallest


def faster(sleep: int, largest: int, smallest: int) -> tuple[int, int, int]:
    """Return a spout's sleep and bounds after a stop, ms; all 0 when it does not sleep any more."""
    if sleep == smallest:
        smallest = 0
    sleep = (smallest + sleep) // 2
    if sleep == 0:
        return 0, 0, 0
    return sleep, largest, sleep


def _mean_up(one: int, other: int) -> int:
    return (one + other + 1) // 2
