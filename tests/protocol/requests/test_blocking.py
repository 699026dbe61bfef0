"""The steps of a sink that blocks: JDBC's and the bulk processor's, by hand, and at random.

Numbers in comments are those of the tables that were worked out from the connectors' sources.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant

from flowcontrol.protocol.requests.common import delay_after
from flowcontrol.protocol.requests.writers import room, runs_apart
from flowcontrol.state.requests import BLOCKING, NEVER, NONE, Backoff, WriterSettings
from tests.protocol.requests.sinks import FailingSink, Sink, once

JDBC = Backoff(retries=3, step_us=1_000_000)
"""What ``JdbcOutputFormat`` does: it sleeps 0, 1000, 2000 ms."""


def blocking(**changes: Any) -> WriterSettings:
    """Return settings without limits; a unit of time is a millisecond."""
    plain = {"batch": 10**6, "batch_bytes": 10**12, "buffer_time": NEVER, "style": BLOCKING}
    return WriterSettings(**(plain | changes))


def delays(backoff: Backoff) -> list[int]:
    """Return the times before each attempt after the first one."""
    return [delay_after(backoff, failures) for failures in range(backoff.retries)]


def test_a_batch_is_stored_with_its_last_row() -> None:  # 49
    sink = Sink(blocking(batch=3)).write(1, 2)
    assert sink.stored == []
    assert sink.write(3).stored == [1, 2, 3]
    never = Sink(blocking()).write(1, 2)
    assert never.stored == []
    assert never.end().stored == [1, 2]


def test_jdbc_sleeps_longer_from_attempt_to_attempt() -> None:  # 50
    sink = Sink(blocking(batch=1, retry=JDBC), latency=50, fails=lambda values: values).write(1)
    sink.until(3199)
    assert [at for at, _ in sink.sent] == [0, 50, 1100, 3150]
    assert not sink.may_write()
    assert (sink.writer.exhausted, sink.until(3200).writer.exhausted) == (0, 1)


def test_the_interval_counts_from_the_end_of_its_last_flush() -> None:  # 51
    sink, returned = Sink(blocking(buffer_time=1000), latency=300).write(0), []
    for at in range(100, 4000, 100):
        sink.until(at)
        if sink.may_write():
            sink.write(at)
            returned.append(sink.until_free() if at in {1100, 2400} else at)
    assert [at for at, _ in sink.sent] == [1000, 2300, 3600]
    assert {1300, 2600} <= set(returned)
    assert not {1200, 2500} & {value for _, values in sink.sent for value in values}


def test_bulks_are_full_or_wait_for_the_next_record() -> None:  # 52
    sink = Sink(blocking(batch=5, flushes=0)).write(1, 2, 3, 4)
    assert sink.flush().stored == []
    assert sink.write(5).stored == [1, 2, 3, 4, 5]
    assert sink.write(6).stored == [1, 2, 3, 4, 5]


def test_backoffs_of_elasticsearch() -> None:  # 53
    steep = delays(Backoff(retries=8, first_us=50_000, is_steep=1))
    assert steep == [50, 60, 80, 150, 280, 580, 1250, 2740]
    assert sum(steep) == 5190
    assert delays(Backoff(retries=3, first_us=70_000)) == [70, 70, 70]


def test_other_backoffs() -> None:
    assert delays(JDBC) == [0, 1000, 2000]
    assert sum(delays(Backoff(retries=6, step_us=1_000_000))) == 500 * 6 * 5
    doubled = Backoff(retries=6, first_us=100_000, multiplier=2_000_000, most_us=1_000_000)
    assert delays(doubled) == [100, 200, 400, 800, 1000, 1000]
    assert delay_after(Backoff(first_us=1500), 0) == 2


def test_bytes_send_a_bulk_with_the_record_that_makes_them_up() -> None:
    sink = Sink(blocking(batch_bytes=10)).write(1, 2)
    assert sink.sizes == []
    assert sink.write(3).sizes == [3]
    assert sink.writer.sent_bytes == 12


def test_a_write_waits_for_the_answer_and_nothing_else_is_in_flight() -> None:
    sink = Sink(blocking(batch=2), latency=100).write(1, 2)
    assert not sink.may_write()
    assert (sink.writer.in_flight, sink.until_free()) == (1, 100)
    assert sink.fill() == 2
    assert (sink.until_free(), sink.sizes) == (200, [2, 2])


def test_only_what_failed_is_sent_again_unless_the_connector_sends_all() -> None:
    for is_whole, expected in ((0, [[1, 2, 3], [2]]), (1, [[1, 2, 3], [1, 2, 3]])):
        own = blocking(batch=3, is_whole=is_whole, retry=Backoff(retries=1, first_us=70_000))
        sink = Sink(own, latency=10, fails=once(2)).write(1, 2, 3)
        assert sink.until_free() == 90
        assert sink.sent == [(0, expected[0]), (80, expected[1])]
        assert sorted(sink.acknowledged) == [0, 1, 2]
        assert sink.writer.failed == len(expected[1])


def test_a_flush_of_the_interval_lets_the_task_go_on_until_it_writes() -> None:
    sink = Sink(blocking(buffer_time=100, batch=10), latency=30).write(1).until(110)
    assert (sink.may_write(), sink.writer.in_flight) == (True, 1)
    assert not sink.write(2).may_write()
    assert (sink.until_free(), sink.buffer, sink.writer.timer) == (130, [2], 230)


def test_an_interval_that_finds_nothing_waits_for_the_next_one() -> None:
    sink = Sink(blocking(buffer_time=100)).until(250).write(1).until(299)
    assert sink.sent == []
    assert sink.until(300).sent == [(300, [1])]


def test_a_checkpoint_waits_until_all_is_answered() -> None:
    sink = Sink(blocking(batch=10, buffer_time=100), latency=30).write(1).until(110)
    assert sink.flush().until_free() == 130
    sink.write(2)
    assert sink.flush().until_free() == 160
    assert sink.sent == [(100, [1]), (130, [2])]
    assert sink.flush().may_write()


def test_nothing_is_due_after_the_end() -> None:
    sink = Sink(blocking(buffer_time=100), latency=30).write(1)
    assert sink.end().until_free() == 30
    assert sink.writer.next_at == NEVER


@pytest.mark.parametrize("batch", [1, 7])
def test_the_largest_run_that_may_be_written_fills_the_buffer(batch: int) -> None:
    sink = Sink(blocking(batch=batch, batch_bytes=20), latency=1)
    assert room(sink.state, 4) == min(batch, 5)
    assert room(sink.state, 100) == 1
    assert runs_apart(sink.state) == 1
    assert sink.fill() == min(batch, 5)
    assert room(sink.state, 4) == 1


class Blocking(FailingSink):
    """Requests fail in part or as a whole."""

    @initialize(
        batch=st.integers(1, 5),
        batch_bytes=st.sampled_from([20, 150, 10**9]),
        buffer_time=st.one_of(st.just(NEVER), st.integers(1, 30)),
        is_whole=st.integers(0, 1),
        flushes=st.integers(0, 1),
        retries=st.integers(0, 3),
        first=st.integers(0, 15),
        step=st.integers(0, 15),
        latency=st.integers(1, 20),
    )
    def begin(
        self, batch: int, batch_bytes: int, buffer_time: int, is_whole: int, flushes: int,
        retries: int, first: int, step: int, latency: int,
    ) -> None:  # fmt: skip
        """Begin with some settings."""
        backoff = Backoff(retries=retries, first_us=first * 1000, step_us=step * 1000)
        own = blocking(
            batch=batch, batch_bytes=batch_bytes, buffer_time=buffer_time, is_whole=is_whole,
            flushes=flushes, retry=backoff,
        )  # fmt: skip
        self.start(own, latency)

    @invariant()
    def holds(self) -> None:
        """Every record is acknowledged once, or held once, and one request at most in flight."""
        sink, writer, request = self.sink, self.sink.writer, self.sink.state.slots[0]
        held = sink.held(request.entries) if request.number else []
        held += sink.buffer
        if writer.hand != NONE:
            held.append(sink.values[sink.state.entries[writer.hand - 1].first])
        assert Counter(held) + Counter(sink.values[n] for n in sink.acknowledged) == Counter(
            sink.values
        )
        assert writer.in_flight == (request.number > 0)
        assert len(held) <= sink.settings.batch + 1
        if sink.settings.is_whole == 1 or sum(self.failing.values()) == 0 == writer.failed:
            assert sink.acknowledged == list(range(len(sink.acknowledged)))
            assert held == sink.values[len(sink.acknowledged) :]
        if not sink.may_write() or writer.in_flight > 0:
            assert sink.now <= writer.next_at != NEVER


TestBlocking = Blocking.TestCase
TestBlocking.settings = hypothesis_settings(deadline=None, stateful_step_count=40)
