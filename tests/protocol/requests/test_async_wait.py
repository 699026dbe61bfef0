"""The steps of an operator that calls a service: what Flink's tests assert, and more by hand.

The numbers are those of the tables that were worked out from Flink's source: 37 to 45 are
assertions of ``AsyncWaitOperatorTest``, of the tests of its queues and of ``AsyncRetryStrategies``.
"""

from __future__ import annotations

from typing import Any

import pytest

from flowcontrol.protocol.requests import async_wait
from flowcontrol.protocol.requests.async_wait import EMPTY, FAILED
from flowcontrol.state.async_wait import WaitQueue
from tests.protocol.requests.waits import Operator, exponential, fixed, settings


@pytest.mark.parametrize("ordered", [True, False])
def test_watermarks_keep_their_place(ordered: bool) -> None:  # 37
    own = Operator(settings(2, ordered), latency=lambda value, calls: 5)
    own.put(1, 2, "W2", 3).end()
    assert sorted(map(str, own.out[:2])) == ["2", "4"]
    assert own.out[2:] == ["W2", 6]
    assert not ordered or own.out[:2] == [2, 4]


@pytest.mark.parametrize("fails", [True, False])
def test_a_timeout_fails_the_job_unless_it_gives_a_result(fails: bool) -> None:  # 38
    own = Operator(
        settings(2, timeout=10, fails=int(fails)), timed_out=lambda value: 3 * value
    ).put(1)
    own.until(5).put(2).until(11)
    assert own.answer(2) == [4]
    assert own.out == ([4] if fails else [3, 4])
    assert own.state.queue.has_failed == int(fails)
    assert own.state.requests.writer.timeouts == 1


def odd_is_empty(value: int, calls: int) -> int:
    return EMPTY if value % 2 else async_wait.ANSWERED


def test_what_has_no_result_is_called_again() -> None:  # 39
    rule = settings(6, retries_errors=0, retries_empty=1, **fixed(2, 10))
    own = Operator(rule, latency=lambda value, calls: 3, outcome=odd_is_empty)
    own.put(1, 2, 3, 4, 5, 6).until(28)
    assert own.out == []
    assert own.until(29).out == [4, 8, 12]
    assert [at for at, value in own.calls if value == 3] == [0, 13, 26]
    assert own.snapshot() == []


def test_a_timeout_is_of_all_calls_together() -> None:  # 40
    own = Operator(
        settings(timeout=1000, **fixed(5, 100)),
        latency=lambda value, calls: 501,
        outcome=lambda value, calls: FAILED,
        timed_out=lambda value: -1,
    )
    own.put(1).until(999)
    assert own.out == []
    assert own.until(1000).out == [-1]
    assert own.calls == [(0, 1), (601, 1)]
    assert own.until(5000).out == [-1]


def test_results_do_not_overtake_watermarks() -> None:  # 41
    own = Operator(settings(8, ordered=False)).put(1, 2, "W2", 3, 4, "W5", 5, 6)
    assert own.answer(3) == []
    assert own.answer(2) == [4]
    assert own.answer(6, 4) == []
    assert own.answer(1) == [2, "W2", 6, 8, "W5", 12]
    assert own.answer(5) == [10]


def test_in_order_the_head_goes_first() -> None:  # 42
    own = Operator(settings(4)).put(1, 2, "W2", 3)
    assert own.answer(2, 3) == []
    assert own.answer(1) == [2, 4, "W2", 6]


def test_watermarks_take_places() -> None:  # 43
    own = Operator(settings(2), has_room=False).put("W0", 1, "W2")
    assert not own.is_free()
    assert own.snapshot() == ["W0", 1]
    own.has_room = True
    own.run()
    assert (own.out, own.snapshot()) == (["W0"], [1, "W2"])


@pytest.mark.parametrize("ordered", [True, False])
@pytest.mark.parametrize("capacity", [6, 2])
def test_a_checkpoint_holds_all_that_is_in_the_queue(ordered: bool, capacity: int) -> None:  # 44
    own = Operator(settings(4, ordered)).put(1, 2, 3, 4)
    own.answer(3)
    held = [1, 2, 3, 4] if ordered else [1, 2, 4]
    assert own.snapshot() == held
    again = Operator(settings(capacity, ordered), latency=lambda value, calls: 7)
    again.put(*own.snapshot(), 5, 6, 7, 8).end()
    assert [value for _, value in again.calls] == [*held, 5, 6, 7, 8]
    assert again.out == [2 * value for value in (*held, 5, 6, 7, 8)]


def test_delays_grow_up_to_the_longest() -> None:  # 45
    own = Operator(settings(**exponential(10, 100, 2000, 2)))
    for _ in range(2):  # it begins anew with the next record
        delays = [async_wait._next_delay(own.state, calls) for calls in range(1, 11)]
        assert delays == [100, 200, 400, 800, 1600, *[2000] * 5]
    element = own.put(1).state.elements[0]
    for calls, repeated in ((10, 1), (11, 0)):
        element.calls = calls
        assert async_wait._is_repeated(own.state, element, FAILED, 0) == repeated


def test_records_share_the_last_delay() -> None:  # 46
    own = Operator(
        settings(**exponential(4, 100, 10_000, 2)),
        latency=lambda value, calls: 10,
        outcome=lambda value, calls: FAILED,
    )
    own.put(1).until(5).put(2).until(20_000)
    called = {value: [at for at, one in own.calls if one == value] for value in (1, 2)}
    assert called == {1: [0, 110, 320, 1130, 4340], 2: [5, 115, 525, 2135, 8545]}


def saturated(own: Operator, until: int) -> Operator:
    """Put records in as long as there is room, for some time."""
    while True:
        while own.is_free():
            own.put(len(own.values))
        if own.now == until:
            return own
        own.until(min(until, own.state.requests.writer.next_at))


@pytest.mark.parametrize(("ordered", "expected"), [(True, 22.2), (False, 40)])
def test_a_slow_call_holds_others_up_in_order(ordered: bool, expected: float) -> None:  # 47
    latency: Any = lambda value, calls: 10 if value % 2 else 90  # noqa: E731
    own = saturated(Operator(settings(2, ordered), latency=latency), 90_000)
    assert 1000 * len(own.out) / own.now == pytest.approx(expected, rel=0.01)


@pytest.mark.parametrize(("ordered", "expected"), [(True, 6), (False, 402)])
def test_one_slow_call_among_many(ordered: bool, expected: int) -> None:  # 48
    latency: Any = lambda value, calls: 10 if value else 1000  # noqa: E731
    own = saturated(Operator(settings(5, ordered), latency=latency), 990)
    assert len(own.values) == expected


@pytest.mark.parametrize("capacity", [1, 7, 100])
@pytest.mark.parametrize("ordered", [True, False])
def test_throughput_is_the_capacity_over_the_latency(capacity: int, ordered: bool) -> None:
    own = saturated(Operator(settings(capacity, ordered), latency=lambda value, calls: 20), 2000)
    assert len(own.out) == capacity * own.now // 20
    assert own.state.requests.writer.in_flight <= capacity


def test_the_end_repeats_at_once_and_not_again() -> None:
    own = Operator(
        settings(**fixed(5, 1000)),
        latency=lambda value, calls: 10,
        outcome=lambda value, calls: FAILED,
        timed_out=lambda value: -value,
    )
    own.put(1, 2).until(10)
    assert (own.out, own.end().now) == ([], 20)
    assert own.calls == [(0, 1), (0, 2), (10, 1), (10, 2)]
    assert own.snapshot() == []


def test_nothing_leaves_while_outputs_have_no_room() -> None:
    own = Operator(settings(2), latency=lambda value, calls: 5)
    own.put(1, 2).until(4)
    own.has_room = False
    own.until(9)
    assert (own.out, own.snapshot()) == ([], [1, 2])
    own.has_room = True
    own.run()
    assert own.out == [2, 4]


def test_a_record_is_taken_up_between_two_that_leave() -> None:
    """Each answer has a mail, but what it lets go behind it leaves one by one."""
    own = Operator(settings(4), latency=lambda value, calls: 5 if value == 1 else 3)
    own.put(1, 2, 3, 4).until(4)
    own.has_input = True
    own.until(5)
    assert own.out == [2]
    own.put(5)
    assert own.out == [2, 4]
    own.has_input = False
    own.run()
    assert own.out == [2, 4, 6, 8]


def test_a_cache_answers_without_a_call() -> None:
    own = Operator(settings(2), latency=lambda value, calls: 5, cached=lambda value: value > 1)
    own.put(2, 3)
    assert (own.out, own.calls) == ([4, 6], [])
    own.put(1, 4)
    assert own.out == [4, 6]
    assert own.until(5).out == [4, 6, 2, 8]
    assert own.calls == [(0, 1)]
    assert own.state.queue.hits == 3


def test_a_synchronous_lookup_waits_for_its_answer() -> None:
    own = Operator(settings(1, is_blocking=1), latency=lambda value, calls: 5)
    own.put(1)
    assert not own.is_free()
    assert own.until(5).is_free()
    saturated(own, 100)
    assert len(own.out) == 20


def test_a_queue_begins_empty() -> None:
    assert WaitQueue().size == 0
    assert async_wait.is_free(Operator(settings()).state) == 1
