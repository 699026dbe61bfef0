"""The scale that all charts share."""

from __future__ import annotations

import pytest

from flowcontrol.experiments.compare.page import top_rate
from flowcontrol.experiments.compare.run import Lines, Outcome


def ran(rates):
    times = [float(index) for index in range(len(rates))]
    return Outcome("x", "ran", lines=Lines(times, list(rates), list(rates), times))


@pytest.mark.parametrize(("spikes", "top"), [(0, 108), (2, 108), (3, 10_800)])
def test_one_sample_in_fifty_may_be_beyond_the_scale(spikes, top):
    rates = [100.0] * (100 - spikes) + [10_000.0] * spikes
    assert top_rate([ran(rates)], None) == pytest.approx(top)


def test_the_limit_is_always_within(lay, chain):
    _, limits = lay(chain)
    assert top_rate([ran([1.0] * 9)], limits) == pytest.approx(216)
    assert top_rate([], limits) == pytest.approx(216)


def test_there_is_a_scale_where_nothing_moves():
    assert top_rate([], None) == 1
    assert top_rate([ran([0.0] * 9)], None) == 1
