"""A task's work in a round: records are taken up, processed and written, as its rate allows.

It stops where its rate allows no more, where it has no input, or where an output is unavailable.
The loop is written once and runs on both clocks.
"""

from collections.abc import Sequence
from typing import Final

from flowcontrol.protocol import service
from flowcontrol.protocol.network.rounds import EVENT_POLLED, NO_INPUT, read_records, read_to_end
from flowcontrol.protocol.service import CONSTANT
from flowcontrol.protocol.tasks.event_time import begin_event, end_event, is_paused, on_mark
from flowcontrol.protocol.tasks.operators import outputs_available, put_out, write_pending
from flowcontrol.protocol.tasks.windowing import fire_next
from flowcontrol.state.rows import Gate, Row
from flowcontrol.state.tasks import READER, RELAY, SERVER, SOURCE, StreamTask, Worker

# --- When a task may begin its next record: its work so far beside what its rate allows.
#
# A task is ready for a record at flowcontrol.state.network.Task.ready, in units of work
# (flowcontrol.protocol.service): of a server the work by which the record in service is done,
# of a source that by which the next one falls due.


def spend(worker: Worker, task: StreamTask, count: int) -> None:
    """Let ``count`` records begin, one after the other; one, unless all take the same."""
    if task.distribution == CONSTANT:
        task.ready += count * task.unit
    else:
        task.ready += worker.draw()


def startable(task: StreamTask, most: int, end: int) -> int:
    """Records, at most ``most``, that a server may take up at once before ``end``."""
    if task.distribution != CONSTANT:
        return 1
    return most if most == 1 else min(most, (end - task.ready + task.unit - 1) // task.unit)


def emissions_due(task: StreamTask, end: int) -> int:
    """Emissions of a source that fall due by ``end``; at most one, unless all take the same."""
    if end < task.ready:
        return 0
    if task.distribution != CONSTANT:
        return 1
    return (end - task.ready) // task.unit + 1


def let_pass(worker: Worker, task: StreamTask, start: int) -> None:
    """Drop the emissions that fell due by ``start``; behind a record half written one is kept.

    A source that was blocked inside a record has the next one in hand when it goes on: it emits it
    at once, and the one after that an interval later. A source that waits between two records goes
    on when its next one falls due. A real Flink does both.
    """
    if task.is_pending == 0:
        skip_due(worker, task, start)
    else:
        task.ready = max(task.ready, start)


def skip_due(worker: Worker, task: StreamTask, end: int) -> int:
    """Drop the emissions that fall due by ``end``; return how many they are."""
    dropped = 0
    if task.ready == 0:  # before the first one
        spend(worker, task, 1)
    while True:
        count = emissions_due(task, end)
        if count == 0:
            return dropped
        spend(worker, task, count)
        dropped += count


# --- A task's work in a round: take records up, let its operators make of them what they do,
# write it.


CAPACITY: Final = 0
"""Why a task stopped: its rate allows no more, or it has nothing more to emit."""
STARVED: Final = 1
"""Why a task stopped: it has no input."""
BLOCKED: Final = 2
"""Why a task stopped: an output is unavailable."""
WAITING: Final = 3
"""Why a task stopped: its thread waits for the destination of its requests."""


def emit(worker: Worker, task: StreamTask, end: int) -> int:
    """Emit what falls due until the output is unavailable; what is due then is lost.

    So is what falls due while the source is paused (:mod:`.event_time`). One record that falls due
    inside another one is kept (:func:`~flowcontrol.protocol.tasks.task.let_pass`).

    ``end``: work that its rate allows by the end of the round, units.
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
        if task.is_aligned == 1 and is_paused(worker) == 1:
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


def emit_some(worker: Worker, task: StreamTask, most: int) -> int:
    """Emit one record, or all that can be written at once, at most ``most``; return how many."""
    count = _emit_run(worker, task, most) if task.is_plain == 1 else 0
    if count == 0:
        count = 1
        task.taken += 1
        put_out_event(worker, task)
        worker.note_emitted(1)
    return count


def _emit_run(worker: Worker, task: StreamTask, most: int) -> int:
    """Emit records that fit (:mod:`flowcontrol.kernel.runs`); those with stamps one by one."""
    emitted = 0
    while emitted < most:
        count = most - emitted
        if task.has_stamps == 1:
            count = 1
            task.taken += 1
            begin_event(worker, task)
            task.taken -= 1
        count = worker.write_run(count)
        if count == 0:
            break  # it begins again where it is written by itself, in this round
        task.taken += count
        emitted += count
        if task.has_stamps == 1:
            end_event(worker, task)
    return emitted


def put_out_event(worker: Worker, task: StreamTask) -> None:
    """Put out the record that a source emits, with its event time if there is any."""
    if task.has_stamps == 1:
        begin_event(worker, task)
    put_out(worker, task, 1)
    if task.has_stamps == 1:
        end_event(worker, task)


def serve(worker: Worker, task: StreamTask, gates: Sequence[Gate], union: Row, end: int) -> int:
    """Take records up, and write what they yield when they are done, until something stops.

    - ``worker``: the subtask, no source.
    - ``union``: gates with data, in the order in which they are polled.
    - ``end``: work that the rate of a SERVER allows by the end of the round, units.
    """
    is_server = task.kind == SERVER
    while True:
        if is_server and task.is_pending == 1 and task.ready > end:
            return CAPACITY
        if write_pending(worker, task) == 0:
            return BLOCKED
        if task.has_requests == 1 and worker.waits_for_requests() == 1:
            return WAITING
        if is_server and task.ready >= end:
            # The record in service is done: the next one is asked for, if it may be begun.
            if task.ready == end and task.goes_on == 1 and outputs_available(worker, task) == 1:
                read_to_end(task, gates)
            return CAPACITY
        if outputs_available(worker, task) == 0:
            return BLOCKED
        if task.is_firing == 1 and fire_next(worker, task, 1) == 1:
            continue
        found = worker.next_input(gates, union)
        if found == NO_INPUT:
            return STARVED
        if found == EVENT_POLLED:
            if worker.on_event() == 1:
                return CAPACITY
            continue
        if task.is_plain == 0 or pass_on(worker, task, gates, end) == 0:
            take_up(worker, task, gates, end)


def take_up(worker: Worker, task: StreamTask, gates: Sequence[Gate], end: int) -> None:
    """Take up what the buffer in hand has next: a record, several where nothing follows, a mark."""
    count = task.left if task.partitions == 0 and task.operators == 0 else 1
    if task.marks > 0:
        count = worker.before_mark(count)
        if count == 0:
            on_mark(worker, task, gates)
            return
    may_write = 1
    if task.has_requests == 1:
        count = min(count, worker.room_for_requests())
    if task.kind == SERVER:
        count = startable(task, count, end)
        if task.has_requests == 1 and count > 1:  # all of them are written in this round
            count = max(1, min(count, (end - task.ready) // task.unit))
        spend(worker, task, count)
        may_write = 1 if task.ready <= end else 0
    worker.note_taken(count)
    read_records(task, gates, count)
    put_out(worker, task, may_write)
    if task.has_window == 1:
        worker.take_element(may_write)


def pass_on(worker: Worker, task: StreamTask, gates: Sequence[Gate], end: int) -> int:
    """Take records of the buffer in hand up and write them, as long as only counters change.

    It is what :func:`serve` does once for each that is done by the end, and fits into the open
    buffer of its channel without filling it.

    Returns their number; 0 if the next one must be checked.
    """
    most = task.left
    if task.kind == SERVER:
        most = min(most, (end - task.ready) // task.unit)
    count = worker.pass_runs(most) if most > 0 else 0
    if count > 0:
        if task.kind == SERVER:
            spend(worker, task, count)
        worker.count_bytes_taken(count)
        read_records(task, gates, count)
    return count


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

    - ``whole``: length of the round, microseconds.
    - ``start``, ``end``: work that its rate allows by the start and by the end of the round, units.
    - ``done``: records taken up, or emitted, in the round.
    - ``available``: 1: its outputs are available at the end of the round.
    - ``syncing``: of a source or a relay: time for which a snapshot held it up, microseconds; it is
      busy.
    """
    blocked, waiting = 1 if reason == BLOCKED else 0, task.queued - task.withheld + task.is_firing
    busy = lost = 0
    if reason == WAITING:
        busy = whole
    elif task.kind == SOURCE:
        lost = service.blocked_source_us(whole - syncing, task.due, done, blocked, available)
        busy = syncing + service.emitting_us(whole - syncing - lost, done, task.cost_ns)
    elif task.kind == RELAY:
        lost = service.blocked_relay_us(whole, waiting, done, blocked)
        busy = whole if reason == CAPACITY and waiting > 0 else syncing
    else:
        waiting += waiting_at_reader(task) + task.is_pending
        busy = service.busy_us(whole, start, end, task.ready, waiting, blocked, available)
        if service.is_blocked(start, end, blocked, available) == 1:
            lost = whole - busy
    task.busy += busy
    task.blocked += lost
    task.idle += whole - busy - lost
