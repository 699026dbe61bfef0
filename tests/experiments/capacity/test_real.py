"""The search on the virtual clock itself."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from flowcontrol.experiments.capacity import capacity
from flowcontrol.scenario import Scenario, parse_scenario

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
