"""Rules of a generator of watermarks, and of its idleness.

A generator hears of each event, and is probed every ``pipeline.auto-watermark-interval``; what it
gives out is a sum of bits (:mod:`flowcontrol.protocol.event_time.output_rules`). At the end of
input it is probed once more.

Source: ``BoundedOutOfOrdernessWatermarks``, ``AscendingTimestampsWatermarks``,
``WatermarksWithIdleness``, ``PausableRelativeClock``; section 6 of checkpoints-and-time.
"""

from flowcontrol.protocol.event_time.bounds import earlier
from flowcontrol.protocol.event_time.output_rules import advance, become_idle
from flowcontrol.protocol.event_time.states import ActivityClock, Generator


def on_event(generator: Generator, timestamp: int) -> int:
    """Take an event with its time, ms; or several that no probe divides, with the latest time.

    Returns
    -------
    int
        What is given out: a punctuated generator's own watermark, the event's time; else 0.
    """
    generator.has_events = 1
    generator.is_quiet = 0
    generator.latest = max(generator.latest, timestamp)
    return advance(generator, timestamp) if generator.is_punctuated == 1 else 0


def on_probe(generator: Generator, now: int) -> int:
    """Probe a generator (``onPeriodicEmit``).

    Parameters
    ----------
    generator : Generator
        A source's, or a split's.
    now : int
        Time of its clock of idleness (:func:`activity_time`), in any unit.

    Returns
    -------
    int
        What is given out. The probe that finds it idle gives no watermark.
    """
    if is_quiet_too_long(generator, now) == 1:
        generator.is_quiet = 1
        return become_idle(generator)
    if generator.is_punctuated == 1:
        return 0
    return advance(generator, bounded_watermark(generator.latest, generator.out_of_orderness))


def bounded_watermark(latest: int, out_of_orderness: int) -> int:
    """Watermark below which no event comes: latest - out_of_orderness - 1, at least MIN_TIME, ms.

    Notes
    -----
    Flink starts from MIN_TIME + out_of_orderness + 1 to the same effect.
    """
    return earlier(earlier(latest, out_of_orderness), 1)


def is_quiet_too_long(generator: Generator, now: int) -> int:
    """Look at the timer of idleness: 1 if it is over (``IdlenessTimer.checkIfIdle``).

    Notes
    -----
    The first probe without new events starts the timer, also at the very beginning; it is over at
    the first one that is *more* than ``idle_after`` later.
    """
    if generator.idle_after == 0:
        return 0
    if generator.has_events == 1:
        generator.has_events = 0
        generator.is_counting = 0
        return 0
    if generator.is_counting == 0:
        generator.is_counting = 1
        generator.quiet_since = now
        return 0
    return 1 if now - generator.quiet_since > generator.idle_after else 0


def activity_time(clock: ActivityClock, now: int) -> int:
    """Time of the clock of idleness: now, less how long it has stood.

    It stands while a task is back-pressured, or blocked by the alignment of sources: such a task is
    not idle (1.20.1).
    """
    return now - clock.stood
