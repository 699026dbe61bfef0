"""Structured Streaming's triggers: the sizes and times of batches by hand."""

from __future__ import annotations

import pytest

from flowcontrol.systems.throttles.controller import (
    NEVER,
    Controller,
    JobObservation,
    SourceObservation,
    make_controller,
)


def controller(**values: float) -> Controller:
    made = make_controller("static_admission", values, round_us=10_000, spouts_above={})
    assert made is not None
    return made


def sources(*parts: tuple[int, int]) -> tuple[SourceObservation, ...]:
    return tuple(
        SourceObservation("source", i, emitted, log, emitted + log, 100.0)
        for i, (emitted, log) in enumerate(parts)
    )


def look(made: Controller, now_ms: int, *parts: tuple[int, int], empty: bool = True) -> list[int]:
    seen = JobObservation(now_ms * 1000, sources(*parts), (), empty, 0, -1)
    return [command.admitted for command in made.observe(seen)]


@pytest.mark.parametrize(
    ("arrival", "service", "values", "batches"),
    [
        # Half a second of work a second: the trigger's time.
        (500, 1000, {"interval_ms": 1000}, [(1000, 500), (2000, 500), (3000, 500), (4000, 500)]),
        # Just what can be done.
        (1000, 1000, {"interval_ms": 1000}, [(1000, 1000), (2000, 1000), (3000, 1000),
                                             (4000, 1000)]),
        # Twice of it: each batch has what came during the last one, and no tick is waited for.
        (2000, 1000, {"interval_ms": 1000}, [(1000, 2000), (3000, 4000)]),
        # A batch of 1.5 s misses a tick and is followed at once.
        (2000, 1000, {"interval_ms": 1000, "max_records": 1500},
         [(1000, 1500), (2500, 1500), (4000, 1500)]),
        (2000, 1000, {"interval_ms": 1000, "max_records": 500},
         [(1000, 500), (2000, 500), (3000, 500), (4000, 500)]),
        # A batch of 0.5 s takes 0.7 s with what it costs beside its records.
        (2000, 1000, {"max_records": 500, "overhead_ms": 200, "interval_ms": 100},
         [(100, 200), (500, 500), (1200, 500), (1900, 500), (2600, 500), (3300, 500),
          (4000, 500)]),
        # As soon as the last is done.
        (2000, 1000, {"max_records": 900},
         [(10, 20), (30, 40), (70, 80), (150, 160), (310, 320), (630, 640), (1270, 900),
          (2170, 900), (3070, 900), (3970, 900)]),
    ],
)  # fmt: skip
@pytest.mark.holds("static_admission", "rules", "batches by hand")
def test_batches_by_hand(run, toy, arrival, service, values, batches):
    job = run("static_admission", 4.5, arrival, service, **values)
    assert toy.grown(job) == batches
    assert job.controller.messages == 0


def test_too_few_records_wait_for_more_or_for_the_time(run, toy):
    """The first look always makes a batch; then 100 records take 1 s to come, and 0.3 s is less."""
    few = run("static_admission", 2.5, 100, 1000, min_records=100)
    assert toy.grown(few) == [(10, 1), (1010, 100), (2010, 100)]
    late = run("static_admission", 1.2, 100, 1000, min_records=100, max_delay_ms=300)
    assert toy.grown(late) == [(10, 1), (310, 30), (610, 30), (910, 30)]


def test_a_tick_that_finds_too_few_waits_for_the_next(run, toy):
    job = run("static_admission", 4.5, 100, 1000, interval_ms=1000, min_records=150)
    assert toy.grown(job) == [(1000, 100), (3000, 200)]


def test_shares_are_rounded_as_kafkas_are():
    made = controller(max_records=100)
    made.first(sources(*[(0, 0)] * 5))
    # 1, 10, 90, 0 and 899 of 1000 wait: 0.1 up, 1, 9, none, 89.9 down.
    assert look(made, 10, (0, 1), (0, 10), (0, 90), (0, 0), (0, 899)) == [1, 1, 9, 0, 89]


def test_a_batch_is_planned_before_its_first_record():
    """What comes meanwhile is of the next batch, and the trigger counts from the plan."""
    made = controller(start_ms=50, overhead_ms=30)
    made.first(sources((0, 0)))
    assert look(made, 10, (0, 7)) == [0]
    assert (made.next_look_us(), made.wants_empty) == (60_000, False)
    assert look(made, 50, (0, 9)) == [0]
    assert look(made, 60, (0, 9)) == [7]
    assert (made.next_look_us(), made.wants_empty) == (NEVER, True)
    assert look(made, 70, (7, 3)) == [7]  # done
    assert made.next_look_us() == 100_000
    assert look(made, 100, (7, 4)) == [7]
    assert look(made, 150, (7, 6)) == [11]


def test_when_it_looks():
    made = controller()
    assert (made.next_look_us(), made.wants_empty) == (10_000, False)
    assert [command.admitted for command in made.first(sources((0, 0)))] == [0]
    assert look(made, 10, (0, 0)) == [0]
    assert made.next_look_us() == 20_000  # nothing waits: again after a round
    assert look(made, 20, (0, 7)) == [7]
    assert (made.next_look_us(), made.wants_empty) == (NEVER, True)
    assert look(made, 30, (7, 3), empty=False) == [7]
    assert look(made, 40, (6, 4)) == [7]  # one is still in the log
    assert look(made, 50, (7, 4)) == [11]
    timed = controller(interval_ms=1000)
    timed.first(sources((0, 0)))
    assert timed.next_look_us() == 1_000_000
    look(timed, 1000, (0, 0))
    assert timed.next_look_us() == 2_000_000


def test_an_empty_log_stamps_the_first_look_as_spark_does():
    """So the batch after it already needs its least number of records."""
    made = controller(min_records=5, max_delay_ms=100)
    made.first(sources((0, 0)))
    assert [look(made, at, (0, waits)) for at, waits in ((10, 0), (20, 4), (100, 4), (110, 4))] == [
        [0], [0], [0], [4],
    ]  # fmt: skip
