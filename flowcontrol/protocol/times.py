"""Where a round's time goes: busy, idle, back-pressured (reference section 9); flusher's ticks.

Pure functions of integers.
"""

from flowcontrol.protocol.ratios import proportion

FLUSH_DRIFTS = 3
"""How many periods flushers of one interval have."""


def blocked_source_us(whole: int, due: int, done: int, is_stopped: int, is_available: int) -> int:
    """Back-pressured time of a source in a round, microseconds; the rest it emits or is idle.

    Parameters
    ----------
    whole : int
        Length of the round, microseconds.
    due, done : int
        Records that fell due, and those of them that were emitted; the others are lost.
    is_stopped : int
        1: it stopped because its output was unavailable.
    is_available : int
        1: its output is available at the end of the round.
    """
    if due == 0:
        return 0 if is_available == 1 else whole
    return proportion(whole, due - done, due) if is_stopped == 1 else 0


def emitting_us(free_us: int, records: int, cost_ns: int) -> int:
    """Busy time of a source in a round, microseconds: what its emissions cost its thread.

    Parameters
    ----------
    free_us : int
        Time of the round that was not back-pressured, microseconds.
    records : int
        Records emitted.
    cost_ns : int
        What one takes to be serialised and copied into buffers, nanoseconds, at least 0.

    Notes
    -----
    Flink counts as busy what is neither idle nor back-pressured (section 9). The cost limits
    nothing: a source that emits more than its thread could is busy all the time that it has.
    """
    if cost_ns == 0:
        return 0
    if records > free_us * 1000 // cost_ns:  # their product might not fit into 64 bits
        return free_us
    return records * cost_ns // 1000


def blocked_relay_us(whole: int, waiting: int, done: int, is_stopped: int) -> int:
    """Back-pressured time of a stage that works in no time: the share of what waits."""
    if is_stopped == 0:
        return 0
    return proportion(whole, waiting, max(1, done + waiting))


def busy_us(
    whole: int, start: int, end: int, ready: int, waiting: int, is_stopped: int, is_available: int
) -> int:
    """Busy time of a server in a round, microseconds.

    Parameters
    ----------
    start, end : int
        Work that its rate allows by the start and by the end of the round, units.
    ready : int
        Work by which the last record taken up is done, units.
    waiting : int
        Records that wait, or whose output waits.

    Notes
    -----
    A server works without a pause from the start of the round until it starves or is blocked.
    One that stands still with something to do counts as busy, as a hung sink does in Flink.
    """
    if ready >= end > start:
        return whole
    if end > start:
        return proportion(whole, min(ready, end) - start, end - start)
    has_work = waiting > 0 or ready > start
    return whole if has_work and is_stopped == 0 and is_available == 1 else 0


def is_blocked(start: int, end: int, is_stopped: int, is_available: int) -> int:
    """Tell whether a server's time that it was not busy is back-pressure: 1, or 0 for idle."""
    return 1 if is_stopped == 1 or (end == start and is_available == 0) else 0


def flush_ticks(start_us: int, end_us: int, interval_us: int, phase_us: int) -> int:
    """How often the periodic flusher runs after ``start_us``, up to ``end_us``.

    Parameters
    ----------
    start_us, end_us : int
        Times of the run, microseconds.
    interval_us : int
        Of the flusher; 0 is after every record, which is once a round; below 0 never.
    phase_us : int
        When it runs first, microseconds, less than an interval; 0: after a whole one.

    Notes
    -----
    ``OutputFlusher`` (section 2.6). Its timer drifts against everything else with the same beat,
    so that what waits for it waits half an interval in the long run, whatever the phase. Here a
    period is a little shorter than the interval, so that nothing ever waits for longer.
    """
    if interval_us <= 0:
        return 1 if interval_us == 0 else 0
    return _ticks_by(end_us, interval_us, phase_us) - _ticks_by(start_us, interval_us, phase_us)


def next_flush_us(after_us: int, interval_us: int, phase_us: int) -> int:
    """First moment after ``after_us`` at which the periodic flusher runs, microseconds."""
    first_us = phase_us if phase_us > 0 else interval_us
    ticks = _ticks_by(after_us, interval_us, phase_us)
    return first_us + ticks * flush_period_us(interval_us, phase_us)


def flush_period_us(interval_us: int, phase_us: int) -> int:
    """Time between two ticks of a flusher, microseconds: 0.5, 1 or 1.5 per cent less than stated.

    Which one its phase says, so that flushers behind one another do not keep step.
    """
    return interval_us - interval_us // 200 * (1 + phase_us % FLUSH_DRIFTS)


def _ticks_by(us: int, interval_us: int, phase_us: int) -> int:
    """Ticks of the flusher up to a moment."""
    first_us = phase_us if phase_us > 0 else interval_us
    return max(0, (us - first_us) // flush_period_us(interval_us, phase_us) + 1)
