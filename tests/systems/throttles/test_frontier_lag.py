"""A source that waits for its batches: on and off by hand."""

from __future__ import annotations

import pytest

from flowcontrol.systems.throttles.controller import (
    Controller,
    JobObservation,
    SourceObservation,
    make_controller,
)


def controller(**values: float) -> Controller:
    made = make_controller("frontier_lag", values, round_us=10_000, spouts_above={})
    assert made is not None
    made.first([source()])
    return made


def source() -> SourceObservation:
    return SourceObservation("source", 0, 0, 0, 0, 100.0)


def look(made: Controller, now_ms: int, oldest_ms: float) -> int:
    oldest_us = int(oldest_ms * 1000) if oldest_ms >= 0 else -1
    return made.observe(
        JobObservation(now_ms * 1000, (source(),), (), oldest_ms < 0, 0, oldest_us)
    )[0].is_stopped


@pytest.mark.holds("frontier_lag", "rules", "a source by hand")
def test_two_batches_of_which_one_is_done_in_twice_its_time(run, toy):
    """200 records a batch of 0.1 s, 100 of which are done in that time."""
    job = run("frontier_lag", 1.0, 2000, 1000)
    # 0.2 s: batch 0 is done, so batch 2 begins. 0.3 s: batch 1 is half done. 0.4 s: it is done.
    assert toy.stops(job) == [(300, 1), (400, 0), (500, 1), (600, 0), (700, 1), (800, 0), (900, 1),
                              (1000, 0)]  # fmt: skip
    assert job.taken == 1000
    assert max(job.depths) <= 2 * 200
    assert job.controller.messages == 5  # batches 0 to 4


def test_a_server_that_keeps_up_is_never_waited_for(run, toy):
    job = run("frontier_lag", 2.0, 1000, 1000)
    assert toy.stops(job) == []
    assert job.looks == 20


@pytest.mark.parametrize(("lag", "stopped"), [(1, [1, 1, 1]), (2, [0, 1, 1]), (3, [0, 0, 1])])
def test_so_many_batches_may_be_under_way(lag, stopped):
    made = controller(lag=lag)
    assert [look(made, at, 5) for at in (100, 200, 300)] == stopped
    assert look(made, 310, -1) == 0


@pytest.mark.parametrize(("oldest", "is_stopped"), [(10, 1), (99, 1), (100, 1), (110, 0), (-1, 0)])
def test_a_record_belongs_to_the_batch_in_which_it_was_emitted(oldest, is_stopped):
    """Batches 0 and 1 ended at 100 and 200 ms; batch 2 begins when batch 0 is done."""
    made = controller()
    look(made, 100, 10)
    assert look(made, 200, oldest) == is_stopped


def test_it_looks_at_the_end_of_a_batch_and_each_round_while_it_waits():
    made = controller(interval_ms=95, lag=1)
    assert made.next_look_us() == 95_000
    assert look(made, 100, 10) == 1
    assert made.next_look_us() == 110_000
    assert look(made, 110, 10) == 1
    assert look(made, 120, -1) == 0
    assert made.next_look_us() == 215_000  # its time runs from when it began
    assert look(made, 150, 130) == 0  # asked too early, it goes on
