"""Random jobs: the state of the kernel is that of stages apart, all of it, after every round."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from types import ModuleType
from typing import Any

import pytest
from hypothesis import assume, given, note, settings
from hypothesis import strategies as st

EXAMPLES = settings.default.max_examples
MOST_RUNS = 18
"""Runs until what is seldom has happened."""

EVENTS = {
    "local",
    "remote",
    "no credit",
    "backlog announced",
    "floating",
    "waiting",
    "competition",
    "overdraft",
    "quota",
    "blocked",
    "blocked inside a record",
    "pending output",
    "long service",
    "stands still",
    "large records",
    "broadcast",
    "long period",
    "chained source",
    "chained stage",
    "end of partition",
    "end without credit",
    "end passed on",
    "exponential source",
    "lognormal source",
    "exponential stage",
    "lognormal stage",
    "caught up with a log",
    "behind in a log",
    "blocked before a log",
}
"""What must have happened in some of the runs; :mod:`witness` says what each means."""


@pytest.mark.holds(
    "credit", "virtual", "stages apart: the whole state after every round, random jobs"
)
def test_the_kernel_does_what_stages_apart_do(
    clocks: ModuleType, witness: ModuleType, random_jobs: ModuleType, draw_until: Any
) -> None:
    happened: Counter[str] = Counter()
    shape = random_jobs.Shape(is_virtual=True)
    tight = replace(shape, is_tight=True)
    scenarios = st.one_of(random_jobs.scenarios(shape), random_jobs.scenarios(tight))

    @settings(max_examples=EXAMPLES)
    @given(scenario=scenarios, every=st.sampled_from([2, 3, 10, 1000]))
    def look(scenario: Any, every: int) -> None:
        note(scenario.to_yaml())
        job = random_jobs.laid_out(scenario)
        assume(job.links)
        seen = witness.Witness(job)
        clocks.compare(job, every=(1, every), watch=seen)
        happened.update(seen.seen)

    draw_until(look, lambda: set(happened) >= EVENTS, MOST_RUNS)
    print(dict(happened))
    assert EVENTS - set(happened) == set()


@settings(max_examples=EXAMPLES)
@given(data=st.data())
def test_jobs_of_the_live_clock_too(clocks: ModuleType, random_jobs: ModuleType, data: Any) -> None:
    scenario = data.draw(random_jobs.scenarios(random_jobs.LIVE))
    note(scenario.to_yaml())
    clocks.compare(random_jobs.laid_out(scenario))


@settings(max_examples=EXAMPLES)
@given(data=st.data())
def test_messages_are_under_way_for_several_rounds(
    clocks: ModuleType, random_jobs: ModuleType, data: Any
) -> None:
    is_virtual = data.draw(st.booleans())
    shape = random_jobs.Shape(is_virtual=is_virtual, latencies=(1.5, 3, 7))
    scenario = data.draw(random_jobs.scenarios(shape))
    note(scenario.to_yaml())
    job = random_jobs.laid_out(scenario)
    assert job.latency in {2, 3, 7}
    clocks.compare(job, every=(1, 4))
