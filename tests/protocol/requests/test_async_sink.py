"""The steps of an asynchronous sink: what Flink's own tests assert, and more by hand.

The numbers are those of the tables that were worked out from Flink's source: 1 to 15 and 19 to 22
are assertions of ``AsyncSinkWriterTest`` and of the tests of its strategies.
"""

from __future__ import annotations

import pytest

from flowcontrol.protocol.requests.async_sink import put_back
from flowcontrol.protocol.requests.entries import new_entry
from flowcontrol.protocol.requests.rate_limiting import scaled_down, scaled_up, should_block
from flowcontrol.state.requests import SinkWriter, WriterSettings
from tests.protocol.requests.sinks import Sink, bucket, once, settings

FAIL_ONCE = 200
"""Values above it fail once in Flink's test sink."""


def flinks(**changes: int) -> Sink:
    """Return the sink of Flink's tests."""
    return Sink(settings(**changes), fails=once(above=FAIL_ONCE))


def test_all_that_fills_requests_is_sent() -> None:  # 1
    sink = flinks().write(*range(80))
    assert sink.stored == list(range(80))
    assert (sink.writer.sent, sink.writer.sent_bytes) == (80, 320)


def test_the_end_sends_the_rest() -> None:  # 2
    sink = flinks().write(*range(23))
    assert len(sink.stored) == 20
    assert sink.buffer == [20, 21, 22]
    assert sink.writer.buffer.nbytes == 12
    assert sink.end().stored == list(range(23))


def test_bytes_fill_a_request_too() -> None:  # 3
    sink = flinks(batch_bytes=12).write(1, 2)
    assert sink.sent == []
    assert sink.write(3).sizes == [3]


def test_a_request_holds_as_many_bytes_as_it_may() -> None:  # 4
    sink = flinks(batch_bytes=30)
    for i in range(100):
        # The eighth record of 4 bytes makes 32: then seven are sent, and it stays.
        sink.write(i)
        assert len(sink.stored) == 7 * (i // 7), i


def test_records_fill_a_request_before_bytes_do() -> None:  # 5
    sink = flinks(batch=7, batch_bytes=32, threshold=7)
    assert sink.write(*range(6)).sizes == []
    assert sink.write(6).sizes == [7]
    assert sink.write(*range(7, 14)).sizes == [7, 7]


def test_a_buffer_keeps_what_fills_no_request() -> None:  # 6, 7
    sink = flinks(batch=3).write(25, 55)
    assert (sink.buffer, sink.stored) == ([25, 55], [])
    assert sink.flush().stored == []
    assert sink.write(75).buffer == []
    assert len(sink.stored) == 3


def test_what_fails_goes_to_the_head_and_shrinks_the_window() -> None:  # 8
    sink = flinks(batch=3, batch_bytes=10**7)
    sink.write(25, 55, 965, 75, 95, 955, 550, 45, 35, 535).end()
    requests = [values for _, values in sink.sent]
    assert requests == [
        [25, 55, 965], [965, 75], [95, 955, 550], [955, 550], [45, 35, 535], [535],
    ]  # fmt: skip
    assert sink.windows == [3, 2, 3, 2, 3, 2]
    assert sink.stored == [25, 55, 965, 75, 95, 955, 550, 45, 35, 535]


def test_bytes_of_what_failed_count() -> None:  # 9
    sink = flinks(batch=8, buffered=10).write(225, 0, 1, 2)
    assert (sink.stored, sink.buffer) == ([0, 1], [225, 2])
    assert sink.flush().stored == [0, 1]
    assert sink.end().stored == [0, 1, 225, 2]


def test_a_retry_is_sent_with_the_next_full_request() -> None:  # 10
    sink = flinks().write(225, 1, 2, 3)
    assert (sink.sent[0][1], sink.stored) == ([225, 1, 2], [1, 2])
    sink.write(4, 5, 6, 325)
    assert (sink.windows[1], sink.sent[1][1]) == (5, [225, 3, 4])
    assert (sink.stored, sink.buffer) == ([1, 2, 225, 3, 4], [5, 6, 325])


def test_the_timer_sends_what_is_there() -> None:  # 11
    sink = flinks(in_flight=20, buffer_time=100, batch_bytes=10_000).write(*range(8))
    assert sink.until(99).stored == []
    assert len(sink.until(100).stored) == 8


def test_one_timer_runs_at_a_time() -> None:  # 12
    sink = flinks(in_flight=20, buffer_time=100).write(0)
    assert len(sink.until(10).end().stored) == 1
    assert len(sink.until(20).write(1).stored) == 1
    assert len(sink.until(100).stored) == 2
    assert len(sink.write(2).until(199).stored) == 2
    assert len(sink.until(200).stored) == 3


def test_restored_records_wait_for_a_write_or_the_timer() -> None:  # 13
    sink = Sink(settings(buffered=11), size=lambda value: 1)
    for first, count in ((0, 3), (3, 2), (5, 1)):
        sink.values += range(first, first + count)
        put_back(sink.state, new_entry(sink.state, first, count, 1, 0), 0)
    assert (sink.buffer, sink.writer.buffer.nbytes, sink.sent) == (list(range(6)), 6, [])
    assert len(sink.until(1000).stored) == 6


def test_a_request_that_times_out_is_sent_again() -> None:  # 15
    sink = Sink(settings(batch=1, buffer_time=10, timeout=100), latency=110).write(1)
    assert [at for at, _ in sink.until(100).sent] == [0, 100]
    assert sink.stored == [1, 1]
    assert (sink.writer.timeouts, sink.writer.doubled) == (1, 1)


def test_a_destination_that_is_full_is_asked_for_ever_less() -> None:  # 16
    accepted = [32]

    def fails(values: list[int]) -> list[int]:
        if accepted[0] >= len(values):
            accepted[0] -= len(values)
            return []
        return [] if len(values) == 1 else values

    plain = settings(batch=32, in_flight=10, buffered=10_000, batch_bytes=10**6, buffer_time=10**9)
    sink = Sink(plain, window=32, fails=fails, capacity=12_000)
    for value in range(32_000):
        if not sink.may_write():
            break
        sink.write(value)
        if len(sink.sent) > 40:
            break
    assert sink.sizes[:18] == [32, 32, 21, 11, 6, 3, 2, 1, 11, 6, 3, 2, 1, 11, 6, 3, 2, 1]


@pytest.mark.parametrize(
    ("increase", "decrease", "threshold", "before", "up", "down"),
    [
        (10, 500_000, 1000, 4, 14, 2),  # 17
        (10, 500_000, 20, 24, 20, 12),
        (10, 400_000, 1000, 10, 20, 4),
        (10, 400_000, 1000, 314, 324, 126),
        (10, 100_000, 1000, 1, 11, 1),
        (10, 500_000, 1000, 3, 13, 2),  # 18
        (10, 500_000, 1000, 5, 15, 3),
        (10, 500_000, 1000, 7, 17, 4),
        (10, 990_000, 1000, 50, 60, 50),
        (10, 990_000, 1000, 51, 61, 50),
        (10, 990_000, 1000, 52, 62, 51),
        (10, 990_000, 1000, 151, 161, 149),
    ],
)
def test_aimd(
    increase: int, decrease: int, threshold: int, before: int, up: int, down: int
) -> None:
    rule = WriterSettings(increase=increase, decrease=decrease, threshold=threshold)
    assert (scaled_up(rule, before), scaled_down(rule, before)) == (up, down)


def test_requests_block_by_their_number_and_by_their_records() -> None:
    two = WriterSettings(in_flight=2, threshold=10)  # 19
    assert should_block(two, SinkWriter(window=10, in_flight=2), 0, 0) == 1
    assert should_block(two, SinkWriter(window=10, in_flight=1), 0, 0) == 0
    many = WriterSettings(in_flight=100, increase=1, threshold=4)  # 20
    assert should_block(many, SinkWriter(window=4, in_flight=2, in_flight_records=4), 2, 0) == 1
    assert should_block(many, SinkWriter(window=4, in_flight=1, in_flight_records=2), 2, 0) == 0
    narrow = WriterSettings(in_flight=100, threshold=100)  # 21, 22
    assert should_block(narrow, SinkWriter(window=1), 2, 0) == 1
    assert should_block(narrow, SinkWriter(window=scaled_up(narrow, 1)), 2, 0) == 0
    assert should_block(narrow, SinkWriter(window=scaled_down(narrow, 2)), 2, 0) == 1


def endless(**changes: int) -> WriterSettings:
    """Return settings without timer and without a limit of bytes."""
    return settings(**{"batch_bytes": 10**9, "buffer_time": 10**9, **changes})


def requests_at(sink: Sink, until: int) -> dict[int, int]:
    """Keep a sink saturated up to a time; return how many requests it sent at each."""
    sink.fill()
    while sink.writer.next_at <= until:
        sink.until(sink.writer.next_at)
        sink.fill()
    found: dict[int, int] = {}
    for at, _ in sink.sent:
        found[at] = found.get(at, 0) + 1
    return found


def taken_at(sink: Sink, until: int) -> dict[int, int]:
    """Keep a sink saturated up to a time; return how many records it took at each."""
    found = {0: sink.fill()}
    while sink.writer.next_at <= until:
        sink.until(sink.writer.next_at)
        if (count := sink.fill()) > 0:
            found[sink.now] = count
    return found


def test_the_window_grows_from_one_request() -> None:  # 23
    sink = Sink(endless(in_flight=4), latency=100, window=10)
    assert requests_at(sink, 399) == {0: 1, 100: 2, 200: 4, 300: 4}
    assert sink.windows[-1] == 40


def test_a_window_of_elasticsearch_takes_18_seconds_to_grow() -> None:  # 24
    sink = Sink(endless(batch=500, in_flight=50, buffered=10_000), latency=100, window=500)
    sink.capacity = 40_000
    sink.__post_init__()
    first: dict[int, int] = {}
    sink.fill()
    while sink.now < 18_000:
        sink.until(sink.writer.next_at)
        sink.fill()
        first.setdefault(sink.writer.in_flight, sink.now)
    assert [first[k] for k in (2, 3, 5, 10, 20)] == [5000, 7500, 10_500, 14_200, 17_900]


def test_a_checkpoint_sends_all_full_requests_first() -> None:  # 25
    for is_end, over, state in ((False, 300, 7), (True, 400, 0)):
        sink = Sink(endless(in_flight=2), latency=100).write(*range(67))
        assert (sink.writer.in_flight, len(sink.buffer)) == (2, 47)
        (sink.end if is_end else sink.flush)()
        assert (sink.until_free(), len(sink.buffer)) == (over, state)
        assert [at for at, _ in sink.sent] == [0, 0, 100, 100, 200, 200, *([300] if is_end else [])]


def test_a_checkpoint_waits_for_the_window_to_grow() -> None:  # 26
    sink = Sink(endless(in_flight=2), latency=100, window=10).write(*range(67)).flush()
    assert sink.until_free() == 400
    assert [at for at, _ in sink.sent] == [0, 100, 100, 200, 200, 300]
    assert len(sink.buffer) == 7


def test_a_blocked_write_returns_when_the_buffer_is_nearly_empty() -> None:  # 27, 28, 29
    assert taken_at(Sink(endless(buffered=20), latency=100), 899) == {0: 31, 300: 30, 600: 30}
    odd = Sink(endless(buffered=11), latency=100)
    assert taken_at(odd, 599) == {0: 22, 200: 11, 400: 11}
    assert odd.sizes[:6] == [10, 10, 1, 10, 1, 10]
    two = Sink(endless(buffered=25, in_flight=2), latency=100)
    assert taken_at(two, 599) == {0: 46, 200: 35, 400: 35}
    assert requests_at(two, 599)[0] == 2
    assert [sorted(len(v) for at, v in two.sent if at == t) for t in (0, 100, 200, 300, 400)] == [
        [10, 10], [10, 10], [5, 10], [10, 10], [5, 10],
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("batch", "in_flight", "latency", "every", "expected"),
    [
        (30, 20, 5, 1, [(29, 30), (59, 30), (89, 30), (100, 10), (129, 30)]),  # 30
        (1000, 20, 0, 30, [(100, 4), (220, 4), (340, 4)]),  # 31
    ],
)
def test_the_timer_cuts_short_requests(
    batch: int, in_flight: int, latency: int, every: int, expected: list[tuple[int, int]]
) -> None:
    plain = endless(batch=batch, in_flight=in_flight, buffered=5000, buffer_time=100)
    sink = Sink(plain, latency=latency)
    for at in range(0, 400, every):
        sink.until(at).write(at)
    assert [(at, len(values)) for at, values in sink.sent][: len(expected)] == expected


@pytest.mark.parametrize(
    ("increase", "expected"),
    [
        (10, [32, 16, 26, 13, 23, 12, 22, 11, 21, 11, 21]),
        (1, [32, 16, 17, 18, 19, 20, 21, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 11]),
    ],
)
def test_a_destination_that_rejects_large_requests(
    increase: int, expected: list[int]
) -> None:  # 32
    plain = endless(batch=32, buffered=1000, increase=increase)
    sink = Sink(plain, window=32, fails=lambda values: values if len(values) > 20 else [])
    for value in range(1500):
        sink.write(value)
    assert sink.sizes[: len(expected)] == expected


def test_entries_that_fail_come_after_later_requests() -> None:  # 33, 34
    plain = endless(batch=3, in_flight=2)
    sink = Sink(plain, latency=100, fails=once(2)).write(*range(1, 13))
    sink.end().until_free()
    assert [(at, values) for at, values in sink.sent] == [
        (0, [1, 2, 3]), (0, [4, 5, 6]), (100, [2, 7, 8]), (100, [9, 10, 11]), (200, [12]),
    ]  # fmt: skip
    assert sink.stored == [1, 3, 4, 5, 6, 2, 7, 8, 9, 10, 11, 12]
    both = Sink(plain, latency=100, fails=once(2, 5)).write(*range(1, 13))
    both.end().until_free()
    assert [values for at, values in both.sent if at == 100] == [[5, 2]]
    assert [values for at, values in both.sent if at == 200] == [[7, 8, 9], [10, 11, 12]]


def test_a_timeout_below_the_latency_never_ends() -> None:  # 35
    plain = endless(batch=1, in_flight=5, timeout=100)
    sink = Sink(plain, latency=150).write(1).until(499)
    assert [at for at, _ in sink.sent] == [0, 100, 200, 300, 400]
    assert sink.windows == [5, 3, 2, 1, 1]
    assert sink.acknowledged == []


def test_a_request_cut_by_bytes_takes_up_what_was_asked_for() -> None:  # 36
    sink = Sink(endless(in_flight=2, batch_bytes=30), latency=100).write(*range(40))
    assert (sink.sizes, sink.writer.in_flight_records) == ([7, 7], 16)
    assert (sink.until(100).sizes, sink.writer.in_flight_records) == ([7, 7, 7, 7], 20)


# ---- a token bucket, as a strategy of one's own


def test_a_bucket_without_requests_in_flight_looks_for_tokens() -> None:
    """A request a second's tenth, whose answer comes before there are tokens for the next one."""
    own = endless(in_flight=4, buffered=20, has_window=0)
    sink = Sink(own, latency=50, bucket=bucket(100, 10))
    sink.fill()
    while sink.now < 450:
        sink.until(sink.writer.next_at)
        sink.fill()
    assert sink.sent_at() == [(0, 10), (100, 10), (200, 10), (300, 10), (400, 10)]


def test_a_bucket_with_requests_in_flight_waits_for_their_answers() -> None:
    """The tokens of a request are there at 100, and nothing has the task look before 150."""
    own = endless(in_flight=4, buffered=20, has_window=0)
    sink = Sink(own, latency=150, bucket=bucket(100, 10))
    sink.fill()
    while sink.now < 450:
        sink.until(sink.writer.next_at)
        sink.fill()
    assert sink.sent_at() == [(0, 10), (150, 10), (300, 10), (450, 10)]


def test_a_bucket_lets_bursts_through() -> None:
    own = endless(in_flight=4, buffered=50, has_window=0)
    sink = Sink(own, latency=5, bucket=bucket(100, 30)).write(*range(45))
    assert sink.sent_at() == [(0, 10), (0, 10), (0, 10)]
    assert sink.end().until_free() == 155  # 15 tokens take 150 ms, an answer 5
    assert sink.sent_at()[3:] == [(100, 10), (150, 5)]
