"""The steps of Kafka's producer under a sink, by hand, and at random.

Numbers in comments are those of the tables that were worked out from the client's source.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant

from flowcontrol.protocol.requests.writers import room, runs_apart
from flowcontrol.state.requests import NEVER, NONE, PRODUCER, Backoff, WriterSettings
from tests.protocol.requests.sinks import FailingSink, Sink, once

RETRIES = Backoff(retries=100, first_us=10_000, multiplier=2_000_000, most_us=40_000)


def producing(**changes: Any) -> WriterSettings:
    """Return settings of batches of 5 records of 4 bytes, and memory for ten of them."""
    plain = {
        "style": PRODUCER, "batch_bytes": 20, "memory": 200, "request_bytes": 1000,
        "in_flight": 5, "buffer_time": 0, "retry": RETRIES,
    }  # fmt: skip
    return WriterSettings(**(plain | changes))


def test_memory_is_free_again_once_a_batch_is_answered() -> None:  # 54
    sink = Sink(producing(batch_bytes=1024, memory=65_536), latency=5, size=lambda value: value)
    for size in (1024, 2048):
        sink.write(size)
        assert sink.writer.memory == size
        sink.until(sink.now + 5)
        assert sink.writer.memory == 0


def test_a_write_fails_that_waits_too_long_for_memory() -> None:  # 55
    own = producing(batch_bytes=1, memory=2, max_block=10)
    sink = Sink(own, latency=100, size=lambda value: value).write(1, 2)
    assert not sink.may_write()
    assert (sink.until(9).writer.exhausted, sink.until(10).writer.exhausted) == (0, 1)
    assert sink.writer.memory == 1
    assert (sink.until_free(), sink.writer.memory) == (100, 2)
    assert sink.until(300).acknowledged == [0, 1]


def test_a_batch_waits_for_its_linger_unless_it_is_full() -> None:  # 56
    lingers = Sink(producing(buffer_time=10)).write(1)
    assert lingers.until(9).sent == []
    assert lingers.until(10).sent == [(10, [1])]
    full = Sink(producing(buffer_time=10)).write(1, 2, 3, 4, 5)
    assert full.sent == []
    assert full.write(6).sent == [(0, [1, 2, 3, 4, 5])]
    assert full.until(10).sent[1] == (10, [6])


def test_requests_in_flight_are_limited_and_batches_fill_meanwhile() -> None:
    sink = Sink(producing(in_flight=2), latency=100).write(*range(13))
    assert sink.sent == [(0, [0]), (0, [1])]
    assert sink.writer.buffer.records == 11
    assert sink.until(100).sent[2:] == [(100, [2, 3, 4, 5, 6]), (100, [7, 8, 9, 10, 11])]
    assert sink.until(200).sent[4:] == [(200, [12])]


def test_a_request_has_the_first_batch_of_each_partition_in_turn() -> None:
    """One full batch has those of the other partitions sent too; the turn goes on where it was."""
    own = producing(partitions=3, in_flight=1, buffer_time=50)
    sink = Sink(own, latency=100).write(*range(31))
    assert sink.until(200).sent == [
        (0, [*range(5), 5]),
        (100, [*range(11, 16), *range(16, 21), *range(6, 11)]),
        (200, [*range(21, 26), *range(26, 31)]),
    ]


def test_a_request_is_cut_by_its_bytes_and_the_next_one_goes_on_there() -> None:
    own = producing(partitions=3, in_flight=1, request_bytes=40)
    sink = Sink(own, latency=100).write(*range(16)).until(200)
    assert sink.sent == [
        (0, [0]), (100, [*range(11, 16), *range(1, 6)]), (200, [*range(6, 11)]),
    ]  # fmt: skip


def test_a_write_waits_while_the_pool_is_empty() -> None:
    sink = Sink(producing(memory=40, buffer_time=1000, partitions=2), latency=30)
    assert sink.fill() == 7
    assert (sink.sent, sink.writer.memory) == ([(0, [0, 1, 2, 3, 4, 5])], 40)
    assert (sink.until_free(), sink.writer.memory) == (30, 20)
    assert sink.writer.buffer.records == 1


def test_a_batch_behind_one_that_failed_fails_too() -> None:
    """Its number is out of order; both come again in order, one at a time."""
    sink = Sink(producing(in_flight=3), latency=30, fails=once(0)).write(0).until(1).write(1)
    assert sink.until(29).acknowledged == []
    sink.until(200)
    assert sink.sent == [(0, [0]), (1, [1]), (40, [0]), (70, [1])]
    assert sink.acknowledged == [0, 1]
    assert sink.writer.failed == 2


def test_answers_come_in_the_order_of_the_requests() -> None:
    sink = Sink(producing(), latency=100).write(0).until(10)
    sink.latency = 5
    sink.write(1)
    assert sink.until(99).acknowledged == []
    assert sink.until(100).acknowledged == [0, 1]


def test_a_batch_is_given_up_after_its_delivery_timeout() -> None:
    sink = Sink(producing(timeout=75), latency=20, fails=lambda values: values).write(1)
    assert [at for at, _ in sink.until(70).sent] == [0, 30, 70]
    assert (sink.writer.exhausted, sink.until(90).writer.exhausted) == (0, 1)


def test_a_flush_sends_what_lingers_and_waits_for_all() -> None:
    sink = Sink(producing(buffer_time=1000), latency=30).write(1, 2)
    assert sink.flush().until_free() == 30
    assert sink.acknowledged == [0, 1]
    none = Sink(producing(buffer_time=1000, flushes=0), latency=30).write(1)
    assert none.flush().may_write()
    assert none.end().until_free() == 30


def test_room_is_what_fits_into_a_batch() -> None:
    sink = Sink(producing(buffer_time=100), latency=10)
    assert (room(sink.state, 4), room(sink.state, 100), runs_apart(sink.state)) == (5, 1, 1)
    assert room(sink.write(1).state, 4) == 4


@pytest.mark.parametrize(
    ("partitions", "batch", "in_flight", "request_bytes", "latency"),
    [(1, 20, 5, 1000, 50), (4, 20, 2, 1000, 30), (8, 40, 3, 120, 20)],
)
def test_throughput_is_what_is_in_flight_over_the_latency(
    partitions: int, batch: int, in_flight: int, request_bytes: int, latency: int
) -> None:  # closed form 11
    own = producing(
        partitions=partitions, batch_bytes=batch, in_flight=in_flight,
        request_bytes=request_bytes, memory=batch * partitions * in_flight * 3,
    )  # fmt: skip
    sink = Sink(own, latency=latency, size=lambda value: 4, capacity=4000)
    sink.fill()
    counts = []
    while sink.now < 60 * latency:
        sink.until(sink.writer.next_at)
        sink.fill()
        if sink.now > 20 * latency:
            counts.append((sink.now, len(sink.acknowledged)))
    (first, before), (last, after) = counts[0], counts[-1]
    rate = (after - before) * 4 / (last - first)
    assert rate == pytest.approx(
        in_flight * min(partitions * batch, request_bytes) / latency, rel=0.03
    )


class Producer(FailingSink):
    """Requests fail and are late."""

    @initialize(
        batch_bytes=st.sampled_from([4, 10, 110]),
        batches=st.integers(1, 6),
        request_bytes=st.sampled_from([104, 130, 10**6]),
        partitions=st.integers(1, 4),
        in_flight=st.integers(1, 4),
        linger=st.integers(0, 20),
        retries=st.integers(0, 3),
        timeout=st.sampled_from([NEVER, 30]),
        max_block=st.sampled_from([NEVER, 0, 25]),
        flushes=st.integers(0, 1),
        latency=st.integers(1, 20),
    )
    def begin(
        self, batch_bytes: int, batches: int, request_bytes: int, partitions: int,
        in_flight: int, linger: int, retries: int, timeout: int, max_block: int, flushes: int,
        latency: int,
    ) -> None:  # fmt: skip
        """Begin with some settings."""
        own = producing(
            batch_bytes=batch_bytes, memory=max(110, batches * batch_bytes),
            request_bytes=request_bytes, partitions=partitions, in_flight=in_flight,
            buffer_time=linger, timeout=timeout, max_block=max_block, flushes=flushes,
            retry=Backoff(retries, first_us=3000, multiplier=2_000_000, most_us=20_000),
        )  # fmt: skip
        self.start(own, latency)

    @invariant()
    def holds(self) -> None:
        """Every record is acknowledged once, or held once; a partition keeps its order."""
        sink, writer, state = self.sink, self.sink.writer, self.sink.state
        own, held, memory = sink.settings, Counter[int](), 0
        for queue in state.queues:
            place, before = queue.head, queue.acknowledged - 1
            while place != NONE:
                batch = state.batches[place - 1]
                assert batch.number > before
                before = batch.number
                assert batch.entries.nbytes <= max(
                    own.batch_bytes, batch.entries.nbytes // max(1, batch.entries.records)
                )
                memory += batch.memory
                held.update(sink.held(batch.entries))
                last, place = place, batch.next
            assert queue.tail == (NONE if queue.head == NONE else last)
        assert held.total() == writer.buffer.records
        for request in state.slots:
            place = request.batches
            while place != NONE:
                memory += state.batches[place - 1].memory
                place = state.batches[place - 1].next
            if request.number:
                held.update(sink.held(request.entries))
        if writer.hand != NONE:
            held[sink.values[state.entries[writer.hand - 1].first]] += 1
        held.update(sink.values[number] for number in sink.acknowledged)
        assert held == Counter(sink.values)
        assert memory == writer.memory <= own.memory
        assert writer.in_flight == sum(request.number > 0 for request in state.slots)
        assert writer.in_flight <= own.in_flight
        if own.partitions == 1:
            assert sink.acknowledged == list(range(len(sink.acknowledged)))
        if not sink.may_write() or writer.in_flight > 0 or writer.buffer.records > 0:
            assert sink.now <= writer.next_at != NEVER


TestProducer = Producer.TestCase
TestProducer.settings = hypothesis_settings(deadline=None, stateful_step_count=40)
