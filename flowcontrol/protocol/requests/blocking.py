"""A sink whose thread waits for each request: JDBC, bulk indexers.

Sources: ``JdbcOutputFormat``; ``BulkProcessor`` under ``ElasticsearchWriter`` and
``OpensearchWriter``. Records gather in the buffer; the one that fills it sends all of it and waits
for the answer, and so do a checkpoint and the end. A second thread flushes every so often, measured
from the end of its last flush; it holds a lock meanwhile, so a write waits for that too.

The entry points and the worker are those of :mod:`.async_sink`.

What failed is sent again after a while. When it has failed as often as it may, Flink fails the job.
Here it counts as ``exhausted``, and its attempts begin anew at once.
"""

from flowcontrol.protocol.requests.common import (
    ENDING,
    FLUSHING,
    RESTING,
    WRITING,
    delay_after,
    note_answered,
    note_next,
    note_sent,
    settle,
)
from flowcontrol.protocol.requests.entries import failing, put_first, put_last, take_records
from flowcontrol.state.requests import BLOCKING, NEVER, NONE, Requests, SinkWriter, WriterSettings
from flowcontrol.state.tasks import Worker

# --- What a task asks of its writer.


def start_interval(settings: WriterSettings, writer: SinkWriter, now: int) -> None:
    """Start the interval of a writer that has one, where its task begins."""
    if settings.style == BLOCKING and settings.buffer_time != NEVER:
        writer.timer = now + settings.buffer_time
        writer.next_at = writer.timer


def room(requests: Requests, size: int) -> int:
    """Return how many records of a size :func:`write` takes before it waits, at least 1."""
    settings, buffer = requests.settings, requests.writer.buffer
    if _is_locked(requests) == 1:
        return 1
    records = settings.batch - buffer.records
    nbytes = settings.batch_bytes - buffer.nbytes
    return max(1, min(records, (nbytes + size - 1) // size))


def write(worker: Worker, requests: Requests, place: int, now: int) -> None:
    """Write an entry of at most :func:`room` records; the task waits if that fills the buffer."""
    requests.writer.hand = place
    requests.writer.waits = WRITING
    _go_on(worker, requests, now)


def begin_flush(worker: Worker, requests: Requests, now: int) -> None:
    """Begin what comes before a barrier is passed on."""
    requests.writer.waits = FLUSHING if requests.settings.flushes == 1 else RESTING
    _go_on(worker, requests, now)


def begin_end(worker: Worker, requests: Requests, now: int) -> None:
    """Begin what comes when the input is over."""
    requests.writer.waits = ENDING
    _go_on(worker, requests, now)
    _find_next(requests)


def run_mails(worker: Worker, requests: Requests, now: int) -> None:
    """Act on what is due, in order: an answer, a request that is sent again, the interval."""
    writer, request = requests.writer, requests.slots[0]
    while writer.next_at != NEVER and writer.next_at <= now:
        if request.number > 0 and request.due == writer.next_at:
            _answer(worker, requests, now)
        elif request.again == writer.next_at:
            _send(worker, requests, now)
        else:
            writer.timer = NEVER
            writer.is_draining = 1
        _go_on(worker, requests, now)
        _find_next(requests)


# --- What it does.


def _is_locked(requests: Requests) -> int:
    """Tell whether a request is in flight, or waits until it is sent again: 1 if so."""
    request = requests.slots[0]
    return 1 if request.number > 0 or request.again != NEVER else 0


def _find_next(requests: Requests) -> None:
    """Find out when something is due next."""
    writer, request = requests.writer, requests.slots[0]
    writer.next_at = writer.timer
    note_next(writer, request.due if request.number > 0 else request.again)


def _go_on(worker: Worker, requests: Requests, now: int) -> None:
    """Go on as far as nothing has to be waited for: a flush of the interval first."""
    settings, writer = requests.settings, requests.writer
    if _is_locked(requests) == 1:
        return
    if writer.waits == WRITING and writer.hand == NONE:
        writer.waits = RESTING
    if writer.is_draining == 1:
        if writer.buffer.records > 0:
            _send(worker, requests, now)
            return
        writer.is_draining = 0
        writer.timer = now + settings.buffer_time
        note_next(writer, writer.timer)
    if writer.waits == WRITING:
        put_last(requests, writer.buffer, writer.hand)
        writer.hand = NONE
        buffer = writer.buffer
        if buffer.records >= settings.batch or buffer.nbytes >= settings.batch_bytes:
            _send(worker, requests, now)
        else:
            writer.waits = RESTING
    elif writer.waits != RESTING and writer.buffer.records > 0:
        _send(worker, requests, now)
    elif writer.waits == ENDING:
        writer.timer = NEVER
        writer.waits = RESTING
    else:
        writer.waits = RESTING


def _send(worker: Worker, requests: Requests, now: int) -> None:
    """Send all that is in the buffer."""
    writer, request = requests.writer, requests.slots[0]
    buffer = writer.buffer
    count = take_records(requests, buffer, request.entries, buffer.records, buffer.nbytes)
    writer.in_flight = 1
    note_sent(writer, request, count, now)
    request.again = NEVER
    worker.submit(requests, request, now)
    note_next(writer, request.due)


def _answer(worker: Worker, requests: Requests, now: int) -> None:
    """Take the answer: what failed goes back to the buffer, and is sent again after a while."""
    settings, writer, request = requests.settings, requests.writer, requests.slots[0]
    note_answered(writer, request, now)
    writer.in_flight = 0
    request.number = 0
    fails = failing(requests, request.entries)
    is_lost = settings.is_whole if fails > 0 else 0
    stored = NEVER if is_lost == 1 else request.due
    settle(worker, requests, request.entries, is_lost, stored, now)
    if fails == 0:
        request.tries = 0
        return
    writer.failed_requests += 1
    put_first(requests, writer.buffer, writer.again)
    request.again = now
    if request.tries < settings.retry.retries:
        request.again += delay_after(settings.retry, request.tries)
        request.tries += 1
    else:
        writer.exhausted += 1
        request.tries = 0
