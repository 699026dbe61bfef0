"""A source that reads a log in a round: a server whose input is the log.

It takes a record when it is free, and emits it when its time is over: k records a second are read
in 1/k s each. While it is blocked, stalled or throttled the log keeps what is written to it, and
afterwards it reads as fast as it can until nothing waits.
"""

from flowcontrol.operators.aligning import is_paused
from flowcontrol.operators.output import outputs_available, write_pending
from flowcontrol.operators.pacing import spend
from flowcontrol.operators.source_log import begun, lag, unread
from flowcontrol.operators.states import SourceLog, StreamTask, Worker
from flowcontrol.operators.task import BLOCKED, CAPACITY, STARVED, emit_some, put_out_event
from flowcontrol.protocol.ratios import MOST
from flowcontrol.protocol.service import CONSTANT

NO_LIMIT = MOST
"""Records that a source may read in a round where no throttle says how many."""


def read_log(worker: Worker, task: StreamTask, log: SourceLog, end: int, most: int) -> int:
    """Read records and emit them when they are read, until something stops.

    Parameters
    ----------
    worker : Worker
        The subtask, a READER.
    task : StreamTask
        Its state.
    log : SourceLog
        What is written by the end of the round; the position moves past what is emitted.
    end : int
        Work that its rate allows by the end of the round, units.
    most : int
        Records that a throttle lets it begin in the round.

    Returns
    -------
    int
        CAPACITY; STARVED if nothing waits in the log, or it is paused (:mod:`.aligning`); BLOCKED
        if an output is unavailable or the throttle allows no more.
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
