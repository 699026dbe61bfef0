"""JStorm's spouts, bolts and coordinator against events worked out by hand."""

from __future__ import annotations

from itertools import pairwise

import pytest

from flowcontrol.systems.throttles.controller import (
    Controller,
    JobObservation,
    SourceObservation,
    TaskObservation,
    make_controller,
)

MS = 1_000_000

# A hundred come a second and fifty go, so a record takes the bolt 20 ms and the spout 10 ms. Marks
# are 80 and 10; a report needs four samples that agree. What the queue has then is in brackets.
BY_HAND = [
    (4, 20),  # 2 s [100]: one of four; 4 s [200]: f
    (6, 21),  # 33.3/s come now [167]: M = f, one more
    (8, 22),  # [131] M <= s: one more
    (10, 23),  # [94] likewise
    (16, 11),  # 14.5 s [5] to 16 s: (0 + 23) / 2 down
    (18, 5),  # s = m: (0 + 11) / 2 down
    (26, 13),  # 66.7/s come from 18 s on; 24 s [100]: three of four. (20 + 5) / 2 up
    (28, 17),  # [120] (20 + 13) / 2 up
    (30, 19),  # [94] (20 + 17) / 2 up
    (38, 12),  # 36 s [1]: two of four. (5 + 19) / 2 down
    (40, 6),  # s = m: (0 + 12) / 2
]


def controller(above: dict[str, list[str]], **values: float) -> Controller:
    made = make_controller("stepwise_sleep", values, round_us=100_000, spouts_above=above)
    assert made is not None
    return made


def period(made: Controller, number: int, *tasks: TaskObservation, spouts: str = "a") -> list[int]:
    """Let four samples see the same; return the spouts' sleeps, ms."""
    sources = tuple(SourceObservation(spout, 0, 0, 0, 0, 0.0) for spout in spouts)
    for sample in range(4):
        now_us = (4 * number + sample + 1) * 500_000
        commands = made.observe(JobObservation(now_us, sources, tasks, False, 0, -1))
    return [command.gap_ns // MS for command in commands]


def bolt(stage: str, subtask: int, queued: int, service_ms: float = 9.0) -> TaskObservation:
    return TaskObservation(stage, subtask, queued, 0, 0, service_ms)


@pytest.mark.holds("stepwise_sleep", "rules", "a job by hand")
def test_a_job_by_hand(run):
    job = run("stepwise_sleep", 40, arrival=100, service=50, slots=100, low=0.1)
    gaps = [(at_ms / 1000, command.gap_ns / MS) for at_ms, command in job.commands[1:]]
    assert gaps == [(at, sleep + 10) for at, sleep in BY_HAND]
    assert all(command.is_stopped == 0 for _, command in job.commands)
    # The bolt's report and what comes of it, each time.
    assert job.controller.messages == 2 * len(BY_HAND)


def test_stops_end_the_sleep_and_release_the_bolt(run):
    job = run("stepwise_sleep", 15.9, arrival=100, service=50, slots=100, low=0.1)
    job.arrival = 25  # half of what the bolt can do, so each period is a stop
    messages = job.controller.messages
    said = len(job.commands)
    job.run(20)
    sleeps = [(at, command.gap_ns / MS - 40) for at, command in job.commands[said:]]
    assert sleeps == [(16_000, 11), (18_000, 5), (20_000, 2), (22_000, 1), (24_000, -40)]
    # Five reports, forwarded; the spout says that it is over, and the bolt hears of it and is calm.
    assert job.controller.messages == messages + 5 * 2 + 2
    assert (job.controller.pressed, job.controller.known, job.controller.active) == ([0], {}, [])


@pytest.mark.parametrize(("pressed", "sleep"), [(0, 0), (1, 0), (2, 9), (3, 9)])
def test_a_tenth_of_a_bolts_tasks_must_be_under_pressure(pressed, sleep):
    made = controller({"b": ["a"]}, trigger_ratio=0.1)
    tasks = [bolt("b", i, 820 if i < pressed else 400) for i in range(20)]
    # The first task's report is taken notice of, the second comes within the same period: so it is
    # the next report that finds two.
    assert period(made, 0, *tasks) == [0]
    assert period(made, 1, *tasks) == [sleep]


def test_marks_of_a_sample():
    """820 of 1024 are more than 0.8, 819 are not; 51 are no more than 0.05, 52 are."""
    assert period(controller({"b": ["a"]}), 0, bolt("b", 0, 820)) == [9]
    assert period(controller({"b": ["a"]}), 0, bolt("b", 0, 819)) == [0]
    for queued, sleep in ((51, 4), (52, 9)):
        made = controller({"b": ["a"]})
        period(made, 0, bolt("b", 0, 1024))
        assert period(made, 1, bolt("b", 0, queued)) == [sleep]


def test_a_start_reaches_the_spouts_above_and_no_others():
    made = controller({"b": ["a"], "c": ["a", "d"]})
    assert period(made, 0, bolt("b", 0, 1024), bolt("c", 0, 0), spouts="ad") == [9, 0]
    assert period(made, 1, bolt("b", 0, 400), bolt("c", 0, 1024), spouts="ad") == [10, 9]


@pytest.mark.parametrize(("second", "sleep"), [(9.0, 9), (14.9, 9), (15.0, 15)])
def test_within_a_period_only_a_surprise_is_taken_notice_of(second, sleep):
    """More than 5 ms above the largest, 9; whole milliseconds count."""
    made = controller({"b": ["a"], "c": ["a"]})
    assert period(made, 0, bolt("b", 0, 1024), bolt("c", 0, 1024, second)) == [sleep]


def test_a_bolt_without_a_time_adds_a_millisecond():
    made = controller({"b": ["a"]})
    sleeps = [period(made, number, bolt("b", 0, 1024, 0.9)) for number in range(3)]
    assert sleeps == [[1], [2], [3]]


def test_a_bolt_that_nobody_slowed_for_is_calmed_at_once():
    made = controller({"b": ["a"]}, trigger_ratio=0.6)
    two = [bolt("b", 0, 1024), bolt("b", 1, 400)]
    assert period(made, 0, *two) == [0]
    assert (made.pressed, made.messages) == ([1, 0], 1)
    # A stop is forwarded, by the book, to a spout that does not sleep; it says so.
    assert period(made, 1, bolt("b", 0, 0), bolt("b", 1, 400)) == [0]
    assert made.pressed == [0, 0]
    messages = made.messages
    period(made, 2, bolt("b", 0, 0), bolt("b", 1, 0))
    assert made.messages == messages


def test_looks_that_are_rounded_to_rounds_lose_no_period():
    """Rounds of 300 ms: samples at 600, 1200, 1500, 2100; periods are 2000 ms all the same."""
    made = make_controller("stepwise_sleep", {}, round_us=300_000, spouts_above={"b": ["a"]})
    assert made is not None
    source = SourceObservation("a", 0, 0, 0, 0, 0.0)
    sleeps = []
    for number in range(1, 41):
        now_us = number * 300_000
        if now_us >= made.next_look_us():
            tasks = (bolt("b", 0, 1024 if number < 20 else 0),)
            command = made.observe(JobObservation(now_us, (source,), tasks, False, 0, -1))[0]
            sleeps.append((now_us // 1000, command.gap_ns // MS))
    changes = [b for a, b in pairwise(sleeps) if a[1] != b[1]]
    assert changes == [(2100, 9), (4200, 10), (8100, 5), (10_200, 2), (12_000, 1)]
