"""What a task asks of its writer, whatever style that has.

What Flink does in one call that may block is a state here: :func:`write`, :func:`begin_flush` and
:func:`begin_end` do what they can, and :func:`run_mails` goes on where the task waits.
"""

from flowcontrol.protocol.requests import async_sink, blocking, producer
from flowcontrol.protocol.requests.common import RESTING
from flowcontrol.state.requests import ASYNC, BLOCKING, PRODUCER, Requests
from flowcontrol.state.tasks import Worker


def is_free(requests: Requests) -> int:
    """Tell whether the task waits for nothing of the writer: 1 if so."""
    if requests.settings.style == ASYNC:
        return async_sink.is_free(requests)
    return 1 if requests.writer.waits == RESTING else 0


def runs_apart(requests: Requests) -> int:
    """Tell whether answers and timers have a thread of their own: 1 if so.

    Those of an asynchronous sink are mails, which wait until the task is between two records.
    """
    return 0 if requests.settings.style == ASYNC else 1


def room(requests: Requests, size: int) -> int:
    """Return how many records of a size :func:`write` takes before one waits, at least 1."""
    if requests.settings.style == BLOCKING:
        return blocking.room(requests, size)
    if requests.settings.style == PRODUCER:
        return producer.room(requests, size)
    return async_sink.room(requests)


def write(worker: Worker, requests: Requests, place: int, now: int) -> int:
    """Write an entry of at most :func:`room` records; return 0 if the task then waits.

    When all that there is has been written, :func:`end_write` follows.
    """
    if requests.settings.style == BLOCKING:
        blocking.write(worker, requests, place, now)
    elif requests.settings.style == PRODUCER:
        producer.write(requests, place, now)
    else:
        async_sink.write(worker, requests, place, now)
    return is_free(requests)


def end_write(worker: Worker, requests: Requests, now: int) -> None:
    """Have a sender with a thread of its own look at what was written."""
    if requests.settings.style == PRODUCER:
        producer.look(worker, requests, now)


def begin_flush(worker: Worker, requests: Requests, now: int) -> int:
    """Begin what comes before a barrier is passed on; return 1 if that is over."""
    if requests.settings.style == BLOCKING:
        blocking.begin_flush(worker, requests, now)
    elif requests.settings.style == PRODUCER:
        producer.begin_flush(worker, requests, now)
    else:
        async_sink.begin_flush(worker, requests, now)
    return is_free(requests)


def begin_end(worker: Worker, requests: Requests, now: int) -> int:
    """Begin what comes when the input is over; return 1 if all is acknowledged."""
    if requests.settings.style == BLOCKING:
        blocking.begin_end(worker, requests, now)
    elif requests.settings.style == PRODUCER:
        producer.begin_end(worker, requests, now)
    else:
        async_sink.begin_end(worker, requests, now)
    return is_free(requests)


def run_mails(worker: Worker, requests: Requests, now: int) -> None:
    """Act on the answers and timers that are due, in order, and go on where the task waits."""
    if requests.settings.style == BLOCKING:
        blocking.run_mails(worker, requests, now)
    elif requests.settings.style == PRODUCER:
        producer.run_mails(worker, requests, now)
    else:
        async_sink.run_mails(worker, requests, now)
