"""A rate that grows by steps and falls by half: its use, its lateness and its shares."""

from __future__ import annotations

import pytest

from flowcontrol.systems.throttles.controller import (
    Controller,
    JobObservation,
    SourceObservation,
    make_controller,
)


def controller(**values: float) -> Controller:
    made = make_controller("aimd_rate", values, round_us=100_000, spouts_above={})
    assert made is not None
    return made


def sources(*rates: float, emitted: int = 0) -> tuple[SourceObservation, ...]:
    return tuple(
        SourceObservation("source", i, emitted, 0, 0, rate) for i, rate in enumerate(rates)
    )


def look(made: Controller, now_s: float, emitted: int, age_s: float = -1.0) -> float:
    """Return the rate that the one source has after a look."""
    now_us = int(now_s * 1e6)
    oldest = now_us - int(age_s * 1e6) if age_s >= 0 else -1
    command = made.observe(
        JobObservation(now_us, sources(9000.0, emitted=emitted), (), age_s < 0, 0, oldest)
    )[0]
    return 1e9 / command.gap_ns


@pytest.mark.holds("aimd_rate", "rules", "a source by hand")
def test_a_rate_grows_once_it_has_been_used_for_some_time(run):
    """At least 0.75 of it over the last 10 s; in brackets what was emitted in them."""
    job = run("aimd_rate", 15.5, 10_000, 10_000, use_share=0.75)
    rates = [(at_ms, round(1e9 / command.gap_ns)) for at_ms, command in job.commands]
    assert rates == [
        (0, 500),
        (8000, 600),  # [4000]: not at 7 s [3500]
        (9000, 700),  # [4600]
        (10_000, 800),  # [5300]
        (13_000, 900),  # [6200]: not at 11 s [5600], nor at 12 s [5900]
        (15_000, 1000),  # [7000]: not at 14 s [6600]
    ]
    assert job.controller.messages == 5


@pytest.mark.parametrize(("emitted", "rate"), [(3999, 500), (4000, 600)])
def test_what_counts_as_used(emitted, rate):
    """400/s over 10 s, of 500."""
    assert look(controller(), 1.0, emitted) == pytest.approx(rate)


@pytest.mark.parametrize(("age_s", "rate"), [(19.9, 1000), (20.0, 1000), (20.1, 900 / 2)])
def test_what_counts_as_late(age_s, rate):
    made = controller(min_rate=100)
    made.rate = 900.0
    assert look(made, 30.0, 10_000, age_s) == pytest.approx(rate)


def test_it_does_not_fall_twice_within_its_cooldown():
    made = controller(min_rate=100, late_ms=1000, cooldown_ms=5000)
    made.rate = 3200.0
    rates = [look(made, second, 0, 1.5) for second in range(2, 13)]
    assert rates == pytest.approx([1600] * 5 + [800] * 5 + [400])


def test_it_stays_within_its_bounds():
    made = controller(min_rate=100, max_rate=250, late_ms=1000, cooldown_ms=0)
    assert [round(look(made, second, 10**6 * second)) for second in (1, 2, 3)] == [200, 250, 250]
    assert [round(look(made, second, 10**8, 2.0)) for second in (4, 5, 6)] == [125, 100, 100]


def test_sources_get_what_they_are_offered():
    made = controller(min_rate=600)
    gaps = [command.gap_ns for command in made.first(sources(100.0, 200.0, 0.0))]
    assert gaps == [5_000_000, 2_500_000, 5_000_000]  # 200 and 400 of 600; 600 / 3
    assert [command.gap_ns for command in made.first(sources(0.0, 0.0))] == [3_333_334] * 2


def test_the_window_forgets():
    made = controller(window_ms=2000)
    for second in range(1, 6):
        look(made, second, 100 * second)
    assert made.history == [[3_000_000, 300], [4_000_000, 400], [5_000_000, 500]]
    assert made.rate == 500.0
    assert look(made, 6.0, 1200) == pytest.approx(600)  # 1200 - 400 in 2 s
