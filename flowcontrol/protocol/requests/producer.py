"""A sink that gives its records to Kafka's producer: batches by partition, a pool, a sender.

Sources: ``KafkaProducer``, ``RecordAccumulator``, ``BufferPool`` and ``Sender``, whose partitions
are all on one broker. A record is appended to the open batch of a partition; a new batch takes
memory of the pool, and a write waits while there is too little. The sender, a thread of its own,
makes requests of the first batch of each partition, in turn.

What is simpler here: the partition changes when a batch of it is full (the real one draws the next
one); batches have no headers and are not compressed; a delay before a retry has no jitter; answers
come in the order of the requests, as those of one connection do. A task writes the records of a
round one behind the other before the sender looks.

A batch that has failed too often or for too long, and a write that has waited too long, fail the
job. Here they count as ``exhausted``, and the attempts begin anew.

The entry points and the worker are those of :mod:`.async_sink`.
"""

from flowcontrol.protocol.requests.common import (
    ENDING,
    FLUSHING,
    RESTING,
    WRITING,
    delay_after,
    free_slot,
    note_answered,
    note_next,
    note_sent,
    settle,
)
from flowcontrol.protocol.requests.entries import failing, put_last, split_entry, take_records
from flowcontrol.state.requests import NEVER, NONE, Request, Requests
from flowcontrol.state.tasks import Worker

# --- What a task asks of its writer.


def room(requests: Requests, size: int) -> int:
    """Return how many records of a size :func:`write` takes before it may wait, at least 1."""
    settings, tail = requests.settings, requests.queues[requests.writer.partition].tail
    if tail != NONE and requests.batches[tail - 1].is_full == 0:
        left = settings.batch_bytes - requests.batches[tail - 1].entries.nbytes
        if left >= size:
            return left // size
    return max(1, settings.batch_bytes // size) if _has_memory(requests, size) == 1 else 1


def write(requests: Requests, place: int, now: int) -> None:
    """Write an entry of at most :func:`room` records; the task waits if the pool is empty.

    The sender does not look before :func:`look`.
    """
    settings, writer = requests.settings, requests.writer
    writer.hand = place
    writer.waits = WRITING
    if _append(requests, now) == 1:
        writer.waits = RESTING
    elif settings.max_block != NEVER:
        writer.blocked = now + settings.max_block


def look(worker: Worker, requests: Requests, now: int) -> None:
    """Have the sender send what it may."""
    _go_on(worker, requests, now)


def begin_flush(worker: Worker, requests: Requests, now: int) -> None:
    """Begin what comes before a barrier is passed on (``KafkaProducer.flush``)."""
    requests.writer.waits = FLUSHING if requests.settings.flushes == 1 else RESTING
    _go_on(worker, requests, now)


def begin_end(worker: Worker, requests: Requests, now: int) -> None:
    """Begin what comes when the input is over."""
    requests.writer.waits = ENDING
    _go_on(worker, requests, now)


def run_mails(worker: Worker, requests: Requests, now: int) -> None:
    """Act on what is due, in order: answers, then what the sender may send."""
    writer = requests.writer
    while writer.next_at != NEVER and writer.next_at <= now:
        number = _answered(requests, writer.next_at)
        if number != NONE:
            _answer(worker, requests, requests.slots[number - 1], now)
        elif writer.blocked == writer.next_at:
            writer.exhausted += 1
            writer.blocked = NEVER
        _go_on(worker, requests, now)


def _go_on(worker: Worker, requests: Requests, now: int) -> None:
    """Go on as far as nothing has to be waited for."""
    writer = requests.writer
    if writer.waits == WRITING and _append(requests, now) == 1:
        writer.waits = RESTING
        writer.blocked = NEVER
    while writer.in_flight < requests.settings.in_flight and _is_ready(requests, now) == 1:
        _send(worker, requests, now)
    if writer.waits > WRITING and writer.buffer.records == 0 and writer.in_flight == 0:
        writer.waits = RESTING
    _find_next(requests, now)


# --- Batches and their memory.


def _has_memory(requests: Requests, size: int) -> int:
    """Tell whether the pool has memory for a batch with a record of a size: 1 if so."""
    settings = requests.settings
    needed = max(settings.batch_bytes, size)
    return 1 if requests.writer.memory + needed <= settings.memory else 0


def _append(requests: Requests, now: int) -> int:
    """Append the records in hand to batches; return 0 if some of them wait for memory."""
    settings, writer = requests.settings, requests.writer
    while writer.hand != NONE:
        own = writer.hand
        size = requests.entries[own - 1].size
        place = _open_batch(requests, size)
        if place == NONE and writer.produced + size > settings.batch_bytes:
            writer.partition = (writer.partition + 1) % settings.partitions
            writer.produced = 0
            place = _open_batch(requests, size)
        if place == NONE:
            if _has_memory(requests, size) == 0:
                return 0
            place = _new_batch(requests, size, now)
        batch = requests.batches[place - 1]
        fitting = max(1, (settings.batch_bytes - batch.entries.nbytes) // size)
        count = min(fitting, requests.entries[own - 1].count)
        writer.hand = NONE
        if count < requests.entries[own - 1].count:
            writer.hand = split_entry(requests, own, count)
        put_last(requests, batch.entries, own)
        writer.produced += count * size
        writer.buffer.records += count
        writer.buffer.nbytes += count * size
    return 1


def _open_batch(requests: Requests, size: int) -> int:
    """Return the place of the batch to which a record of a size is appended, if there is one.

    One without room for it is full then, and the next partition has its turn.
    """
    place = requests.queues[requests.writer.partition].tail
    if place == NONE or requests.batches[place - 1].is_full == 1:
        return NONE
    if requests.batches[place - 1].entries.nbytes + size > requests.settings.batch_bytes:
        requests.batches[place - 1].is_full = 1
        requests.writer.produced = requests.settings.batch_bytes
        return NONE
    return place


def _new_batch(requests: Requests, size: int, now: int) -> int:
    """Return the place of a new batch of the partition whose turn it is, with its memory."""
    writer, place = requests.writer, requests.writer.free_batch
    if place == NONE:
        writer.used_batches += 1
        place = writer.used_batches
    else:
        writer.free_batch = requests.batches[place - 1].next
    batch, queue = requests.batches[place - 1], requests.queues[writer.partition]
    batch.next = NONE
    batch.partition = writer.partition
    batch.number = queue.begun
    batch.memory = max(requests.settings.batch_bytes, size)
    batch.created = now
    batch.is_full = 0
    batch.tries = 0
    batch.again = NEVER
    queue.begun += 1
    writer.memory += batch.memory
    if queue.tail == NONE:
        queue.head = place
    else:
        requests.batches[queue.tail - 1].next = place
    queue.tail = place
    return place


# --- What the sender does.


def _may_drain(requests: Requests, partition: int, now: int) -> int:
    """Tell whether the first batch of a partition may be in a request now: 1 if so.

    One that has failed waits for a while, and until none of its partition is in flight.
    """
    queue = requests.queues[partition]
    if queue.head == NONE:
        return 0
    batch = requests.batches[queue.head - 1]
    if batch.tries > 0 and queue.in_flight > 0:
        return 0
    return 0 if batch.again > now else 1


def _is_ready(requests: Requests, now: int) -> int:
    """Tell whether a request is to be sent now (``RecordAccumulator.ready``): 1 if so."""
    settings, waits = requests.settings, requests.writer.waits
    if requests.writer.buffer.records == 0:
        return 0
    for partition in range(settings.partitions):
        if _may_drain(requests, partition, now) == 0:
            continue
        batch = requests.batches[requests.queues[partition].head - 1]
        if batch.is_full == 1 or batch.next != NONE or waits != RESTING:
            return 1
        if now - batch.created >= settings.buffer_time:
            return 1
    return 0


def _send(worker: Worker, requests: Requests, now: int) -> None:
    """Send the first batch of each partition as far as they fit (``RecordAccumulator.drain``)."""
    settings, writer = requests.settings, requests.writer
    request = requests.slots[free_slot(requests) - 1]
    entries, first = request.entries, writer.drained
    for i in range(settings.partitions):
        partition = (first + i) % settings.partitions
        writer.drained = partition
        if _may_drain(requests, partition, now) == 0:
            continue
        queue = requests.queues[partition]
        batch = requests.batches[queue.head - 1]
        if entries.records > 0 and entries.nbytes + batch.entries.nbytes > settings.request_bytes:
            break
        _take_batch(requests, request, partition)
    writer.in_flight += 1
    note_sent(writer, request, entries.records, now)
    writer.buffer.records -= entries.records
    writer.buffer.nbytes -= entries.nbytes
    worker.submit(requests, request, now)
    request.due = max(request.due, writer.answered)
    writer.answered = request.due


def _take_batch(requests: Requests, request: Request, partition: int) -> None:
    """Move the first batch of a partition into a request, behind those that are in it."""
    queue = requests.queues[partition]
    place = queue.head
    batch = requests.batches[place - 1]
    queue.head = batch.next
    if queue.head == NONE:
        queue.tail = NONE
    queue.in_flight += 1
    waiting = batch.entries
    batch.next = NONE
    batch.is_full = 1
    batch.records = waiting.records
    take_records(requests, waiting, request.entries, waiting.records, waiting.nbytes)
    if request.batches == NONE:
        request.batches = place
        return
    last = request.batches
    while requests.batches[last - 1].next != NONE:
        last = requests.batches[last - 1].next
    requests.batches[last - 1].next = place


def _answered(requests: Requests, at: int) -> int:
    """Return the place of the oldest request that is answered at a time, if there is one."""
    found = NONE
    for number in range(len(requests.slots)):
        request = requests.slots[number]
        if request.number == 0 or request.due != at:
            continue
        if found == NONE or request.number < requests.slots[found - 1].number:
            found = number + 1
    return found


def _answer(worker: Worker, requests: Requests, request: Request, now: int) -> None:
    """Take the answer of a request, batch by batch.

    A batch fails if anything of it does, or if one before it has: its number is out of order.
    """
    writer = requests.writer
    note_answered(writer, request, now)
    writer.in_flight -= 1
    request.number = 0
    place, failed = request.batches, writer.failed
    request.batches = NONE
    while place != NONE:
        batch = requests.batches[place - 1]
        after, queue = batch.next, requests.queues[batch.partition]
        queue.in_flight -= 1
        nbytes = request.entries.nbytes
        take_records(requests, request.entries, batch.entries, batch.records, nbytes)
        if batch.number == queue.acknowledged and failing(requests, batch.entries) == 0:
            _acknowledge(worker, requests, place, now)
        else:
            _put_back(requests, place, now)
        place = after
    writer.failed_requests += 1 if writer.failed > failed else 0


def _acknowledge(worker: Worker, requests: Requests, place: int, now: int) -> None:
    """Give the memory of a batch back to the pool; all of it is stored."""
    writer, batch = requests.writer, requests.batches[place - 1]
    requests.queues[batch.partition].acknowledged += 1
    settle(worker, requests, batch.entries, 0, writer.next_at, now)
    writer.memory -= batch.memory
    batch.next = writer.free_batch
    writer.free_batch = place


def _put_back(requests: Requests, place: int, now: int) -> None:
    """Put a batch that failed in front of those of its partition that were begun after it."""
    settings, writer, batch = requests.settings, requests.writer, requests.batches[place - 1]
    own = batch.entries.head
    while own != NONE:
        entry = requests.entries[own - 1]
        entry.fails = 0
        entry.tries += 1
        own = entry.next
    writer.failed += batch.entries.records
    writer.buffer.records += batch.entries.records
    writer.buffer.nbytes += batch.entries.nbytes
    is_late = settings.timeout != NEVER and now - batch.created >= settings.timeout
    if is_late or batch.tries >= settings.retry.retries:
        writer.exhausted += 1
        batch.created = now
        batch.tries = 0
    batch.again = now + delay_after(settings.retry, batch.tries)
    batch.tries += 1
    queue = requests.queues[batch.partition]
    before, after = NONE, queue.head
    while after != NONE and requests.batches[after - 1].number < batch.number:
        before = after
        after = requests.batches[after - 1].next
    batch.next = after
    if before == NONE:
        queue.head = place
    else:
        requests.batches[before - 1].next = place
    if after == NONE:
        queue.tail = place


def _find_next(requests: Requests, now: int) -> None:
    """Find out when something is due next."""
    settings, writer = requests.settings, requests.writer
    writer.next_at = writer.blocked
    for number in range(len(requests.slots)):
        if requests.slots[number].number > 0:
            note_next(writer, requests.slots[number].due)
    if writer.in_flight >= settings.in_flight or writer.buffer.records == 0:
        return
    for partition in range(settings.partitions):
        queue = requests.queues[partition]
        if queue.head == NONE:
            continue
        batch = requests.batches[queue.head - 1]
        if batch.tries == 0:
            note_next(writer, batch.created + settings.buffer_time)
        elif queue.in_flight == 0:
            note_next(writer, batch.again)
