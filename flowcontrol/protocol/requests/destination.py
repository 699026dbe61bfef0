"""What a destination makes of a request: how long it takes, and which records it does not take.

A model, without a source in Flink: a token bucket for each limit, a time that is drawn, and errors
that are drawn. A record for which there is no token fails with the answer; so does each behind it.
"""

from math import log

from flowcontrol.protocol.requests.entries import split_entry
from flowcontrol.protocol.service import relative_time
from flowcontrol.state.requests import NONE, Bucket, Destination, EntryList, Requests

WHOLE = 1_000_000_000
"""Billionths of a token."""
_MILLION = 1_000_000
LONGEST_US = 1.0e16
"""Time of an answer that no run sees, microseconds."""


def fill(bucket: Bucket, now_us: int) -> None:
    """Put the tokens into a bucket that have become due since it was filled last."""
    missing = bucket.most - bucket.tokens
    since_us = now_us - bucket.filled_us
    if since_us > missing // bucket.rate:
        bucket.tokens = bucket.most
    else:
        bucket.tokens += since_us * bucket.rate
    bucket.filled_us = now_us


def take_tokens(bucket: Bucket, wanted: int, now_us: int) -> int:
    """Take as many tokens as there are, at most ``wanted``; return how many; all without limit."""
    if bucket.rate == 0:
        return wanted
    fill(bucket, now_us)
    count = min(wanted, bucket.tokens // WHOLE)
    bucket.tokens -= count * WHOLE
    return count


def admitted(destination: Destination, records: int, now_us: int) -> int:
    """Return how many records of a request its limits let pass: the first ones."""
    if take_tokens(destination.requests, 1, now_us) == 0:
        return 0
    return take_tokens(destination.records, records, now_us)


def answer_us(
    destination: Destination, mean_us: int, entries: EntryList, first: float, second: float
) -> int:
    """Return how long a request takes, microseconds.

    - ``mean_us``: what an empty one takes in the mean.
    - ``first``, ``second``: uniform in [0, 1).
    """
    own = relative_time(destination.distribution, destination.variation / _MILLION, first, second)
    whole, rest = entries.nbytes // 1000, entries.nbytes % 1000
    added = destination.record_ns * entries.records
    added += destination.kb_ns * whole + destination.kb_ns * rest // 1000
    return int(min(own * mean_us, LONGEST_US)) + added // 1000


def records_before_error(errors: int, most: int, drawn: float) -> int:
    """Return how many records do not fail before one does, at most ``most``.

    ``errors``: share that fails, millionths, above 0; ``drawn``: uniform in [0, 1).
    """
    if errors >= _MILLION:
        return 0
    found = log(1.0 - drawn) / log(1.0 - errors / _MILLION)
    return most if found >= most else int(found)


def mark_failing(requests: Requests, entries: EntryList, first: int, count: int) -> None:
    """Have ``count`` records of a request fail, from its ``first`` on."""
    place, before = entries.head, 0
    while place != NONE and count > 0:
        entry = requests.entries[place - 1]
        if before + entry.count <= first:
            before += entry.count
            place = entry.next
            continue
        if before < first:
            _split(requests, entries, place, first - before)
            before = first
            place = entry.next
            continue
        if entry.count > count:
            _split(requests, entries, place, count)
        entry.fails = 1
        count -= entry.count
        before += entry.count
        first = before
        place = entry.next


def _split(requests: Requests, entries: EntryList, place: int, count: int) -> None:
    rest = split_entry(requests, place, count)
    if entries.tail == place:
        entries.tail = rest
