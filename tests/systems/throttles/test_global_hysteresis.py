"""Storm's and Heron's switch: saw-teeth worked out by hand, delays, ages, marks in bytes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flowcontrol.scenario.system import PRESETS
from flowcontrol.systems.throttles.controller import (
    Command,
    Controller,
    JobObservation,
    SourceObservation,
    TaskObservation,
    make_controller,
)

STOP, GO = Command(1, 0, -1), Command(0, 0, -1)
# Two thousand come, one thousand go: the queue grows by 1000/s while the source emits and falls by
# 1000/s while it does not. Marks are 900 and 400 of 1000.
GROWING = {"arrival": 2000, "service": 1000, "slots": 1000, "check_ms": 10}


def controller(round_ms: int = 10, **values: float) -> Controller:
    made = make_controller(
        "global_hysteresis", values, round_us=round_ms * 1000, spouts_above={"sink": ["source"]}
    )
    assert made is not None
    made.first([source()])
    return made


def source() -> SourceObservation:
    return SourceObservation("source", 0, 0, 0, 0, 1000.0)


def seen(now_ms: int, *queued: int, nbytes: int = 0) -> JobObservation:
    tasks = tuple(TaskObservation("sink", i, n, nbytes, 0, 1.0) for i, n in enumerate(queued))
    return JobObservation(now_ms * 1000, (source(),), tasks, False, 0, -1)


@pytest.mark.holds("global_hysteresis", "rules", "the saw-tooth between its marks")
def test_a_saw_tooth_without_delay(run, toy):
    job = run("global_hysteresis", 4, **GROWING)
    # 900 after 0.9 s; 500 down to 400 take 0.5 s, 500 up again as long.
    assert toy.stops(job) == [(900, 1), (1400, 0), (1900, 1), (2400, 0), (2900, 1), (3400, 0),
                              (3900, 1)]  # fmt: skip
    assert (max(job.depths), min(job.depths[90:])) == (900, 400)


def test_a_saw_tooth_with_delays(run, toy):
    job = run("global_hysteresis", 5, **GROWING, delay_on_ms=200, delay_off_ms=100)
    # Heard at 0.9 + 0.2 s, when it is 900 + 1000 * 0.2; 400 is met 0.7 s later and heard 0.1 s
    # after that, at 400 - 1000 * 0.1. From 300 to 900 it is 0.6 s.
    assert toy.stops(job) == [(1100, 1), (1900, 0), (2700, 1), (3500, 0), (4300, 1)]
    amplitude = max(job.depths) - min(job.depths[110:])
    assert amplitude == (900 - 400) + (2000 - 1000) * 0.2 + 1000 * 0.1
    # A claim or its end at 0.9, 1.8, 2.5, 3.4, 4.1 and 5.0 s; heard all but the last time.
    assert job.controller.messages == 6 + 5


def test_a_slow_word_leaves_the_server_idle(run, toy):
    """If d2 * mu > 0.4 * cap: 0.1 s * 1000/s more than the 400 that are left."""
    job = run("global_hysteresis", 3, **GROWING, delay_off_ms=500)
    assert toy.stops(job) == [(900, 1), (1900, 0), (2800, 1)]
    assert job.depths[179:190] == [0] * 11  # from 1.8 to 1.9 s
    assert job.taken == 3000 - 100


def test_delays_are_rounded_up_to_whole_rounds(run, toy):
    job = run("global_hysteresis", 2, **GROWING, delay_on_ms=201, delay_off_ms=0)
    assert toy.stops(job)[0] == (1110, 1)


def test_looks_are_as_far_apart_as_is_said(run, toy):
    job = run("global_hysteresis", 1.2, **(GROWING | {"check_ms": 250}))
    assert toy.stops(job) == [(1000, 1)]
    assert job.looks == 4
    # Every round if nothing is said, and none is missed if rounds are longer than looks.
    assert run("global_hysteresis", 1.2, **(GROWING | {"check_ms": 0})).looks == 120
    assert run("global_hysteresis", 1.2, **(GROWING | {"check_ms": 7})).looks == 120


# A queue of 10, marks 9 and 4: tuples taken so far and those that wait, whether it claims pressure.
# The consumer takes all that is there, and these count until it has begun with the next one.
BATCHES = [
    ((0, 3), 0),  # a batch of 3
    ((1, 5), 0),  # 6 of it and behind it
    ((2, 7), 1),  # 9
    ((3, 6), 1),  # a batch of 6
    ((5, 4), 0),  # the low mark is of those that wait
    ((5, 4), 0),  # nobody came to meet the high mark
    ((6, 5), 0),  # 8
    ((6, 6), 1),  # 9 again, though 6 wait
    ((7, 5), 1),
    ((8, 4), 0),
    ((9, 3), 0),  # a batch of 3
    ((10, 5), 0),
    ((12, 6), 0),  # a batch of 6
    ((12, 8), 0),
    ((12, 9), 1),
]


@pytest.mark.holds("global_hysteresis", "rules", "batches of Storm 1's queue by hand")
def test_what_a_consumer_took_counts_until_its_batch_is_done():
    made = controller(slots=10, takes_all=1, check_ms=10, timeout_ms=0)
    for step, ((taken, queued), expected) in enumerate(BATCHES, 1):
        task = TaskObservation("sink", 0, queued, 0, taken, 1.0)
        job = JobObservation(10_000 * step, (source(),), (task,), False, 0, -1)
        assert made.observe(job)[0].is_stopped == expected, step


@pytest.mark.parametrize(
    ("queued", "is_stopped"), [(920, 0), (921, 1), (922, 1), (0, 0), (409, 0), (410, 0)]
)
def test_marks_are_whole_slots(queued, is_stopped):
    made = controller()
    assert made.observe(seen(100, queued))[0].is_stopped == is_stopped


def test_any_task_stops_every_source_and_the_last_releases_them():
    made = controller()
    depths = [(0, 0), (921, 0), (409, 921), (921, 410), (409, 410), (400, 409)]
    said = [made.observe(seen(100 * (i + 1), *queued)) for i, queued in enumerate(depths)]
    assert said == [[GO], [STOP], [STOP], [STOP], [STOP], [GO]]


def test_word_that_comes_too_late_is_not_heard():
    """On is under way for 500 ms, off for none: who hears of on by then reads off."""
    made = controller(delay_on_ms=500)
    made.observe(seen(100, 921))
    assert made.next_look_us() == 200_000
    assert made.observe(seen(200, 409)) == [GO]
    assert (made.next_look_us(), made.messages) == (300_000, 2)  # claimed, taken back, never heard
    assert all(made.observe(seen(at, 409)) == [GO] for at in range(300, 1000, 100))


def test_word_is_heard_between_two_looks():
    made = controller(check_ms=1000, delay_on_ms=30)
    assert made.observe(seen(1000, 921)) == [GO]
    assert made.next_look_us() == 1_030_000
    assert made.observe(seen(1030, 0)) == [STOP]  # no look: the queue is not asked
    assert made.next_look_us() == 2_000_000
    assert made.observe(seen(2000, 0)) == [GO]


def test_a_claim_that_is_not_repeated_ends():
    made = controller(check_ms=1000, update_ms=40_000, timeout_ms=30_000)
    said = [made.observe(seen(1000 * second, 921))[0].is_stopped for second in range(1, 43)]
    # Written at 1 s, and again at 41 s; in between it is too old from 31 s on.
    assert said == [1] * 30 + [0] * 10 + [1, 1]


@pytest.mark.parametrize(("timeout_ms", "written"), [(30_000, 5), (0, 1)])
def test_a_claim_is_repeated_and_stands(timeout_ms, written):
    made = controller(check_ms=1000, timeout_ms=timeout_ms)
    assert all(made.observe(seen(1000 * second, 921)) == [STOP] for second in range(1, 62))
    # At 1, 16, 31, 46 and 61 s, and heard once.
    assert made.messages == written + 1


@pytest.mark.holds("global_hysteresis", "rules", "Heron's count of enqueues by hand")
def test_heron_counts_bytes_and_wants_four_in_a_row():
    made = controller(**PRESETS["heron"].throttle_values)
    high, low = 100 << 20, 50 << 20
    sizes = [high, high, high, high - 1, high, high, high, high, low, low - 1, high]
    said = [
        made.observe(seen(10 * (i + 1), 10**9, nbytes=nbytes))[0].is_stopped
        for i, nbytes in enumerate(sizes)
    ]
    assert said == [0, 0, 0, 0, 0, 0, 0, 1, 1, 0, 0]


@given(
    depths=st.lists(st.integers(0, 1500), min_size=1, max_size=80),
    delays=st.tuples(st.integers(0, 90), st.integers(0, 90)),
)
def test_it_turns_no_more_often_than_marks_are_crossed(depths, delays):
    made = controller(check_ms=10, delay_on_ms=delays[0], delay_off_ms=delays[1])
    crossed = turned = pressed = stopped = 0
    for number, queued in enumerate(depths, 1):
        before, pressed = pressed, 1 if queued >= 921 or (pressed and queued > 409) else 0
        crossed += before != pressed
        said = made.observe(seen(10 * number, queued))[0].is_stopped
        turned += said != stopped
        stopped = said
        assert turned <= crossed
        assert len(made.pending) <= 10
