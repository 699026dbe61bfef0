"""From tables to figures, on runs made by hand."""

from __future__ import annotations

import pytest

from flowcontrol.analysis.producer_rates import Reaction
from flowcontrol.analysis.run_view import RunView
from flowcontrol.experiments.compare.run import figures_of
from flowcontrol.scenario import parse_scenario


@pytest.fixture
def figures(chain, lay, running):
    """A function that returns the figures of the chain at some rates."""

    def find(rates, **facts):
        job, limits = lay(chain)
        return figures_of(running(job.scenario, rates, **facts), job.scenario, limits)

    return find


GOOD = [200] * 20 + [150, 110] + [100] * 18


def test_a_producer_that_follows(figures):
    found = figures(GOOD)
    assert (found.produced, found.consumed) == (6060, 6000)
    assert found.of_limit == pytest.approx(1.0)
    assert (found.peak_records, found.peak_bytes) == (60, 6000)
    assert found.swing == 0
    assert found.ahead == pytest.approx(0)
    # 110 and four times 100 are 102 on average
    assert found.slowdown == Reaction(count=1, missed=0, how="", longest_s=1)
    assert found.release == Reaction(count=0, missed=0, how="", longest_s=None)
    assert found.piled_up == {}


def test_one_that_never_does_piles_up(figures):
    found = figures([200] * 40)
    assert found.slowdown == Reaction(count=1, missed=1, how="above", longest_s=None)
    assert found.ahead == pytest.approx(1.0)
    piled = found.piled_up[0]
    assert (piled.edge, piled.records, piled.nbytes) == ("source->sink", 2000, 200_000)
    assert not piled.at_sender
    assert found.peak_records == 2000


def test_one_that_is_slow_is_below(figures):
    found = figures([10] * 40)
    assert found.slowdown.how == "below"
    assert found.ahead < 0
    assert found.piled_up == {}
    assert found.of_limit == pytest.approx(400 / 6000)


def test_the_larger_growth_says_where(chain, lay, made):
    """Two edges; on the second one more is added, and at the sender."""
    chain["stages"].insert(1, {"name": "map"})
    chain["edges"] = [{"from": "source", "to": "map"}, {"from": "map", "to": "sink"}]
    job, limits = lay(chain)
    stages = [
        {"t_s": t, "stage": "source", "records_out": 200 * t, "rate_out": 200.0}
        for t in range(1, 41)
    ]
    channels = []
    for t in range(1, 41):
        for edge, per_s in (("source->map", 1), ("map->sink", 5)):
            level = per_s * max(0, t - 20)
            channels.append(
                {"t_s": t, "edge": edge, "backlog": 2 * level, "queued": level,
                 "in_flight_records": level, "in_flight_bytes": 100 * level}
            )  # fmt: skip
    run = made({"stages": stages, "channels": channels})
    found = figures_of(run, job.scenario, limits)
    piled = found.piled_up[0]
    assert (piled.edge, piled.records, piled.at_sender) == ("map->sink", 100, True)


def test_control_messages_are_counted_against_what_arrived(figures):
    """6,000 records of 100 bytes are 0.6 MB."""
    assert figures(GOOD, control_messages=30).control_per_mb == pytest.approx(50)
    assert figures(GOOD, control_messages=0).control_per_mb == 0
    assert figures(GOOD).control_per_mb is None
    assert figures([0] * 40, control_messages=30).control_per_mb is None


def test_what_a_run_says_of_itself(figures):
    found = figures([1], is_bounded=False, heap_exhausted_s=3.5)
    assert (found.control_per_mb, found.is_bounded, found.heap_exhausted_s) == (None, False, 3.5)


def test_latencies_are_those_of_all_records(figures):
    found = figures([200] * 20 + [100] * 20)
    assert (found.latency_p50_ms, found.latency_p99_ms) == (10, 20)
    assert figures([0] * 40).latency_p50_ms is None
    assert figures([0] * 40).latency_p99_ms is None


def test_a_run_without_samples_has_no_figures(chain, lay, made):
    job, limits = lay(chain)
    found = figures_of(made({}), job.scenario, limits)
    assert (found.produced, found.consumed, found.of_limit, found.swing) == (0, 0, None, None)
    assert found.peak_records == 0


def test_without_a_limit_there_is_nothing_to_follow(chain, lay, running):
    job, _ = lay(chain)
    found = figures_of(running(job.scenario, GOOD), job.scenario, None)
    assert (found.of_limit, found.swing, found.changes) == (None, None, ())
    assert found.consumed == 6000


def test_the_window_is_five_samples(chain):
    assert RunView(
        parse_scenario({**chain, "sample_interval_s": 0.4}), {}
    ).window_s == pytest.approx(2.0)
