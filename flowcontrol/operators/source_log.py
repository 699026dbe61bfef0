"""What happens to a log and at what offset a source is: rules of integers, for both clocks.

Records are written at a rate: by a moment its integral, rounded down. Record *k*, from 0, is
written at the first microsecond by which that is more than *k*. What the source has not taken
waits; being blocked, throttled or stalled loses nothing.
"""

from flowcontrol.operators.states import SourceLog
from flowcontrol.protocol.rows import Rows
from flowcontrol.protocol.service import first_us_at, work_by


def written_by(arrivals: Rows, unit: int, us: int) -> int:
    """Return how many records a rate has written by a moment.

    Parameters
    ----------
    arrivals : rows of int, shape (phases, PHASE_WIDTH)
        The rate, as :func:`flowcontrol.protocol.service.work_by` takes it.
    unit : int
        Its units a record.
    us : int
        Microseconds since the start of the run.
    """
    return work_by(arrivals, us) // unit


def written_us(arrivals: Rows, unit: int, offset: int) -> int:
    """Return the microsecond by which the record at an offset is written, or NEVER."""
    return first_us_at(arrivals, (offset + 1) * unit, 0)


def written_round(arrivals: Rows, unit: int, offset: int, round_us: int) -> int:
    """Return the round in which the record at an offset is written; it is, at some time."""
    return (written_us(arrivals, unit, offset) + round_us - 1) // round_us - 1


def append_up_to(log: SourceLog, end: int, limit: int) -> None:
    """Have a log hold all records before an offset; of a replay no more than it has.

    Parameters
    ----------
    log : SourceLog
        Grows, and never shrinks.
    end : int
        The offset.
    limit : int
        Records that a replaying source has; -1: no end.
    """
    if limit >= 0:
        end = min(end, limit)
    log.end = max(log.end, end)


def lag(log: SourceLog) -> int:
    """Return how many records wait in a log; the one that is being read is out."""
    return log.end - begun(log)


def unread(log: SourceLog) -> int:
    """Return how many records of a log are not emitted, the one that is being read included."""
    return log.end - log.position


def begun(log: SourceLog) -> int:
    """Return how many records of a log a source has ever begun to read."""
    return log.position + log.reading
