"""What all writers have in common: what they wait for, requests sent and answered, retries.

Sources: ``JdbcOutputFormat.flush`` (sleeps 1000 ms x attempt), ``BackoffPolicy`` of Elasticsearch.
"""

from math import exp
from typing import Final

from flowcontrol.protocol.requests.entries import free_entry, put_last, take_first
from flowcontrol.state.requests import NEVER, Backoff, EntryList, Request, Requests, SinkWriter
from flowcontrol.state.tasks import Worker

RESTING: Final = 0
"""The task waits for nothing of the writer."""
WRITING: Final = 1
"""It waits in ``write``: for room in the buffer, or until a request is answered."""
FLUSHING: Final = 2
"""A checkpoint waits until no request is in flight (``flush(false)``)."""
ENDING: Final = 3
"""The input is over: the task waits for the next answer (``flush(true)``)."""
ENDING_FLUSH: Final = 4
"""The input is over: a request waits until it may be sent."""

_MILLION = 1_000_000
_STEEP_US = 10_000


def note_next(writer: SinkWriter, at: int) -> None:
    """Have the writer looked at at a time, if it is one."""
    if at != NEVER and (writer.next_at == NEVER or at < writer.next_at):
        writer.next_at = at


def free_slot(requests: Requests) -> int:
    """Return a free place for a request, from 1 on; there is one, as one more may be in flight."""
    number = 0
    while requests.slots[number].number != 0:
        number += 1
    return number + 1


def note_sent(writer: SinkWriter, request: Request, asked: int, now: int) -> None:
    """Number and count a request that is sent; ``asked``: records that were to be in it."""
    writer.requests += 1
    writer.sent += request.entries.records
    writer.sent_bytes += request.entries.nbytes
    request.number = writer.requests
    request.asked = asked
    request.sent = now


def note_answered(writer: SinkWriter, request: Request, now: int) -> None:
    """Count an answer, or what stands in its place, and the time that it took."""
    writer.send_time = now - request.sent
    writer.answer_time += writer.send_time
    writer.answers += 1


def settle(
    worker: Worker, requests: Requests, entries: EntryList, is_lost: int, stored: int, now: int
) -> None:
    """Acknowledge what did not fail of some entries, and gather the others in ``again``.

    - ``is_lost``: 1: all of them have failed.
    - ``stored``: when the destination has stored what did not fail; NEVER: it has not.
    """
    writer = requests.writer
    while entries.records > 0:
        place = take_first(requests, entries)
        entry = requests.entries[place - 1]
        if entry.fails == 0 and stored != NEVER:
            worker.acknowledge(entry, stored, NEVER if is_lost == 1 else now)
        if entry.fails == 0 and is_lost == 0:
            writer.acknowledged += entry.count
            free_entry(requests, place)
            continue
        entry.fails = 0
        entry.tries += 1
        put_last(requests, writer.again, place)
    writer.failed += writer.again.records


def delay_after(backoff: Backoff, failures: int) -> int:
    """Return the time until the next attempt, in units, after so many failures before this one."""
    us = backoff.first_us
    for _ in range(failures if backoff.multiplier > _MILLION else 0):
        if us >= backoff.most_us:
            break
        us = us * backoff.multiplier // _MILLION
    if backoff.is_steep == 1:
        us += _STEEP_US * (int(exp(0.8 * min(failures, 25))) - 1)
    us = min(us + backoff.step_us * failures, backoff.most_us)
    return (us + backoff.unit_us - 1) // backoff.unit_us
