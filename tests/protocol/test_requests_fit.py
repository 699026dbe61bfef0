"""Every product and sum of the rules of requests fits into 64 bits, as ``test_fits`` has it."""

from __future__ import annotations

import pytest

from flowcontrol.protocol.requests import (
    async_wait,
    common,
    destination,
    entries,
    producer,
    rate_limiting,
)
from flowcontrol.protocol.service import MOST
from flowcontrol.scenario.fields import MAX_BYTES
from flowcontrol.scenario.request_parts import MOST_LATENCY_MS
from flowcontrol.scenario.request_parts import MOST_RECORDS as MOST_HELD
from flowcontrol.state import async_wait as waits
from flowcontrol.state import requests
from tests.protocol.test_fits import RANGES, ROUND_US, ends, fresh


@pytest.mark.parametrize("records", [1, MOST_HELD])
@pytest.mark.parametrize("size", ends("record_bytes"))
def test_requests_fit(narrow: type[int], records: int, size: int) -> None:
    """As many records as a sink may hold, of any size, in a request of as many bytes."""
    held = requests.Requests(
        requests.WriterSettings(), requests.SinkWriter(),
        [fresh(requests.Entry, narrow) for _ in range(3)], [],
    )  # fmt: skip
    buffer, taken = fresh(requests.EntryList, narrow), fresh(requests.EntryList, narrow)
    place = entries.new_entry(held, narrow(0), narrow(records), narrow(size), narrow(0))
    entries.put_last(held, buffer, place)
    nbytes = narrow(min(records * size, MAX_BYTES))
    assert entries.take_records(held, buffer, taken, narrow(records), nbytes) == nbytes // size
    most_ns, limit = 10**11, 10**12
    place = requests.Destination(record_ns=narrow(most_ns), kb_ns=narrow(most_ns))
    assert destination.answer_us(place, narrow(10**10), taken, 0.5, 0.5) >= most_ns // 1000
    for rate, most in ((1, destination.WHOLE), (limit, MOST)):
        bucket = requests.Bucket(*map(narrow, (rate, most, 0, 0)))
        now = narrow(RANGES["us"][1])
        assert destination.take_tokens(bucket, narrow(records), now) >= 1
        # A scenario refuses requests of more records than a bucket holds.
        own = requests.WriterSettings(retry=requests.Backoff(unit_us=narrow(ROUND_US)))
        writer = requests.SinkWriter(bucket=bucket)
        asked = narrow(min(records, most // destination.WHOLE))
        last = narrow(RANGES["us"][1] // ROUND_US)
        assert rate_limiting.us_of(own, last) <= now
        assert rate_limiting.tokens_at(own, writer, asked, last) > last
    delays = waits.WaitSettings(delay=narrow(10**11), multiplier=narrow(1000 * 1000))
    wait = waits.Wait(delays, waits.WaitQueue(last_delay=narrow(10**11)), [], held)
    assert async_wait._next_delay(wait, narrow(2)) == 0
    settings = requests.WriterSettings(decrease=narrow(999_999))
    assert rate_limiting.scaled_down(settings, narrow(MOST_HELD)) < MOST_HELD


@pytest.mark.parametrize(
    ("multiplier", "is_steep", "step_ms"), [(100, 0, 0), (1, 1, 0), (1, 0, MOST_LATENCY_MS)]
)
def test_a_backoff_fits(narrow: type[int], multiplier: int, is_steep: int, step_ms: int) -> None:
    """The longest delays that a scenario states, in its shortest and its longest rounds."""
    first_us = narrow(MOST_LATENCY_MS * 1000)
    for unit_us, most_us in ((1, 10**10), (ROUND_US, 1)):
        own = requests.Backoff(
            first_us=first_us, step_us=narrow(step_ms * 1000), is_steep=is_steep,
            multiplier=narrow(multiplier * 10**6), most_us=narrow(most_us), unit_us=narrow(unit_us),
        )  # fmt: skip
        found = [common.delay_after(own, narrow(failures)) for failures in (0, 1, 30, 1000)]
        assert found == sorted(found)
        assert found[-1] <= most_us


@pytest.mark.parametrize("size", ends("record_bytes"))
def test_batches_of_a_producer_fit(narrow: type[int], size: int) -> None:
    """As many records as a sink may hold, in the largest batches that there are."""
    settings = requests.WriterSettings(
        batch_bytes=narrow(MAX_BYTES), memory=narrow(MAX_BYTES), partitions=2
    )
    held = requests.Requests(
        settings, requests.SinkWriter(), [fresh(requests.Entry, narrow) for _ in range(3)], [],
        [requests.Batch()], [requests.BatchQueue() for _ in range(2)],
    )  # fmt: skip
    place = entries.new_entry(held, narrow(0), narrow(MOST_HELD), narrow(size), narrow(0))
    held.writer.hand = place
    fits = MOST_HELD * size <= MAX_BYTES
    assert producer._append(held, narrow(0)) == int(fits)
    assert held.writer.buffer.records == min(MOST_HELD, MAX_BYTES // size)
