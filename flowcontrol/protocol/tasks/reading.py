"""Sources that read a log: what is written to it, and which record is read when.

It takes a record when it is free, and emits it when its time is over: k records a second are read
in 1/k s each. While it is blocked, stalled or throttled the log keeps what is written to it, and
afterwards it reads as fast as it can until nothing waits.
"""

from flowcontrol.protocol.service import CONSTANT, MOST, first_us_at, work_by
from flowcontrol.protocol.tasks.event_time import is_paused
from flowcontrol.protocol.tasks.operators import outputs_available, write_pending
from flowcontrol.protocol.tasks.task import (
    BLOCKED,
    CAPACITY,
    STARVED,
    emit_some,
    put_out_event,
    spend,
)
from flowcontrol.state.rows import Rows
from flowcontrol.state.tasks import SourceLog, StreamTask, Worker

# --- What happens to a log and at what offset a source is: rules of integers, for both clocks.
#
# Records are written at a rate: by a moment its integral, rounded down. Record *k*, from 0,
# is written at the first microsecond by which that is more than *k*. What the source has not
# taken waits; being blocked, throttled or stalled loses nothing.


def written_by(arrivals: Rows, unit: int, us: int) -> int:
    """Return how many records a rate has written by a moment.

    - ``arrivals`` (shape (phases, PHASE_WIDTH)): the rate, as
      :func:`flowcontrol.protocol.service.work_by` takes it.
    - ``unit``: its units a record.
    - ``us``: microseconds since the start of the run.
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

    ``limit``: records that a replaying source has; -1: no end.
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


# --- A source that reads a log in a round: a server whose input is the log.


NO_LIMIT = MOST
"""Records that a source may read in a round where no throttle says how many."""


def read_log(worker: Worker, task: StreamTask, log: SourceLog, end: int, most: int) -> int:
    """Read records and emit them when they are read, until something stops.

    - ``log``: what is written by the end of the round; the position moves past what is emitted.
    - ``end``: work that its rate allows by the end of the round, units.
    - ``most``: records that a throttle lets it begin in the round.

    Returns CAPACITY; STARVED if nothing waits in the log, or it is paused (:mod:`.event_time`);
    BLOCKED if an output is unavailable or the throttle allows no more.
    """
    reason = STARVED
    if task.open_inputs == 0:  # stopped with a savepoint: a record that was begun stays in the log
        log.reading = 0
    while True:
        if log.reading == 1:
            if task.ready > end:
                reason = CAPACITY
                break
            log.reading = 0
            worker.of_one_time(1)
            _emit_one(worker, task, log)
        if write_pending(worker, task) == 0:
            reason = BLOCKED
            break
        if task.ready >= end:
            reason = CAPACITY
            break
        if outputs_available(worker, task) == 0:
            reason = BLOCKED
            break
        waiting = lag(log)
        if waiting == 0 or task.open_inputs == 0:  # stopped with a savepoint
            break
        if task.is_aligned == 1 and is_paused(worker) == 1:
            break
        if most <= 0:
            reason = BLOCKED
            break
        before = begun(log)
        _read(worker, task, log, worker.of_one_time(min(most, waiting)), end)
        most -= begun(log) - before
    task.due = _to_read(worker, task, log)
    return reason


def _to_read(worker: Worker, task: StreamTask, log: SourceLog) -> int:
    """Return how many records of a log its source has yet to read, the one in hand included.

    One that is paused begins none, whether or not its rate would let it, and one that a savepoint
    has stopped reads none of what the log still holds: they wait for nothing, so they are idle.
    """
    is_held = task.open_inputs == 0 or (task.is_aligned == 1 and is_paused(worker) == 1)
    return 0 if is_held and log.reading == 0 else unread(log)


def _read(worker: Worker, task: StreamTask, log: SourceLog, most: int, end: int) -> None:
    """Read all records that are done by the end, at most ``most``, or begin one.

    ``most`` is at least 1.
    """
    count = 0
    if task.distribution == CONSTANT:
        count = min(most, (end - task.ready) // task.unit)
    if count > 0:
        count = emit_some(worker, task, count)
        log.position += count
        spend(worker, task, count)
        return
    spend(worker, task, 1)
    if task.ready > end:
        log.reading = 1
    else:
        _emit_one(worker, task, log)


def _emit_one(worker: Worker, task: StreamTask, log: SourceLog) -> None:
    """Emit a record that has been read: until then it is in the log, and it is in flight from now.

    Its output was available when its reading began, so it is written at least in part.
    """
    log.position += 1
    task.taken += 1
    put_out_event(worker, task)
    worker.note_emitted(1)
