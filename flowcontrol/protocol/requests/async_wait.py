"""An operator that calls a service for each record and goes on without waiting for the answer.

Source: ``AsyncWaitOperator`` of Flink's streaming API, its queues and ``AsyncRetryStrategies``. The
queue holds records and watermarks in the order of their arrival until they are emitted. What Flink
does in a call that may block (``processElement``, ``endInput``) is a state here: an element in hand
enters the queue as soon as there is room.

The worker is whoever has the service and the outputs: ``submit`` says when an answer comes and
whether it fails, ``finds`` whether a cache has it; ``emit`` takes what leaves the queue, unless
``may_emit`` says that the output before it still waits for a buffer (0), or that a record may be
taken up first (2).
"""

from typing import Final

from flowcontrol.protocol.requests.common import note_answered, note_next, note_sent
from flowcontrol.protocol.requests.entries import free_entry, put_last, take_first
from flowcontrol.state.async_wait import Element, Wait
from flowcontrol.state.requests import NEVER, NONE
from flowcontrol.state.tasks import Worker

ANSWERED: Final = 0
"""A call has a result."""
FAILED: Final = 1
"""A call has failed; ``Entry.fails`` says so beforehand."""
EMPTY: Final = 2
"""A call has no result; so does ``Entry.fails``."""
TIMED_OUT: Final = 3
"""All calls of a record together took too long."""

_THOUSAND = 1000


# --- What a task asks of its operator.


def is_free(wait: Wait) -> int:
    """Tell whether the task waits for nothing of the operator: 1 if so."""
    queue = wait.queue
    if queue.hand != NONE:
        return 0
    waits_for_all = wait.settings.is_blocking + queue.is_ending
    return 1 if waits_for_all == 0 or queue.size == 0 else 0


def put_record(worker: Worker, wait: Wait, place: int, now: int) -> None:
    """Put a record in, an entry of one, or have it wait in hand (``processElement``)."""
    element = _new_element(wait)
    put_last(wait.requests, wait.elements[element - 1].call.entries, place)
    wait.queue.hand = element
    _take_hand(worker, wait, now)


def put_mark(worker: Worker, wait: Wait, mark: int, now: int) -> None:
    """Put a watermark in, ms, or have it wait in hand (``processWatermark``)."""
    element = _new_element(wait)
    wait.elements[element - 1].is_mark = 1
    wait.elements[element - 1].mark = mark
    wait.queue.hand = element
    _take_hand(worker, wait, now)


def begin_end(worker: Worker, wait: Wait, now: int) -> None:
    """Begin what comes when the input is over: retries that wait are called at once."""
    wait.queue.is_ending = 1
    place = wait.queue.head
    while place != NONE:
        element = wait.elements[place - 1]
        if element.retry_at != NEVER:
            _call(worker, wait, element, now)
        place = element.next
    _find_next(wait)


def run_mails(worker: Worker, wait: Wait, now: int) -> None:
    """Act on what is due, in order, and let in what is in hand, as long as outputs have room.

    Between two elements that leave, a record is taken up if one may be: each has a mail of its own.
    """
    queue, writer, size = wait.queue, wait.requests.writer, wait.queue.size
    while worker.may_emit() > 0:
        if queue.hand != NONE and queue.size < wait.settings.capacity:
            _take_hand(worker, wait, now)
            size = queue.size
        elif writer.next_at != NEVER and writer.next_at <= now:
            _run_mail(worker, wait, now)
        elif queue.has_mail == 0:
            return
        elif queue.size == size or queue.hand != NONE or worker.may_emit() < 2:
            _emit_one(worker, wait)
        else:
            return


# --- The queue.


def _new_element(wait: Wait) -> int:
    """Return the place of an element in which nothing is."""
    queue = wait.queue
    place = queue.free
    if place == NONE:
        queue.used += 1
        place = queue.used
    else:
        queue.free = wait.elements[place - 1].next
    element = wait.elements[place - 1]
    element.next = NONE
    element.is_mark = 0
    element.call.number = 0
    element.call.due = NEVER
    element.call.expires = NEVER
    element.calls = 0
    element.retry_at = NEVER
    element.is_called = 0
    element.completed = 0
    element.outcome = ANSWERED
    return place


def _take_hand(worker: Worker, wait: Wait, now: int) -> None:
    """Put the element in hand behind the last one if there is room; call its service."""
    settings, queue = wait.settings, wait.queue
    if queue.size >= settings.capacity:
        return
    place = queue.hand
    element = wait.elements[place - 1]
    queue.hand = NONE
    queue.size += 1
    if queue.tail == NONE:
        queue.head = place
    else:
        wait.elements[queue.tail - 1].next = place
    queue.tail = place
    element.began = now
    if element.is_mark == 1:
        _complete(wait, element, ANSWERED)
        queue.has_mail = 1
        return
    if settings.timeout != NEVER:
        element.call.expires = now + settings.timeout
        note_next(wait.requests.writer, element.call.expires)
    _call(worker, wait, element, now)


def _complete(wait: Wait, element: Element, outcome: int) -> None:
    """Note that an element may be emitted, in its turn."""
    queue = wait.queue
    queue.completions += 1
    queue.complete += 1
    element.completed = queue.completions
    element.outcome = outcome
    element.is_called = 0
    element.call.due = NEVER
    element.call.expires = NEVER
    element.retry_at = NEVER
    wait.requests.writer.buffer.records = queue.complete


def _emit_one(worker: Worker, wait: Wait) -> None:
    """Emit one element, if one may be; have a mail follow if another one may be then."""
    queue = wait.queue
    before = _before_next(wait)
    if before != NEVER:
        place = queue.head if before == NONE else wait.elements[before - 1].next
        element = wait.elements[place - 1]
        if before == NONE:
            queue.head = element.next
        else:
            wait.elements[before - 1].next = element.next
        if queue.tail == place:
            queue.tail = before
        queue.size -= 1
        queue.complete -= 1
        wait.requests.writer.buffer.records = queue.complete
        worker.emit(wait, element)
        if element.is_mark == 0:
            free_entry(wait.requests, take_first(wait.requests, element.call.entries))
        element.next = queue.free
        queue.free = place
    queue.has_mail = 0 if _before_next(wait) == NEVER else 1


def _before_next(wait: Wait) -> int:
    """Return the place before the element that is emitted next: NONE of the head, NEVER if none is.

    In order only the head may be emitted; else, of those before the first watermark, the one that
    was completed first, and a watermark when it is the head.
    """
    queue = wait.queue
    if queue.complete == 0:
        return NEVER
    head = wait.elements[queue.head - 1]
    if wait.settings.is_ordered == 1 or head.is_mark == 1:
        return NONE if head.completed > 0 else NEVER
    before, place, found, first = NONE, queue.head, NEVER, 0
    while place != NONE:
        element = wait.elements[place - 1]
        if element.is_mark == 1:
            break
        if element.completed > 0 and (first == 0 or element.completed < first):
            found, first = before, element.completed
        before, place = place, element.next
    return found


# --- Calls, answers, retries and timeouts.


def _call(worker: Worker, wait: Wait, element: Element, now: int) -> None:
    """Call the service for a record, unless the cache has its answer."""
    requests, writer, call = wait.requests, wait.requests.writer, element.call
    element.retry_at = NEVER
    if worker.finds(wait, element) == 1:
        wait.queue.hits += 1
        _complete(wait, element, ANSWERED)
        wait.queue.has_mail = 1
        return
    element.calls += 1
    element.is_called = 1
    writer.in_flight += 1
    note_sent(writer, call, 1, now)
    call.due = NEVER
    worker.submit(requests, call, now)
    note_next(wait.requests.writer, call.due)


def _find_next(wait: Wait) -> None:
    """Find out when the next mail is due."""
    wait.requests.writer.next_at = NEVER
    place = wait.queue.head
    while place != NONE:
        element = wait.elements[place - 1]
        note_next(wait.requests.writer, element.call.due)
        note_next(wait.requests.writer, element.call.expires)
        note_next(wait.requests.writer, element.retry_at)
        place = element.next


def _run_mail(worker: Worker, wait: Wait, now: int) -> None:
    """Act on what is due first: answers by their number, then timeouts, then retries likewise."""
    at, found, rank, place = wait.requests.writer.next_at, NONE, 0, wait.queue.head
    while place != NONE:
        element = wait.elements[place - 1]
        own = 3
        if element.call.due == at:
            own = 0
        elif element.call.expires == at:
            own = 1
        elif element.retry_at == at:
            own = 2
        is_before = found == NONE or own < rank
        if own < 3 and not is_before and own == rank:
            is_before = element.call.number < wait.elements[found - 1].call.number
        if own < 3 and is_before:
            found, rank = place, own
        place = element.next
    if found != NONE:
        element = wait.elements[found - 1]
        if rank == 2:
            _call(worker, wait, element, now)
        else:
            _answer(wait, element, now, rank)
            if element.completed > 0:
                _emit_one(worker, wait)
    _find_next(wait)


def _answer(wait: Wait, element: Element, now: int, is_timeout: int) -> None:
    """Take the answer of a call (``ResultHandler``), or the timeout of all calls of a record."""
    settings, writer, call = wait.settings, wait.requests.writer, element.call
    entry = wait.requests.entries[call.entries.head - 1]
    outcome = TIMED_OUT if is_timeout == 1 else entry.fails
    entry.fails = 0
    call.due = NEVER
    writer.timeouts += is_timeout
    if element.is_called == 1:
        element.is_called = 0
        writer.in_flight -= 1
        note_answered(writer, call, now)
        if outcome == ANSWERED:
            writer.acknowledged += 1
        else:
            writer.failed += 1
            writer.failed_requests += 1
    if _is_repeated(wait, element, outcome, now) == 1:
        delay = _next_delay(wait, element.calls)
        element.retry_at = now + (delay + settings.delay_units - 1) // settings.delay_units
        note_next(wait.requests.writer, element.retry_at)
        return
    if settings.fails == 1 and outcome != ANSWERED and outcome != EMPTY:
        wait.queue.has_failed = 1
    _complete(wait, element, outcome)


def _is_repeated(wait: Wait, element: Element, outcome: int, now: int) -> int:
    """Tell whether a record is called again after an outcome: 1 if so."""
    settings = wait.settings
    if wait.queue.is_ending == 1:
        return 0
    if settings.timeout != NEVER and now - element.began > settings.timeout:
        return 0
    is_wanted = 0
    if outcome == FAILED:
        is_wanted = settings.retries_errors
    elif outcome == EMPTY:
        is_wanted = settings.retries_empty
    return 1 if is_wanted == 1 and element.calls <= settings.retries else 0


def _next_delay(wait: Wait, calls: int) -> int:
    """Return the delay after so many calls; records have the last one in common.

    Source: ``ExponentialBackoffDelayRetryStrategy.getBackoffTimeMillis``.
    """
    settings, queue = wait.settings, wait.queue
    if calls <= 1:
        queue.last_delay = settings.delay
    else:
        longer = queue.last_delay * settings.multiplier // _THOUSAND
        queue.last_delay = min(longer, settings.longest_delay)
    return queue.last_delay
