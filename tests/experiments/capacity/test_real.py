"""The search on the virtual clock itself."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from flowcontrol.experiments.capacity import capacity, describe
from flowcontrol.experiments.compare.limits import most_of_source
from flowcontrol.layout.physical_graph import build_physical_graph
from flowcontrol.scenario import Scenario, parse_scenario
from flowcontrol.scenario.given import as_scenario

Make = Callable[..., Scenario]


def test_a_slow_sink(make: Make) -> None:
    found = capacity(make(parallelism=2, record_bytes=1000), "source")
    assert float(found.total) == pytest.approx(3000, rel=0.01)
    assert found.above is not None
    assert found.above.emitted < float(found.above.rate) or found.above.growth.share > 0.005
    assert found.limit is not None
    assert found.limit.stage == "sink"


def test_a_sink_whose_times_are_random_and_much_room(make: Make) -> None:
    """590 records wait in the buffers: the queue is seldom empty at 99 % load."""
    scenario = make(1000, duration_s=60, service_time="exponential", record_bytes=1000)
    stages = tuple(
        stage.model_copy(update={"service_time": "exponential"}) for stage in scenario.stages
    )
    found = capacity(scenario.model_copy(update={"stages": stages}), "source", tolerance=0.05)
    assert float(found.rate) == pytest.approx(1000, rel=0.05)


def test_an_exchange_that_is_too_narrow() -> None:
    """3 buffers of credit a round trip of 2 rounds of 1 ms, a record a buffer: 1,500/s at most."""
    memory = "taskmanager.network.memory."
    scenario = parse_scenario(
        {
            "schema": 1,
            "name": "narrow",
            "duration_s": 10,
            "round_ms": 1,
            "options": {
                "taskmanager.memory.segment-size": "4kb",
                memory + "buffers-per-channel": 2,
                memory + "floating-buffers-per-gate": 1,
            },
            "stages": [
                {"name": "source", "emit_rate": 100, "record_bytes": 4096},
                {"name": "sink"},
            ],
            "edges": [{"from": "source", "to": "sink", "partitioner": "rebalance"}],
        }
    )
    found = capacity(scenario, "source")
    assert 1000 <= found.rate <= 1500
    assert found.limit is not None
    assert (found.limit.stage, found.limit.edge) == (None, "source->sink")
    assert found.force is None


@pytest.mark.parametrize("duration_s", [1, 10, 100])
@pytest.mark.parametrize("rate", [100, 10, 0])
def test_no_more_than_the_sink_can_take_however_short_the_run(rate: int, duration_s: float) -> None:
    """33 records of 1,000 bytes fit into a buffer, which is never full in a second."""
    found = capacity(short(rate, duration_s), "source", quiet=True)
    assert rate * (1 - found.error) <= found.rate <= rate
    assert found.error == 0.01
    text = describe(found)
    if rate:
        assert f"can sustain {rate} records/s per subtask" in text
        assert "within 0.01 of it" in text
        assert "do not show" not in text  # by less than 13 %, which would be no 0.01
        assert "The rate is what is behind source can do." in text
    else:
        assert "source can sustain no rate" in text


def test_what_limits_is_named_where_buffers_take_up_half_as_much_again() -> None:
    found = capacity(short(100, 10), "source", quiet=True)
    assert found.limit is not None
    assert (found.limit.stage, found.force) == ("sink", (100, 100))
    assert "At 1.5 times that rate: Bottleneck: sink" in describe(found)


def test_a_slow_phase_that_buffers_put_off_is_no_bound() -> None:
    """The mean of the judged half is 75/s, and what waits is taken up by its end."""
    slow = [{"at_s": 0, "rate": 100}, {"at_s": 12, "rate": 50}, {"at_s": 17, "rate": 100}]
    found = capacity(short(slow, 20, record_bytes=100), "source", quiet=True)
    assert 50 < found.rate <= 75


@pytest.mark.parametrize(
    ("changes", "most"),
    [
        ([], 200),  # two subtasks take 100 each
        (["stages.source.parallelism=4"], 50),
        (["edges=[{from: source, to: sink, partitioner: broadcast}]"], 100),
        (
            ["edges=[{from: source, to: sink, partitioner: custom, channel_weights: [3, 1]}]"],
            400 / 3,
        ),
        (["stages.sink.stalls=[{at_s: 6, for_s: 1}]"], 160),
        (["stages.sink.stalls=[{at_s: 2, for_s: 1}]"], 200),  # before what is judged
        (["cluster.bandwidth_bytes_per_s=50000", "stages.sink.placement=[1,1]"], 50),
        (["stages.sink.service_rate=null"], float("inf")),
        (["stages.source.arrival_rate=10"], 100),  # as fast as it reads
    ],
)
def test_the_bound_is_that_of_rates_shares_and_bandwidth(changes: list[str], most: float) -> None:
    mapping = {
        "schema": 1, "name": "bound", "duration_s": 10,
        "stages": [{"name": "source", "emit_rate": 100, "record_bytes": 1000},
                   {"name": "sink", "parallelism": 2, "service_rate": 100}],
        "edges": [{"from": "source", "to": "sink", "partitioner": "custom",
                   "channel_weights": [1, 1]}],
    }  # fmt: skip
    scenario = as_scenario(mapping, changes)
    found = most_of_source(build_physical_graph(scenario), "source", (5, 10))
    assert found == pytest.approx(most)


def test_what_still_grew_at_the_rate_counts_into_its_error(make: Make, fluid: Any) -> None:
    """A fifth of what is carried, as where no closed form says what the sink can take."""
    found = capacity(make(duration_s=20), "source", simulate=fluid())
    assert found.error == found.tolerance
    below = replace(found.below, growth=replace(found.below.growth, records=3000, carried=15_000))
    assert replace(found, below=below).error == pytest.approx(0.205)


def short(sink: Any, duration_s: float, **source: Any) -> Scenario:
    """100 records/s of 1,000 bytes."""
    return parse_scenario(
        {
            "schema": 1, "name": "short", "duration_s": duration_s,
            "stages": [{"name": "source", "emit_rate": 100, "record_bytes": 1000, **source},
                       {"name": "sink", "service_rate": sink}],
            "edges": [{"from": "source", "to": "sink", "partitioner": "forward"}],
        }
    )  # fmt: skip
