"""A sink that buffers records, sends them in batches and goes on without waiting for the answers.

Source: ``AsyncSinkWriter`` and ``SinkWriterOperator`` of Flink's connector base (FLIP-171). What
Flink does in one call that may block (``write``, ``flush``) is a state here: :func:`write`,
:func:`begin_flush` and :func:`begin_end` do what they can, and each answer or timer
(:func:`run_mails`) goes on where the task waits. Flink's task thread runs such mails one by one
while it waits, so the steps and their order are the same.

The worker is whoever has the destination: ``submit`` says when the answer to a request comes, and
which of its entries fail; ``acknowledge`` hears of those that did not, when the answer came and
when it was heard, NEVER after a timeout.
"""

from flowcontrol.protocol.requests.common import (
    ENDING,
    ENDING_FLUSH,
    FLUSHING,
    RESTING,
    WRITING,
    free_slot,
    note_answered,
    note_next,
    note_sent,
    settle,
)
from flowcontrol.protocol.requests.entries import (
    failing,
    put_first,
    put_last,
    split_entry,
    take_records,
)
from flowcontrol.protocol.requests.rate_limiting import (
    most_in_batch,
    register_answer,
    register_request,
    should_block,
    tokens_at,
)
from flowcontrol.state.requests import NEVER, NONE, Request, Requests
from flowcontrol.state.tasks import Worker

# --- What a task asks of its writer.


def is_free(requests: Requests) -> int:
    """Tell whether the task waits for nothing of the writer: 1 if so."""
    writer = requests.writer
    return 1 if writer.waits == RESTING and writer.is_draining == 0 else 0


def room(requests: Requests) -> int:
    """Return how many records :func:`write` takes before one waits, at least 1."""
    return max(1, requests.settings.buffered - requests.writer.buffer.records)


def write(worker: Worker, requests: Requests, place: int, now: int) -> int:
    """Write an entry of at most :func:`room` records; return 0 if the task then waits."""
    writer = requests.writer
    writer.hand = place
    writer.waits = WRITING
    if writer.buffer.records < requests.settings.buffered:
        _write_hand(worker, requests, now)
        return 1
    _go_on(worker, requests, now, 0)
    return is_free(requests)


def begin_flush(worker: Worker, requests: Requests, now: int) -> int:
    """Begin what comes before a barrier is passed on; return 1 if that is over."""
    requests.writer.waits = FLUSHING
    _go_on(worker, requests, now, 0)
    return is_free(requests)


def begin_end(worker: Worker, requests: Requests, now: int) -> int:
    """Begin what comes when the input is over; return 1 if all is acknowledged."""
    requests.writer.waits = ENDING
    _go_on(worker, requests, now, 0)
    return is_free(requests)


def run_mails(worker: Worker, requests: Requests, now: int) -> None:
    """Act on the answers and timers that are due, in order, and go on where the task waits.

    Those behind the last one that a checkpoint waited for are left: its snapshot comes before them.
    """
    writer = requests.writer
    while writer.next_at != NEVER and writer.next_at <= now:
        is_flushing = writer.waits == FLUSHING
        _run_mail(worker, requests, now)
        _go_on(worker, requests, now, 1)
        if is_flushing and writer.waits == RESTING:
            return


def put_back(requests: Requests, place: int, now: int) -> None:
    """Put an entry of a restored state into the buffer: nothing is sent."""
    _append(requests, place, now)


# --- Going on after a mail: the timer's flush first, which has interrupted what the task does.


def _go_on(worker: Worker, requests: Requests, now: int, has_mail: int) -> None:
    """Go on as far as nothing has to be waited for; ``has_mail``: 1 after a mail."""
    settings, writer = requests.settings, requests.writer
    while writer.is_draining == 1:
        if _waits(requests, now) == 1:
            return
        _send(worker, requests, now)
        if writer.buffer.records == 0:
            writer.is_draining = 0
    while writer.waits == WRITING:
        if _waits(requests, now) == 1:
            return
        _send(worker, requests, now)
        if writer.buffer.records < settings.buffered:
            _write_hand(worker, requests, now)
    if writer.waits == FLUSHING and writer.in_flight == 0:
        writer.waits = RESTING
    if writer.waits == ENDING or writer.waits == ENDING_FLUSH:
        _go_on_ending(worker, requests, now, has_mail)


def _go_on_ending(worker: Worker, requests: Requests, now: int, has_mail: int) -> None:
    """Go on with the last flush: a mail, if any request is in flight, then a request, in turn."""
    writer = requests.writer
    while True:
        if writer.waits == ENDING:
            if writer.in_flight == 0 and writer.buffer.records == 0:
                writer.waits = RESTING
                return
            if writer.in_flight > 0 and has_mail == 0:
                return
            has_mail = 0
            writer.waits = ENDING_FLUSH
        if _waits(requests, now) == 1:
            return
        _send(worker, requests, now)
        writer.waits = ENDING


def _write_hand(worker: Worker, requests: Requests, now: int) -> None:
    """Put the records in hand into the buffer, one by one as far as one may fill a request."""
    writer = requests.writer
    place = writer.hand
    writer.hand = NONE
    writer.waits = RESTING
    while place != NONE:
        entry, rest = requests.entries[place - 1], NONE
        count = _until_full(requests, entry.size)
        if count < entry.count:
            rest = split_entry(requests, place, count)
        _append(requests, place, now)
        _send_full(worker, requests, now)
        place = rest


def _until_full(requests: Requests, size: int) -> int:
    """Return how many records of a size it takes until there is a full request, at least 1."""
    buffer = requests.writer.buffer
    records = most_in_batch(requests.settings, requests.writer) - buffer.records
    nbytes = requests.settings.batch_bytes - buffer.nbytes
    return max(1, min(records, (nbytes + size - 1) // size))


# --- The buffer and what leaves it.


def _append(requests: Requests, place: int, now: int) -> None:
    """Put an entry behind the buffer's last one (``addEntryToBuffer``)."""
    _start_timer(requests, now)
    put_last(requests, requests.writer.buffer, place)


def _start_timer(requests: Requests, now: int) -> None:
    """Start the buffer's timer, if the buffer is empty and none runs."""
    writer = requests.writer
    if writer.buffer.records == 0 and writer.timer == NEVER:
        writer.timer = now + requests.settings.buffer_time
        note_next(writer, writer.timer)


def _may_send(requests: Requests, now: int) -> int:
    """Tell whether the next request need not wait, even if it is of nothing: 1 if so."""
    return 1 - should_block(requests.settings, requests.writer, _asked(requests), now)


def _asked(requests: Requests) -> int:
    """Return how many records the next request asks for."""
    return min(most_in_batch(requests.settings, requests.writer), requests.writer.buffer.records)


def _waits(requests: Requests, now: int) -> int:
    """Tell whether the next request has to wait for a mail: 1 if so.

    Without requests in flight no mail need come: the task then looks for tokens again and again
    (FLINK-38096; before that it hangs).
    """
    writer = requests.writer
    if _may_send(requests, now) == 1:
        return 0
    if writer.in_flight == 0 and writer.bucket.rate > 0:
        writer.looks = tokens_at(requests.settings, writer, _asked(requests), now)
        note_next(writer, writer.looks)
    return 1


def _send_full(worker: Worker, requests: Requests, now: int) -> None:
    """Send full requests as far as none has to wait (``nonBlockingFlush``)."""
    settings, writer = requests.settings, requests.writer
    while _may_send(requests, now) == 1:
        is_full = writer.buffer.records >= most_in_batch(settings, writer)
        if not is_full and writer.buffer.nbytes < settings.batch_bytes:
            return
        _send(worker, requests, now)


def _send(worker: Worker, requests: Requests, now: int) -> None:
    """Send a request of what is at the head of the buffer, if there is anything (``flush``)."""
    settings, writer = requests.settings, requests.writer
    asked = _asked(requests)
    if asked == 0:
        return
    request = requests.slots[free_slot(requests) - 1]
    nbytes = settings.batch_bytes
    take_records(requests, writer.buffer, request.entries, asked, nbytes)
    register_request(settings, writer, asked, now)
    note_sent(writer, request, asked, now)
    request.expires = NEVER if settings.timeout == NEVER else now + settings.timeout
    worker.submit(requests, request, now)
    note_next(writer, request.due)
    note_next(writer, request.expires)


# --- Answers and timers.


def _run_mail(worker: Worker, requests: Requests, now: int) -> None:
    """Act on what is due first: tokens, answers and timeouts by their number, then the timer."""
    writer, first, is_timeout = requests.writer, NONE, 0
    at = writer.next_at
    if writer.looks == at:
        writer.looks = NEVER
        _find_next(requests)
        return
    for number in range(len(requests.slots)):
        request = requests.slots[number]
        if request.number == 0 or (request.due != at and request.expires != at):
            continue
        is_late = 1 if request.due != at else 0
        is_before = first == NONE or is_late < is_timeout
        if not is_before and is_late == is_timeout:
            is_before = request.number < requests.slots[first - 1].number
        if is_before:
            first, is_timeout = number + 1, is_late
    if first != NONE:
        _answer(worker, requests, requests.slots[first - 1], now, is_timeout)
    else:
        writer.timer = NEVER
        if writer.buffer.records > 0:
            writer.is_draining = 1
    _find_next(requests)


def _answer(
    worker: Worker, requests: Requests, request: Request, now: int, is_timeout: int
) -> None:
    """Take the answer of a request (``completeRequest``), or its timeout: all of it failed.

    A real answer after that counts for nothing, but what it would have acknowledged is stored.
    """
    settings, writer, entries = requests.settings, requests.writer, request.entries
    note_answered(writer, request, now)
    writer.timeouts += is_timeout
    if is_timeout == 1 and request.due != NEVER:
        writer.doubled += entries.records - failing(requests, entries)
    settle(worker, requests, entries, is_timeout, request.due, now)
    failed = writer.again
    register_answer(settings, writer, request.asked, failed.records)
    request.number = 0
    if failed.records > 0:
        writer.failed_requests += 1
        _start_timer(requests, now)
        put_first(requests, writer.buffer, failed)
    _send_full(worker, requests, now)


def _find_next(requests: Requests) -> None:
    """Find out when the next mail is due."""
    writer = requests.writer
    writer.next_at = writer.timer
    note_next(writer, writer.looks)
    if writer.in_flight == 0:
        return
    for number in range(len(requests.slots)):
        request = requests.slots[number]
        if request.number > 0:
            note_next(writer, request.due)
            note_next(writer, request.expires)
