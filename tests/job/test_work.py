"""Rates as work in whole numbers: exact where that fits, and never far from what was stated."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flowcontrol.errors import ScenarioError
from flowcontrol.layout.job import Job
from flowcontrol.layout.physical_graph import MOST_RECORDS, build_physical_graph
from flowcontrol.layout.work import ServiceCurve
from flowcontrol.protocol.service import MOST, work_by
from flowcontrol.scenario import parse_scenario
from flowcontrol.scenario.schedule import MICROSECONDS

EXAMPLES = 8 * settings.default.max_examples
DIGITS = st.integers(10**15, 10**16 - 1).map(lambda number: number / 10**15)


def laid_out(stages: list[dict[str, Any]], duration_s: float, *, chain: bool = False) -> Job:
    names = [stage["name"] for stage in stages]
    edges = [{"from": a, "to": b, "chain": chain} for a, b in pairwise(names)]
    if chain:
        edges[0].pop("chain")
    keys = {"schema": 1, "name": "work", "duration_s": duration_s, "round_ms": duration_s * 10}
    return build_physical_graph(parse_scenario({**keys, "stages": stages, "edges": edges}))


def source(rate: Any, duration_s: float, nbytes: int = 1) -> Job:
    stages = [{"name": "source", "emit_rate": rate, "record_bytes": nbytes}, {"name": "sink"}]
    return laid_out(stages, duration_s)


def error(job: Job, us: int) -> tuple[Fraction, Fraction]:
    """Records by a moment as they are counted less those that are stated; the latter."""
    plan = job.stage("source")
    clock, schedule = ServiceCurve.of(job, plan, 0), plan.rates(0)
    assert clock is not None
    assert schedule is not None
    assert clock.unit * (schedule.records_until((job.rounds + 2) * job.round_us) + 1) <= MOST
    stated = schedule.integral(us)
    return Fraction(work_by(clock.phases, us), clock.unit) - stated, stated


def test_one_rate_is_as_near_as_is_documented(draw_until: Any) -> None:
    met: Counter[str] = Counter()

    @settings(max_examples=EXAMPLES)
    @given(DIGITS, st.integers(-20, 11), st.integers(0, 8))
    def look(digits: float, size: int, length: int) -> None:
        rate, duration_s = digits * 10.0**size, 10**length
        if rate * duration_s * 1.1 * 57 > MOST // 2:
            return
        job = source(min(rate, 1e12), duration_s)
        us = duration_s * MICROSECONDS
        off, stated = error(job, us)
        bound = Fraction(2 * min(max(1, int(stated)) + 1, us), MOST)
        slowest = Fraction(us, MOST)  # a record in 2^61 us
        assert abs(off) <= max(stated * bound, slowest)
        assert abs(off) <= max(stated / 10**9, slowest) or stated > 10**9
        met["exact" if off == 0 else "rounded"] += 1
        met["slow"] += stated < 1
        met["many"] += stated > 10**12

    kinds = {"exact", "rounded", "slow", "many"}
    draw_until(look, lambda: all(met[kind] for kind in kinds), 5)
    assert all(met[kind] for kind in kinds), met


@settings(max_examples=EXAMPLES)
@given(st.lists(st.tuples(DIGITS, st.integers(-6, 6)), min_size=2, max_size=5), st.integers(1, 7))
def test_rates_over_time_are_off_by_what_is_documented(
    rates: list[tuple[float, int]], length: int
) -> None:
    duration_s = 10**length
    steps = [
        {"at_s": i * duration_s / 10, "rate": digits * 10.0**size}
        for i, (digits, size) in enumerate(rates)
    ]
    job = source(steps, duration_s)
    us = duration_s * MICROSECONDS
    off, stated = error(job, us)
    assert abs(off) <= Fraction(2 * us * (int(stated) + 2), MOST)


def test_rates_of_few_digits_stay_exact_beside_one_of_many() -> None:
    steps = [{"at_s": 0, "rate": 6000}, {"at_s": 50, "rate": 1183.673469387755}]
    job = source(steps, 100)
    assert error(job, 50 * MICROSECONDS) == (0, 300_000)
    off, stated = error(job, 100 * MICROSECONDS)
    assert 0 < abs(off) < stated / 10**9


@pytest.mark.parametrize("rate", [5e-324, 1e-300, 1e-9])
def test_a_rate_that_no_run_sees_is_no_record(rate: float) -> None:
    job = source(rate, 10**8)
    off, stated = error(job, 10**14)
    assert 0 <= off + stated < 1


def test_a_slow_chain_is_as_slow_as_its_stages() -> None:
    """One millionth of a record a second was the finest rate of a chain."""
    stages = [
        {"name": "source", "emit_rate": 1},
        {"name": "parse", "service_rate": 1e-6},
        {"name": "store", "service_rate": 1e-6},
    ]
    rate = laid_out(stages, 10, chain=True).stage("parse").rates(0)
    assert rate is not None
    assert rate.rate_at(0) == Fraction(1, 2 * 10**6)


def test_phases_after_the_run_do_not_count() -> None:
    """But whether the last one is 0: then a source has an end."""
    for last in (1e12, 0):
        steps = [{"at_s": 0, "rate": 0.3333333333333333}, {"at_s": 5e8, "rate": 1e12}]
        job = source([*steps, {"at_s": 1e9, "rate": last}], 10)
        clock = ServiceCurve.of(job, job.stage("source"), 0)
        assert clock is not None
        assert len(clock.phases) == 2
        assert (clock.phases[-1][2] > 0) == (last > 0)
        assert work_by(clock.phases, 6 * MICROSECONDS) // clock.unit in (1, 2)


@pytest.mark.parametrize(
    ("rate", "nbytes", "text"),
    [
        (1e12, 1, "e+17 is more than 3.6e+16 records to emit"),
        (1e10, 2**31 - 1, "is more than 2.31e+18 bytes by the end"),
    ],
)
def test_what_no_run_can_count_is_refused(rate: float, nbytes: int, text: str) -> None:
    with pytest.raises(ScenarioError, match="lower the rate") as caught:
        source(rate, 10**5, nbytes)
    assert text in str(caught.value)
    assert source(MOST_RECORDS / 10**5 / 60, 10**5).rounds > 0


def test_what_no_task_can_hold_is_refused() -> None:
    stages = [
        {"name": "source", "emit_rate": 1},
        {"name": "one", "selectivity": 2000},
        {"name": "two", "selectivity": 2000},
        {"name": "sink"},
    ]
    with pytest.raises(ScenarioError, match="4e\\+06 is more than 1e\\+06 records out of one"):
        chained = [{"from": "source", "to": "one"}, {"from": "one", "to": "two", "chain": True}]
        edges = [*chained, {"from": "two", "to": "sink"}]
        keys = {"schema": 1, "name": "work", "duration_s": 10, "round_ms": 100}
        build_physical_graph(parse_scenario({**keys, "stages": stages, "edges": edges}))
