"""Operators that call a service: what is in their queue, and what leaves it for their outputs."""

from collections.abc import Iterable

from flowcontrol.kernel import views as v
from flowcontrol.kernel import writing as w
from flowcontrol.kernel.ages import ANSWERED, PLACES, note_move
from flowcontrol.memory import fields as f
from flowcontrol.memory.cells import part_of, rows_of, state_of
from flowcontrol.memory.parts import EVENT_TIME, REQUESTS
from flowcontrol.memory.places import KernelMemory
from flowcontrol.memory.requests import KernelRequests
from flowcontrol.protocol.event_time import ACTIVE, IDLE, WATERMARK
from flowcontrol.protocol.requests import async_wait
from flowcontrol.protocol.requests.async_wait import EMPTY
from flowcontrol.protocol.requests.entries import free_entry, new_entry, take_first
from flowcontrol.protocol.service import work_by
from flowcontrol.protocol.tasks.operators import outputs_available, route_out
from flowcontrol.protocol.tasks.windowing import emit_marks
from flowcontrol.state.async_wait import Element, Wait
from flowcontrol.state.requests import NONE, Entry, Requests
from flowcontrol.state.tasks import RELAY, SERVER, Worker

element_rows = rows_of(Element)
entry_rows = rows_of(Entry)
held_at = state_of(KernelRequests)


@part_of(REQUESTS)
def place_in_hand(m: KernelMemory, task: f.KernelTask) -> int:
    """Return the channel of the record that is taken up, times PLACES, and its number there."""
    channel = v.gate_row(m, task.first_gate + task.gate).first_channel + task.channel
    return channel * PLACES + v.in_row(m, channel).processed


def wait_of(m: KernelMemory, held: KernelRequests, requests: Requests) -> Wait:
    """Return the queue of a task as the rules see it."""
    elements = element_rows(m, held.elements, held.element_count)
    return Wait(held.wait, held.queue, elements, requests)


@part_of(REQUESTS)
def call_taken(m: KernelMemory, worker: Worker, held: KernelRequests, requests: Requests) -> None:
    """Call the service for the record that is processed, if there is one; run what is due."""
    wait = wait_of(m, held, requests)
    # One, as records are taken up one by one where outputs follow; or all of a restored queue.
    while held.taken.head != NONE and async_wait.is_free(wait) == 1:
        place = take_first(requests, held.taken)
        if requests.entries[place - 1].count == 0:
            async_wait.put_mark(worker, wait, requests.entries[place - 1].stamp, m.now)
            free_entry(requests, place)
            continue
        async_wait.put_record(worker, wait, place, m.now)
        if held.wait.is_blocking == 1 and worker.task.kind == SERVER:
            done = work_by(worker.service_phases(), worker.now_us())
            held.into_round = max(0, worker.task.ready - done)
    async_wait.run_mails(worker, wait, m.now)
    if worker.task.is_timed == 1:
        _turn_idle(worker, held)


@part_of(REQUESTS)
def queue_marks(
    m: KernelMemory, worker: Worker, held: KernelRequests, requests: Requests, done: int
) -> None:
    """Put the watermark that a valve has given out behind the records in the queue.

    ``AsyncWaitOperator.processWatermark``. A status passes by the queue: ACTIVE before the
    watermark, IDLE once that is in the queue.
    """
    wait = wait_of(m, held, requests)
    if done & ACTIVE:
        emit_marks(worker, worker.task, ACTIVE, 0)
    if done & WATERMARK:
        async_wait.put_mark(worker, wait, worker.task_time().valve.watermark, m.now)
    held.turns_idle = 1 if done & IDLE else 0
    async_wait.run_mails(worker, wait, m.now)
    _turn_idle(worker, held)


@part_of(EVENT_TIME)
def _turn_idle(worker: Worker, held: KernelRequests) -> None:
    """Say that no watermark comes, if that waited for the one in hand."""
    if held.turns_idle == 1 and held.queue.hand == NONE:
        held.turns_idle = 0
        emit_marks(worker, worker.task, IDLE, 0)


@part_of(REQUESTS)
def go_on(worker: Worker, held: KernelRequests, start: int) -> None:
    """Have the thread of a lookup go on as far into the round as it was when it began to wait.

    ``start``: work that its rate allows by the start of the round, units.
    """
    if held.wait.is_blocking == 1 and worker.task.kind == SERVER:
        worker.task.ready = max(worker.task.ready, start + held.into_round)


@part_of(REQUESTS)
def end_calls(m: KernelMemory, worker: Worker, held: KernelRequests, requests: Requests) -> int:
    """Begin what comes when the input is over; return 1 if nothing is left in the queue."""
    wait = wait_of(m, held, requests)
    async_wait.begin_end(worker, wait, m.now)
    async_wait.run_mails(worker, wait, m.now)
    return async_wait.is_free(wait)


@part_of(REQUESTS)
def is_free(m: KernelMemory, held: KernelRequests, requests: Requests) -> int:
    """Tell whether a task waits for nothing of its queue: 1 if so."""
    return async_wait.is_free(wait_of(m, held, requests))


@part_of(REQUESTS)
def is_cached(m: KernelMemory, held: KernelRequests, wait: Wait, element: Element) -> int:
    """Tell whether a cache has the answer to a record: 1 if so; drawn, the same at each call."""
    if held.hit_share == 0:
        return 0
    number = wait.requests.entries[element.call.entries.head - 1].first
    return 1 if w.uniform(m.seed, held.cache_stream, number) * 1000000.0 < held.hit_share else 0


@part_of(REQUESTS)
def may_emit(worker: Worker) -> int:
    """Tell whether nothing waits for an output: 1 if so, 2 if a record may be taken up as well."""
    task = worker.task
    if task.is_pending == 1:
        return 0
    if task.kind != RELAY or task.queued - task.withheld <= 0:
        return 1
    return 1 + outputs_available(worker, task)


@part_of(REQUESTS)
def emit(worker: Worker, wait: Wait, element: Element) -> None:
    """Put out the record of an element that leaves the queue, unless its call had no result."""
    task = worker.task
    if element.is_mark == 1:
        _emit_mark(worker, held_at(worker.m, task.requests), element.mark)
        return
    if element.outcome == EMPTY:
        return
    entry = wait.requests.entries[element.call.entries.head - 1]
    note_move(worker.m, worker.number, ANSWERED, entry.first // PLACES, entry.first % PLACES, 1)
    task.emitted = entry.emitted
    if task.is_timed == 1:
        task.stamp = entry.stamp
    task.answered += 1
    route_out(worker, task, 1)


@part_of(EVENT_TIME)
def _emit_mark(worker: Worker, held: KernelRequests, mark: int) -> None:
    """Put out a watermark, unless the task has said that it is idle (``RecordWriterOutput``)."""
    if worker.task_time().valve.is_idle == 0 or held.turns_idle == 1:
        emit_marks(worker, worker.task, WATERMARK, mark)


# ---- what a checkpoint keeps


@part_of(REQUESTS)
def queued_bytes(m: KernelMemory, held: KernelRequests) -> int:
    """Return the bytes of the records in the queue, complete ones included."""
    elements, place, found = element_rows(m, held.elements, held.element_count), held.queue.head, 0
    while place != NONE:
        found += elements[place - 1].call.entries.nbytes
        place = elements[place - 1].next
    return found


@part_of(REQUESTS)
def keep_queue(m: KernelMemory, held: KernelRequests) -> None:
    """Copy what is in the queue, complete or not, to where a cut takes it from."""
    elements, kept = element_rows(m, held.elements, held.element_count), held.kept
    entries = entry_rows(m, held.entries, held.entry_count)
    place, count = held.queue.head, 0
    while place != NONE and count < held.kept_most:
        element, copy = elements[place - 1], entry_rows(m, kept, held.kept_most)[count]
        if element.is_mark == 1:
            copy.count = 0
            copy.stamp = element.mark
        else:
            copy_entry(entries[element.call.entries.head - 1], copy)
        count += 1
        place = element.next
    held.kept_count = count


def copy_entry(entry: Entry, copy: Entry) -> None:
    """Have a copy of what an entry is, but for its place in a list."""
    copy.first = entry.first
    copy.count = entry.count
    copy.size = entry.size
    copy.emitted = entry.emitted
    copy.tries = entry.tries
    copy.stamp = entry.stamp


def put_queue_back(m: KernelMemory, held: KernelRequests, requests: Requests) -> None:
    """Have the elements of a restored queue put in again before any other, in their order."""
    taken = held.taken
    for copy in entry_rows(m, held.kept, held.kept_most)[: held.kept_count]:
        place = new_entry(requests, copy.first, copy.count, copy.size, copy.emitted)
        requests.entries[place - 1].stamp = copy.stamp
        if taken.head == NONE:
            taken.head = place
        else:
            requests.entries[taken.tail - 1].next = place
        taken.tail = place
        taken.records += copy.count
        taken.nbytes += copy.count * copy.size
    held.queue.has_mail = 1


# ---- where its rows are, on the live clock


def waiting_from(m: KernelMemory, task: f.KernelTask) -> dict[int, int]:
    """Return the number of the first record of each channel that waits for an answer, if any."""
    held = held_at(m, task.requests)
    entries, free = entry_rows(m, held.entries, held.entry_count), set[int]()
    place = held.writer.free
    while place != NONE:
        free.add(place)
        place = entries[place - 1].next
    used = [i for i in range(held.writer.used) if i + 1 not in free]
    return first_of_each((entries[i].first, entries[i].count) for i in used)


def first_of_each(entries: Iterable[tuple[int, int]]) -> dict[int, int]:
    """Return the lowest number of each channel.

    ``entries``: of each its number and its records, 0 of a watermark.
    """
    found = dict[int, int]()
    for first, records in entries:
        channel, number = divmod(first, PLACES)
        if records > 0:
            found[channel] = min(number, found.get(channel, number))
    return found
