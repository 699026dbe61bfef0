"""The scenarios of conf/: each keeps what its comment says."""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise
from math import ceil
from pathlib import Path

import pytest

from conf_list import CONF, NAMES, ROWS
from flowcontrol.scenario import Edge, Scenario, load_scenario

ALIKE = [name for name in NAMES if not {*ROWS[name].split()} & {"virtual", "chosen", "fine"}]
"""Those that the live clock runs in the round that they say."""
SLICES_OF_A_FLUSH = 1


@pytest.fixture(params=ALIKE)
def path(request: pytest.FixtureRequest) -> Path:
    return CONF / f"{request.param}.yaml"


def test_its_first_lines_explain_it(path: Path) -> None:
    lines = path.read_text().splitlines()
    comment = lines[: lines.index("schema: 1")]
    assert len(comment) > 8
    assert all(line.startswith("#") for line in comment)
    text = " ".join(comment)
    assert "What to see" in text
    assert "The window." in text


def full_rates(scenario: Scenario) -> dict[str, Fraction]:
    """The most that each stage would send if nothing held it up, records/s of all subtasks."""
    rates: dict[str, Fraction] = {}
    for stage in scenario.topological():
        if stage.emit_rate is None:
            taken = sum((rates[edge.sender] for edge in scenario.inputs(stage.name)), Fraction(0))
            able = [max(p.rate for p in s.phases) for s in stage.service_rate or ()]
            rates[stage.name] = min(taken, sum(able, Fraction(0))) * stage.selectivity_exact
        else:
            rates[stage.name] = sum(
                (max(p.rate for p in s.phases) for s in stage.emit_rate), Fraction(0)
            )
    return rates


def buffers_of_a_round(scenario: Scenario, edge: Edge) -> int:
    """The most messages that a channel carries in a round, at the rate its two ends allow."""
    receiver = scenario.stage(edge.receiver)
    share = full_rates(scenario)[edge.sender]
    if edge.partitioner == "rebalance":
        share /= receiver.parallelism
    able = [max(p.rate for p in s.phases) for s in receiver.service_rate or ()]
    records = min([share, *able]) * scenario.live_round_us / 1_000_000
    size = scenario.stage(edge.sender).record_bytes
    return ceil(records * size / scenario.options.segment_bytes) + SLICES_OF_A_FLUSH


def test_its_channels_carry_its_rates(path: Path) -> None:
    scenario = load_scenario(path)
    if scenario.failures:
        pytest.skip("the virtual clock chooses a round that suits it")
    options = scenario.options
    assert options.flush_interval_us == scenario.live_round_us
    window = options.exclusive_buffers + options.floating_buffers
    of_a_round = max(buffers_of_a_round(scenario, edge) for edge in scenario.edges)
    latency = max(1, ceil(scenario.cluster.network_latency_us / scenario.live_round_us))
    assert 2 * latency * of_a_round < window <= 2 * 2 * latency * of_a_round
    assert of_a_round < options.max_buffers_per_channel


def test_the_experiment_is_the_classic_one() -> None:
    scenario = load_scenario(CONF / "experiment.yaml")
    assert (scenario.duration_s, scenario.round_ms) == (100, 100)
    assert 5 % scenario.sample_interval_s == 0
    [produced] = scenario.stage("producer").emit_rate or ()
    [consumed] = scenario.stage("consumer").service_rate or ()
    most = produced.phases[-1].rate
    seconds = [5, 15, 25, 35, 45, 55, 65, 75, 85, 95]
    asked = [produced.rate_at(s * 1_000_000) / most for s in seconds]
    able = [consumed.rate_at(s * 1_000_000) / most for s in seconds]
    assert [float(rate) for rate in asked] == [0.6] * 4 + [1.0] * 6
    assert [float(rate) for rate in able] == [1.2, 1.2, 0.3, 0.3, 1.2, 1.2, 0.3, 0.3, 1.2, 1.2]
    assert produced.changes() == (40_000_000,)
    assert consumed.changes() == tuple(s * 1_000_000 for s in (20, 40, 60, 80))


def test_a_buffer_of_the_experiment_is_small_beside_five_seconds() -> None:
    scenario = load_scenario(CONF / "experiment.yaml")
    options = scenario.options
    slow = Fraction(300)
    in_a_buffer = Fraction(options.segment_bytes, scenario.stage("producer").record_bytes)
    assert in_a_buffer < slow * 5 * Fraction(3, 100)
    # Both pools hold exclusive + floating buffers; what a latency carries is there before. They
    # fill at 600 - 300 records/s, before the first average that is to show it.
    held = 2 * (options.exclusive_buffers + options.floating_buffers) * in_a_buffer
    carried = Fraction(600 * scenario.cluster.network_latency_us, 1_000_000)
    assert (held - carried) / (600 - slow) < Fraction("4.5")


def test_flights_get_through_in_time() -> None:
    scenario = load_scenario(CONF / "flights.yaml")
    rounds = Fraction(scenario.duration_us, scenario.live_round_us)
    assert rounds <= 150
    source = scenario.stage("flights").input
    assert source is not None
    assert (source.format, source.key) == ("csv", "origin")
    assert scenario.edges[0].key == "origin"
    [rate, *_] = scenario.stage("archive").service_rate or ()
    jfk_and_lga = 111_279 + 104_662  # on one receiver, and 64 % of all
    assert jfk_and_lga / rate.phases[0].rate < scenario.duration_s - 3
    output = scenario.stage("archive").output
    assert output is not None
    assert output.path == "output/archive"


def test_skew_slows_one_of_four_to_a_tenth() -> None:
    scenario = load_scenario(CONF / "skew.yaml")
    schedules = scenario.stage("workers").service_rate or ()
    rates = [schedule.rate_at(30_000_000) for schedule in schedules]
    assert rates == [400, 400, 400, 40]
    assert all(before != after for before, after in pairwise(schedules[3].changes()))
