"""A task's work in a round: take records up, let its operators make of them what they do, write it.

It stops where its rate allows no more, where it has no input, or where an output is unavailable.
The loop is written once and runs on both clocks; what differs between them is in
:class:`.worker.Worker`.
"""

from collections.abc import Sequence
from typing import Final

from flowcontrol.operators.pacing import emissions_due, skip_due, spend, startable
from flowcontrol.operators.states import READER, RELAY, SERVER, SOURCE, TASK_INPUT, StreamTask
from flowcontrol.operators.table import on_records
from flowcontrol.operators.worker import W, Worker
from flowcontrol.protocol.event_time.marks import bytes_of_mark, channel_of_mark, is_pending_mark
from flowcontrol.protocol.rounds import (
    EVENT_POLLED,
    NO_INPUT,
    read_to_end,
    stays_blocked,
    take_record,
)
from flowcontrol.protocol.rows import FIFO_COUNT, FIFO_HEAD, FIFO_SLOTS, Row, fifo_pop, fifo_push
from flowcontrol.protocol.sides import Gate
from flowcontrol.protocol.times import (
    blocked_relay_us,
    blocked_source_us,
    busy_us,
    emitting_us,
    is_blocked,
)

CAPACITY: Final = 0
"""Why a task stopped: its rate allows no more, or it has nothing more to emit."""
STARVED: Final = 1
"""Why a task stopped: it has no input."""
BLOCKED: Final = 2
"""Why a task stopped: an output is unavailable."""


def outputs_available(worker: Worker[W], task: StreamTask) -> int:
    """Tell whether a task may begin another record, as far as its outputs go: 1 if so."""
    for i in range(task.partitions):
        if worker.is_available(worker.writer(i)) == 0:
            return 0
    return 1


def emit(worker: Worker[W], task: StreamTask, end: int) -> int:
    """Emit what falls due until the output is unavailable; what is due then is lost.

    So is what falls due while the source is paused (:mod:`.aligning`). One record that falls due
    inside another one is kept (:func:`~flowcontrol.operators.pacing.let_pass`).

    Parameters
    ----------
    worker : Worker
        The subtask, a source.
    task : StreamTask
        Its state.
    end : int
        Work that its rate allows by the end of the round, units.

    Returns
    -------
    int
        CAPACITY or BLOCKED.
    """
    task.due = 0
    most = _may_emit(task, end)  # one division for all of them
    while True:
        if write_pending(worker, task) == 0:
            break
        if most == 0:
            return CAPACITY
        if outputs_available(worker, task) == 0:
            break
        if task.is_aligned == 1 and worker.is_paused() == 1:
            skip_due(worker, task, end)  # nobody polls it
            return CAPACITY
        count = emit_some(worker, task, most)
        spend(worker, task, count)
        task.due += count
        most = most - count if count < most else _may_emit(task, end)
    if task.is_pending == 1:
        task.due += _may_emit(task, end)
    else:
        task.due += skip_due(worker, task, end)
    return BLOCKED


def _may_emit(task: StreamTask, end: int) -> int:
    """Emissions that fall due, as far as a replaying source has records, and none after its end."""
    if task.open_inputs == 0:
        return 0
    most = emissions_due(task, end)
    return most if task.limit < 0 else min(most, task.limit - task.taken)


def emit_some(worker: Worker[W], task: StreamTask, most: int) -> int:
    """Emit one record, or all that can be written at once, at most ``most``; return how many."""
    count = 0
    if task.is_single == 1:
        writer = worker.writer(0)
        count = worker.write_whole(writer, most)
    if count > 0:
        task.taken += count
        writer.emitted += count
        worker.note_routed(writer, 0, count)
        run_operators(worker, task)
    else:
        count = 1
        task.taken += 1
        put_out_event(worker, task)
    worker.note_emitted(count)
    return count


def put_out_event(worker: Worker[W], task: StreamTask) -> None:
    """Put out the record that a source emits, with its event time if there is any."""
    if task.has_stamps == 1:
        worker.begin_event()
    put_out(worker, task, 1)
    if task.has_stamps == 1:
        worker.end_event()


def serve(worker: Worker[W], task: StreamTask, gates: Sequence[Gate], union: Row, end: int) -> int:
    """Take records up, and write what they yield when they are done, until something stops.

    Parameters
    ----------
    worker : Worker
        The subtask, no source.
    task : StreamTask
        Its state.
    gates : sequence of Gate
        Its gates.
    union : row
        Gates with data, in the order in which they are polled.
    end : int
        Work that the rate of a SERVER allows by the end of the round, units.

    Returns
    -------
    int
        CAPACITY, STARVED or BLOCKED.
    """
    is_server = task.kind == SERVER
    while True:
        if is_server and task.is_pending == 1 and task.ready > end:
            return CAPACITY
        if write_pending(worker, task) == 0:
            return BLOCKED
        if is_server and task.ready >= end:
            if task.ready == end:  # the record in service is done, and the next one asked for
                read_to_end(task, gates)
            return CAPACITY
        if outputs_available(worker, task) == 0:
            return BLOCKED
        if task.is_firing == 1 and worker.fire_next(1) == 1:
            continue
        found = worker.next_input(gates, union)
        if found == NO_INPUT:
            return STARVED
        if found == EVENT_POLLED:
            if worker.on_event() == 1:
                return CAPACITY
            continue
        count = task.left if task.partitions == 0 and task.operators == 0 else 1
        if task.marks > 0:
            count = worker.before_mark(count)
            if count == 0:
                worker.on_mark()
                continue
        if is_server:
            count = startable(task, count, end)
            spend(worker, task, count)
        worker.note_taken(count)
        take_record(task, gates, count)
        may_write = 1 if not is_server or task.ready <= end else 0
        put_out(worker, task, may_write)
        if task.has_window == 1:
            worker.take_element(may_write)


def run_operators(worker: Worker[W], task: StreamTask) -> None:
    """Have every operator take what its input has put out, senders before receivers."""
    for i in range(task.operators):
        operator = worker.operator(i)
        records_in = put_out_by(worker, task, operator.input)
        fresh = records_in - operator.records_in
        if fresh > 0:
            operator.records_in = records_in
            count = on_records(operator, fresh)
            operator.records_out += count
            worker.note_put_out(i, count)


def put_out_by(worker: Worker[W], task: StreamTask, operator: int) -> int:
    """Records that an operator has put out, or that the task has taken up (TASK_INPUT)."""
    return task.taken if operator == TASK_INPUT else worker.operator(operator).records_out


def put_out(worker: Worker[W], task: StreamTask, may_write: int) -> None:
    """Route all that the records taken up yield; write it now, or leave it pending."""
    run_operators(worker, task)
    for i in range(task.partitions):
        writer = worker.writer(i)
        due = put_out_by(worker, task, writer.operator)
        while writer.emitted < due:
            channel = worker.next_channel(writer)
            writer.emitted += 1
            worker.note_routed(writer, channel, 1)
            if may_write == 1:
                writer.left_bytes = worker.write(writer, channel, writer.record_bytes)
                if writer.left_bytes == 0:
                    continue
                may_write = 0
            fifo_push(worker.pending(writer), channel)
            task.is_pending = 1


def write_pending(worker: Worker[W], task: StreamTask) -> int:
    """Write what is pending, a partition after the other; 0 if the task is blocked in it."""
    if task.is_pending == 0:
        return 1
    for i in range(task.partitions):
        writer = worker.writer(i)
        pending = worker.pending(writer)
        while pending[FIFO_COUNT] > 0:
            if stays_blocked(writer.pool, writer.left_bytes) == 1:
                return 0
            channel = pending[FIFO_SLOTS + pending[FIFO_HEAD]]
            if task.is_timed == 1 and is_pending_mark(channel) == 1:
                nbytes = writer.left_bytes if writer.left_bytes > 0 else bytes_of_mark(channel)
                writer.left_bytes = worker.write_mark(writer, channel_of_mark(channel), nbytes)
            else:
                nbytes = writer.left_bytes if writer.left_bytes > 0 else writer.record_bytes
                writer.left_bytes = worker.write(writer, channel, nbytes)
            if writer.left_bytes > 0:
                return 0
            fifo_pop(pending)
    task.is_pending = 0
    return 1


def is_between(worker: Worker[W], task: StreamTask, start: int, end: int) -> int:
    """Tell whether a task is between two records at some moment of a round: 1 if so.

    It writes what is pending, which is the first thing that a round does in any case. A task that
    waits inside a record for a buffer is not, nor is one whose record is not done by the end.

    Parameters
    ----------
    worker : Worker
        The subtask.
    task : StreamTask
        Its state.
    start, end : int
        Work that its rate allows by the start and by the end of the round, units.
    """
    is_rated = 1 if task.kind == SERVER or task.kind == READER else 0
    if is_rated == 1 and task.is_pending == 1 and task.ready > end:
        return 0
    if write_pending(worker, task) == 0:
        return 0
    return 0 if is_rated == 1 and max(task.ready, start) >= end else 1


def end_burst(worker: Worker[W], task: StreamTask) -> int:
    """Go on with a burst of results as far as the outputs allow: 1 if none is under way then.

    Of a task whose rate allows that, it is the first thing that a round does in any case. A burst
    that yields is left alone, as soon as the result in hand finds room.
    """
    if task.is_firing == 0:
        return 1
    while task.is_firing == 1:
        if write_pending(worker, task) == 0 or outputs_available(worker, task) == 0:
            return 0
        if task.yields == 1:
            return 1
        worker.fire_next(1)
    return write_pending(worker, task)


def waiting_at_reader(task: StreamTask) -> int:
    """Return the records in the log of a READER that it has yet to read; 0 of another task."""
    return task.due if task.kind == READER else 0


def account(
    task: StreamTask,
    whole: int,
    start: int,
    end: int,
    done: int,
    reason: int,
    available: int,
    syncing: int = 0,
) -> None:
    """Share a round out over busy, idle and back-pressured (reference section 9).

    Parameters
    ----------
    task : StreamTask
        Its times grow.
    whole : int
        Length of the round, microseconds.
    start, end : int
        Work that its rate allows by the start and by the end of the round, units.
    done : int
        Records taken up, or emitted, in the round.
    reason : int
        Why it stopped.
    available : int
        1: its outputs are available at the end of the round.
    syncing : int
        Of a source or a relay: time for which a snapshot held it up, microseconds; it is busy.
    """
    blocked, waiting = 1 if reason == BLOCKED else 0, task.queued - task.withheld + task.is_firing
    busy = lost = 0
    if task.kind == SOURCE:
        lost = blocked_source_us(whole - syncing, task.due, done, blocked, available)
        busy = syncing + emitting_us(whole - syncing - lost, done, task.cost_ns)
    elif task.kind == RELAY:
        lost = blocked_relay_us(whole, waiting, done, blocked)
        busy = whole if reason == CAPACITY and waiting > 0 else syncing
    else:
        waiting += waiting_at_reader(task) + task.is_pending
        busy = busy_us(whole, start, end, task.ready, waiting, blocked, available)
        if is_blocked(start, end, blocked, available) == 1:
            lost = whole - busy
    task.busy += busy
    task.blocked += lost
    task.idle += whole - busy - lost
