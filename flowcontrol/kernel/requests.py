"""Tasks with requests in flight: what they take up and send, and what their destination answers."""

from flowcontrol.kernel import views as v
from flowcontrol.kernel import waits
from flowcontrol.kernel import writing as w
from flowcontrol.kernel.ages import log_age, note_stored, run_length, take_run
from flowcontrol.memory import fields as f
from flowcontrol.memory.cells import part_of, rows, rows_of, state_of
from flowcontrol.memory.parts import CHECKPOINTS, REQUESTS
from flowcontrol.memory.places import KernelMemory
from flowcontrol.memory.requests import KernelRequests
from flowcontrol.protocol.requests import writers
from flowcontrol.protocol.requests.async_sink import put_back as put_back_entry
from flowcontrol.protocol.requests.async_wait import EMPTY
from flowcontrol.protocol.requests.blocking import start_interval
from flowcontrol.protocol.requests.common import RESTING
from flowcontrol.protocol.requests.destination import (
    admitted,
    answer_us,
    mark_failing,
    records_before_error,
)
from flowcontrol.protocol.requests.entries import failing, new_entry, put_last, take_first_of
from flowcontrol.protocol.service import phase_at
from flowcontrol.protocol.tasks.checkpointing import end_data, is_between_records, on_flushed
from flowcontrol.protocol.tasks.operators import is_between, write_pending
from flowcontrol.state.requests import (
    ASYNC,
    NEVER,
    NONE,
    Batch,
    BatchQueue,
    Destination,
    Entry,
    Request,
    Requests,
)
from flowcontrol.state.tasks import Worker

kernel_requests = state_of(KernelRequests)
destination_at = state_of(Destination)
entry_rows = rows_of(Entry)
request_rows = rows_of(Request)
batch_rows = rows_of(Batch)
queue_rows = rows_of(BatchQueue)


def requests_of(m: KernelMemory, held: KernelRequests) -> Requests:
    """Return the requests of a task as the rules see them."""
    entries = entry_rows(m, held.entries, held.entry_count)
    return Requests(
        held.settings,
        held.writer,
        entries,
        request_rows(m, held.slots, held.slot_count),
        batch_rows(m, held.batches, held.batch_count),
        queue_rows(m, held.queues, held.queue_count),
    )


# ---- what a task does


@part_of(REQUESTS)
def take_in(
    m: KernelMemory, task: f.KernelTask, number: int, out: f.KernelSubpartition, count: int
) -> None:
    """Note the records that a task takes up from a channel; log their ages as those of any sink."""
    held = kernel_requests(m, task.requests)
    requests = requests_of(m, held)
    size = v.gate_row(m, task.first_gate + task.gate).record_bytes
    first = waits.place_in_hand(m, task)
    while count > 0:
        part = min(count, run_length(m, out.runs))
        emitted = take_run(m, out.runs, part)
        if m.is_tracked == 1 and task.awaits == 0:
            log_age(m, number, m.now - emitted, part)
        place = new_entry(requests, first, part, size, emitted)
        if task.is_timed == 1:
            requests.entries[place - 1].stamp = task.stamp
        put_last(requests, held.taken, place)
        first += part
        count -= part


@part_of(REQUESTS)
def write_taken(m: KernelMemory, worker: Worker, task: f.KernelTask) -> None:
    """Write the records that are processed, until the destination has the task wait."""
    held = kernel_requests(m, task.requests)
    requests = requests_of(m, held)
    if task.awaits == 1:
        waits.call_taken(m, worker, held, requests)
        return
    while held.taken.records > 0 and writers.is_free(requests) == 1:
        entry = requests.entries[held.taken.head - 1]
        most = writers.room(requests, entry.size)
        writers.write(worker, requests, take_first_of(requests, held.taken, most), m.now)
    writers.end_write(worker, requests, m.now)


@part_of(REQUESTS)
def queue_marks(m: KernelMemory, worker: Worker, done: int) -> int:
    """Put what a valve has given out behind the records in the queue of a task that calls."""
    held = kernel_requests(m, worker.task.requests)
    waits.queue_marks(m, worker, held, requests_of(m, held), done)
    return 0


@part_of(REQUESTS)
def answer_requests(m: KernelMemory, worker: Worker, start: int, end: int) -> None:
    """Act on answers and timers that are due, if the task waits or is between two records.

    ``start``, ``end``: work that its rate allows by the start and by the end of the round, units.
    """
    held = kernel_requests(m, worker.task.requests)
    requests = requests_of(m, held)
    if is_due(m, held) == 1 and may_run_mails(m, worker, requests, start, end) == 1:
        if worker.task.awaits == 1:
            was_waiting = is_waiting(m, worker.task)
            if write_pending(worker, worker.task) == 1:
                waits.call_taken(m, worker, held, requests)
            if was_waiting == 1 and is_waiting(m, worker.task) == 0:
                waits.go_on(worker, held, start)
        else:
            writers.run_mails(worker, requests, m.now)
            if m.has_checkpoints == 1:
                _note_flushed(m, worker, requests)
    if m.has_checkpoints == 1:
        _note_ended(m, worker)


@part_of(REQUESTS)
def is_due(m: KernelMemory, held: KernelRequests) -> int:
    """Tell whether an answer or a timer is due, or something leaves a queue: 1 if so."""
    return 1 if 0 <= held.writer.next_at <= m.now or held.queue.has_mail == 1 else 0


@part_of(REQUESTS)
def may_run_mails(m: KernelMemory, worker: Worker, requests: Requests, start: int, end: int) -> int:
    """Tell whether a task waits for its destination or is between two records: 1 if so."""
    if is_waiting(m, worker.task) == 1 or writers.runs_apart(requests) == 1:
        return 1
    if m.has_checkpoints == 1:
        return _is_between_records(m, worker, start, end)
    return is_between(worker, worker.task, start, end)


@part_of(CHECKPOINTS)
def _is_between_records(m: KernelMemory, worker: Worker, start: int, end: int) -> int:
    return is_between_records(worker, worker.task, start, end)


@part_of(CHECKPOINTS)
def _note_flushed(m: KernelMemory, worker: Worker, requests: Requests) -> None:
    """Take the snapshot that waited for the last answer; act on what else is due behind it."""
    state = worker.checkpoint_state()
    if state.waits_requests == 1 and requests.writer.waits == RESTING:
        worker.task.in_checkpoint = 1
        on_flushed(worker)
        writers.run_mails(worker, requests, m.now)


@part_of(CHECKPOINTS)
def _note_ended(m: KernelMemory, worker: Worker) -> None:
    """Say that the data has ended once all of it is acknowledged."""
    state = worker.checkpoint_state()
    if state.data_open == 0 and state.has_ended == 0 and end_requests(m, worker) == 1:
        end_data(worker, worker.task)


@part_of(REQUESTS)
def flush_all(m: KernelMemory, worker: Worker, task: f.KernelTask) -> int:
    """Begin to wait until no request of a task is in flight; return 1 if none is."""
    if task.awaits == 1:
        return 1  # what is in its queue is in its state
    return writers.begin_flush(worker, requests_of(m, kernel_requests(m, task.requests)), m.now)


@part_of(REQUESTS)
def end_requests(m: KernelMemory, worker: Worker) -> int:
    """Send what is left when the input is over; return 1 when all of it is acknowledged."""
    held = kernel_requests(m, worker.task.requests)
    requests = requests_of(m, held)
    if worker.task.is_pending == 1 or is_waiting(m, worker.task) == 1:
        return 0
    if held.has_ended == 1 or (m.has_checkpoints == 1 and _is_cut_off(m, worker) == 1):
        return 1
    held.has_ended = 1
    if worker.task.awaits == 1:
        return waits.end_calls(m, worker, held, requests)
    return writers.begin_end(worker, requests, m.now)


@part_of(CHECKPOINTS)
def _is_cut_off(m: KernelMemory, worker: Worker) -> int:
    """Tell whether a savepoint has ended the input before its data: 1 if so."""
    return 1 if worker.checkpoint_state().data_open > 0 and worker.task.open_inputs == 0 else 0


@part_of(REQUESTS)
def is_waiting(m: KernelMemory, task: f.KernelTask) -> int:
    """Tell whether a task waits for its destination: 1 if so."""
    held = kernel_requests(m, task.requests)
    requests = requests_of(m, held)
    if task.awaits == 1:
        return 1 - waits.is_free(m, held, requests)
    return 1 - writers.is_free(requests)


@part_of(REQUESTS)
def is_quiet(m: KernelMemory, task: f.KernelTask) -> int:
    """Tell whether all that a task has taken up and will send is acknowledged: 1 if so."""
    held = kernel_requests(m, task.requests)
    left = held.taken.records + held.writer.in_flight + held.queue.size
    if held.settings.buffer_time != NEVER:
        left += held.writer.buffer.records
    return 1 if left == 0 and is_waiting(m, task) == 0 else 0


@part_of(REQUESTS)
def room_for(m: KernelMemory, task: f.KernelTask) -> int:
    """Return how many records a task may take up before it may have to wait, at least 1."""
    size = v.gate_row(m, task.first_gate + task.gate).record_bytes
    return writers.room(requests_of(m, kernel_requests(m, task.requests)), size)


@part_of(REQUESTS)
def note_waited(m: KernelMemory, task: f.KernelTask, us: int) -> None:
    """Count the time for which a task has waited for its destination, microseconds."""
    if is_waiting(m, task) == 1:
        kernel_requests(m, task.requests).waited_us += us


@part_of(REQUESTS)
def plan_requests(m: KernelMemory, number: int, task: f.KernelTask) -> None:
    """Have a task looked at when the next answer comes or a timer fires."""
    writer = kernel_requests(m, task.requests).writer
    if task.awaits == 1 and task.is_pending == 1 and writer.next_at <= m.now:
        return  # it goes on once that is written
    if writer.next_at != NEVER:
        v.wake(m, number, max(m.now + 1, writer.next_at))


# ---- what its destination does


@part_of(REQUESTS)
def submit(m: KernelMemory, worker: Worker, requests: Requests, request: Request) -> None:
    """Have the destination say when it answers a request, and what fails of it."""
    task = worker.task
    held = kernel_requests(m, task.requests)
    destination, count = destination_at(m, held.destination), request.entries.records
    number, stream = 4 * request.number, held.stream
    passed = admitted(destination, count, m.now * m.round_us)
    requests.writer.throttled += count - passed
    errors = destination.request_errors
    if errors > 0 and w.uniform(m.seed, stream, number) * 1000000.0 < errors:
        passed = 0
    if passed < count:
        mark_failing(requests, request.entries, passed, count - passed)
    if destination.record_errors > 0:
        _draw_errors(m, held, destination, requests, request)
    first = w.uniform(m.seed, stream, number + 1)
    second = w.uniform(m.seed, stream, number + 2)
    phases = rows(m, held.latencies, held.latency_count, 2)
    mean_us = phases[phase_at(phases, m.now * m.round_us)][1]
    if destination.empty_answers > 0:
        _draw_empty(m, held, destination, requests, request)
    us = answer_us(destination, mean_us, request.entries, first, second)
    request.due = m.now + max(1, (us + m.round_us - 1) // m.round_us)


def _draw_empty(
    m: KernelMemory,
    held: KernelRequests,
    destination: Destination,
    requests: Requests,
    request: Request,
) -> None:
    """Have some calls that do not fail have no result."""
    entry = requests.entries[request.entries.head - 1]
    drawn = w.uniform(m.seed, held.stream, 4 * request.number + 3) * 1000000.0
    if entry.fails == 0 and drawn < destination.empty_answers:
        entry.fails = EMPTY


def _draw_errors(
    m: KernelMemory,
    held: KernelRequests,
    destination: Destination,
    requests: Requests,
    request: Request,
) -> None:
    """Have some records of a request fail, each by itself."""
    at, count = 0, request.entries.records
    while at < count:
        held.draws += 1
        drawn = w.uniform(m.seed, held.stream, 4 * held.draws + 3)
        at += records_before_error(destination.record_errors, count - at, drawn)
        if at < count:
            mark_failing(requests, request.entries, at, 1)
            at += 1


@part_of(REQUESTS)
def acknowledge(m: KernelMemory, number: int, entry: Entry, due: int, heard: int) -> None:
    """Log the ages of records that the destination has stored, if the task hears of it."""
    note_stored(m, number, entry, due, heard)
    if m.is_tracked == 1 and heard != NEVER:
        held = kernel_requests(m, v.task_row(m, number).requests)
        log_age(m, held.seer, heard - entry.emitted, entry.count)


# ---- what a checkpoint keeps


@part_of(REQUESTS)
def buffered_bytes(m: KernelMemory, task: f.KernelTask) -> int:
    """Return the bytes of what a task has buffered, which a checkpoint writes."""
    if task.has_requests == 0:
        return 0
    held = kernel_requests(m, task.requests)
    if task.awaits == 1:
        return waits.queued_bytes(m, held)
    return held.writer.buffer.nbytes if held.settings.style == ASYNC else 0


@part_of(REQUESTS)
def keep_buffer(m: KernelMemory, task: f.KernelTask) -> None:
    """Copy what is buffered to where a cut takes it from: fewer records than a request has."""
    held = kernel_requests(m, task.requests)
    held.kept_acknowledged = held.writer.acknowledged
    if task.awaits == 1:
        waits.keep_queue(m, held)
        return
    entries, kept = requests_of(m, held).entries, entry_rows(m, held.kept, held.kept_most)
    place, count = held.writer.buffer.head, 0
    while place != NONE and count < held.kept_most:
        waits.copy_entry(entries[place - 1], kept[count])
        count += 1
        place = entries[place - 1].next
    held.kept_count = count


def put_back(m: KernelMemory, task: f.KernelTask) -> None:
    """Give a task that begins anew what its cut has kept of the buffer."""
    held = kernel_requests(m, task.requests)
    requests = requests_of(m, held)
    if task.awaits == 1:
        waits.put_queue_back(m, held, requests)
        return
    start_interval(held.settings, held.writer, m.round)
    for copy in entry_rows(m, held.kept, held.kept_most)[: held.kept_count]:
        place = new_entry(requests, copy.first, copy.count, copy.size, copy.emitted)
        requests.entries[place - 1].tries = copy.tries
        put_back_entry(requests, place, m.round)


def ends_in_flight(m: KernelMemory, task: f.KernelTask) -> tuple[int, int]:
    """Return the records in flight of a task that ends, and those that its destination stores."""
    requests = requests_of(m, kernel_requests(m, task.requests))
    if task.awaits == 1:
        return requests.writer.in_flight, 0
    flying = [one.entries.records for one in requests.slots if one.number > 0]
    stored = [one.entries.records - failing(requests, one.entries) for one in _stored_of(requests)]
    return sum(flying), sum(stored)


def note_end(m: KernelMemory, number: int, task: f.KernelTask) -> None:
    """Note what the destination stores of the requests in flight of a task that ends."""
    requests = requests_of(m, kernel_requests(m, task.requests))
    for request in _stored_of(requests) if task.awaits == 0 else ():
        place = request.entries.head
        while place != NONE:
            entry = requests.entries[place - 1]
            if entry.fails == 0:
                note_stored(m, number, entry, request.due, NEVER)
            place = entry.next


def _stored_of(requests: Requests) -> list[Request]:
    """Return the requests in flight of which the destination stores what does not fail."""
    return [
        one
        for one in requests.slots
        if one.number > 0
        and one.due != NEVER
        and not (requests.settings.is_whole == 1 and failing(requests, one.entries) > 0)
    ]
