"""Spark's real-time mode: when sources stop and go on, by hand, and the gap in a formula."""

from __future__ import annotations

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from flowcontrol.scenario.system import preset_system
from flowcontrol.systems.throttles.controller import make_controller
from modules import load

toy = load("tests/systems/throttles/toy.py")


@pytest.mark.parametrize(
    ("arrival", "service", "values", "stops"),
    [
        # As fast as its input: nothing is left at the end, so there is no gap but the overhead.
        (500, 1000, {"batch_ms": 1000}, []),
        (500, 1000, {"batch_ms": 1000, "overhead_ms": 200},
         [(1000, 1), (1200, 0), (2200, 1), (2400, 0)]),
        # 2000 of 4000 records are left after 2 s. At 6 s 12,000 have come, 6000 are done.
        (2000, 1000, {"batch_ms": 2000}, [(2000, 1), (4000, 0), (6000, 1), (12_000, 0)]),
        # With an overhead 12,600 have come by 6.3 s, and 6000 are done: 6.6 s, and the overhead.
        (2000, 1000, {"batch_ms": 2000, "overhead_ms": 300},
         [(2000, 1), (4300, 0), (6300, 1), (13_200, 0)]),
    ],
)  # fmt: skip
@pytest.mark.holds("long_batches", "rules", "batches by hand")
def test_batches_by_hand(run, arrival, service, values, stops):
    seconds = 2.4 if arrival < service else 13.5
    job = run("long_batches", seconds, arrival, service, **values)
    assert toy.stops(job) == stops
    assert job.controller.messages == 0


@given(
    st.sampled_from([200, 500, 1000, 2000, 5000]),
    st.sampled_from([500, 1000, 2500]),
    st.integers(1, 30),
    st.integers(0, 20),
)
def test_the_gap_is_drain_and_overhead(arrival, service, batch, overhead):
    """gap = backlog / service + overhead, to the round; and no record is read in it."""
    values = {"batch_ms": 100 * batch, "overhead_ms": 50 * overhead}
    made = make_controller("long_batches", values, round_us=10_000, spouts_above=toy.ABOVE)
    job = toy.Toy(made, arrival, service, 10_000, True).run(batch / 10)
    emitted, backlog, began = job.emitted, job.emitted - job.taken, job.now_us
    assume(toy.stops(job) and backlog < 60 * service)
    while job.commands[-1][1].is_stopped == 1:
        assert job.emitted == emitted
        job.round()
    gap = (job.now_us - began) / 1e6
    assert gap == pytest.approx(backlog / service + overhead / 20, abs=0.011)


def test_sparks_batch_lasts_five_minutes():
    assert preset_system("spark-real-time").throttle_values["batch_ms"] == 300_000
