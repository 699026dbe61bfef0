"""Spark Streaming's batches: the reference's overshoot and dip by hand, shares, caps and floors."""

from __future__ import annotations

import pytest

from flowcontrol.systems.throttles.controller import (
    Controller,
    JobObservation,
    SourceObservation,
    make_controller,
)

# mu = 1000/s, offered 2000/s, B = 1 s: when a batch begins, ms, and its records. A batch is formed
# at each whole second; with P = 1, I = 0.2 and every batch at speed 1000, the rate after one is
# 1000 - 200 d, d its wait in seconds.
BY_HAND = [
    (1000, 2000),  # formed at 1 s, before any result; ends at 3 s: no result, r = 1000
    (3000, 2000),  # 2 s, waits 1 s: 800, known at 5 s
    (5000, 2000),  # 3 s, waits 2 s: 600, at 7 s
    (7000, 2000),  # 4 s, waits 3 s: 400, at 9 s
    (9000, 800),  # 5 s, waits 4 s: 200, at 9.8 s
    (9800, 800),  # 6 s, waits 3.8 s: 240, at 10.6 s
    (10_600, 600),  # 7 s, waits 3.6 s: 280
    (11_200, 600),  # 8 s, waits 3.2 s: 360, at 11.8 s
    (11_800, 400),  # 9 s, waits 2.8 s: 440
    (12_200, 200),  # 10 s: a fifth of the capacity; waits 2.2 s: 560
    (12_400, 240),  # 11 s, waits 1.4 s: 720
    (12_640, 360),  # 12 s, waits 0.64 s: 872, at 13 s
    (13_000, 872),  # 13 s, waits no more: 1000
    (14_000, 1000),
    (15_000, 1000),
    (16_000, 1000),
]


def controller(**values: float) -> Controller:
    made = make_controller("pid_rate", values, round_us=100_000, spouts_above={})
    assert made is not None
    return made


def sources(*parts: tuple[int, int]) -> tuple[SourceObservation, ...]:
    """Return sources by what they have emitted and what waits in their logs."""
    return tuple(
        SourceObservation("source", i, emitted, log, emitted + log, 100.0)
        for i, (emitted, log) in enumerate(parts)
    )


def look(made: Controller, now_s: float, *parts: tuple[int, int], empty: bool = True) -> list[int]:
    commands = made.observe(JobObservation(int(now_s * 1e6), sources(*parts), (), empty, 0, -1))
    assert all((command.is_stopped, command.gap_ns) == (0, 0) for command in commands)
    return [command.admitted for command in commands]


@pytest.mark.holds("pid_rate", "rules", "the known dip after batches without a rate")
def test_four_uncapped_batches_a_dip_to_a_fifth_and_then_capacity(run, toy):
    job = run("pid_rate", 16.5, arrival=2000, service=1000, round_ms=8)
    assert toy.grown(job) == BY_HAND
    assert job.controller.messages == 14  # all that are done but the first, at 3 s
    assert job.controller.rate == 1000.0


def test_the_first_batches_keep_to_the_rate_that_is_stated(run, toy):
    job = run("pid_rate", 6.5, arrival=2000, service=1000, initial_rate=500)
    assert toy.grown(job) == [(1000, 500), (2000, 500), (3000, 1000), (4000, 1000), (5000, 1000),
                              (6000, 1000)]  # fmt: skip


def test_a_rate_per_partition_holds_before_any_result(run, toy):
    job = run("pid_rate", 5.5, arrival=2000, service=1000, max_rate=300)
    assert toy.grown(job) == [(second * 1000, 300) for second in range(1, 6)]


def test_the_start_of_a_batch_is_part_of_what_its_records_took():
    """A batch of 400 at 1000/s and 100 ms before them: the rate is 800/s."""
    made = controller(start_ms=100)
    made.first(sources((0, 0)))
    for second in (1, 2):
        emitted = 400 * (second - 1)
        assert look(made, second, (emitted, 400)) == [emitted]
        assert (made.next_look_us(), made.wants_empty) == (second * 1_000_000 + 100_000, False)
        assert look(made, second + 0.1, (emitted, 450)) == [emitted + 400]
        assert look(made, second + 0.5, (emitted + 400, 600)) == [emitted + 400]
    assert made.published == 800


def test_nothing_is_emitted_before_the_first_batch():
    made = controller()
    assert [command.admitted for command in made.first(sources((0, 0), (0, 0)))] == [0, 0]
    assert (made.next_look_us(), made.wants_empty) == (1_000_000, False)
    assert look(made, 1.0, (0, 30), (0, 10)) == [30, 10]
    assert made.wants_empty


def test_a_batch_ends_when_all_of_it_was_emitted_and_is_finished():
    made = controller()
    made.first(sources((0, 0)))
    look(made, 1.0, (0, 30))
    assert look(made, 2.0, (30, 40), empty=False) == [30]  # formed, but the first runs
    assert look(made, 2.1, (29, 45)) == [30]  # empty, but one is still in the log
    assert look(made, 2.2, (30, 48)) == [70]


def test_shares_follow_the_logs_and_the_rate():
    made = controller(initial_rate=100, interval_ms=2000)
    made.first(sources((0, 0), (0, 0), (0, 0)))
    # 200 records: 300, 100 and 0 of 400 wait.
    assert look(made, 2.0, (0, 300), (0, 100), (0, 0)) == [150, 50, 0]
    assert made.planned == [150, 50, 0]
    # 0.5 of a record a second is one in two seconds; and the least is one, where there is one.
    assert look(made, 4.0, (150, 995), (50, 5), (0, 0)) == [150 + 199, 51, 0]


def test_an_empty_batch_changes_nothing():
    made = controller()
    made.first(sources((0, 0)))
    assert look(made, 1.0, (0, 0)) == [0]
    assert (made.wants_empty, made.queue, made.published) == (False, [], -1)
    assert look(made, 2.0, (0, 5)) == [5]


@pytest.mark.parametrize(
    ("seconds", "published"), [(2.0, 500), (10.0, 100), (9.9, 101), (20.0, 100)]
)
def test_the_rate_is_never_below_its_floor(seconds, published):
    """A thousand records in so many seconds; the first batch took one."""
    made = controller(integral=0.0)
    made.first(sources((0, 0)))
    look(made, 1.0, (0, 1000))
    look(made, 2.0, (1000, 1000))
    look(made, 2.0 + seconds, (2000, 0))
    assert made.published == published


def test_two_batches_wait_and_run_in_order():
    made = controller()
    made.first(sources((0, 0)))
    look(made, 1.0, (0, 10))
    look(made, 2.0, (10, 20), empty=False)
    look(made, 3.0, (10, 50), empty=False)
    assert made.queue == [[2_000_000, 20], [3_000_000, 30]]
    assert look(made, 3.5, (10, 60)) == [30]
    assert look(made, 3.7, (30, 60)) == [60]
    assert made.begun_us - made.formed_us == 700_000
