"""An exchange whose connection is full is not blamed on its buffers."""

from __future__ import annotations

from typing import Any

import pytest

from flowcontrol.analysis import find_bottleneck
from flowcontrol.scenario import Scenario, parse_scenario
from flowcontrol.virtual import simulate


def scenario(bandwidth: float | None, *, latency_ms: float = 0, **sink: Any) -> Scenario:
    return parse_scenario(
        {
            "schema": 1,
            "name": "wire",
            "duration_s": 20,
            "round_ms": 10,
            "cluster": {
                "task_managers": 2,
                "bandwidth_bytes_per_s": bandwidth,
                "network_latency_ms": latency_ms,
            },
            "stages": [
                {"name": "source", "emit_rate": 1000, "record_bytes": 1000},
                {"name": "sink", "placement": [1], **sink},
            ],
            "edges": [{"from": "source", "to": "sink"}],
        }
    )


def sentence(made: Scenario) -> str:
    found = find_bottleneck(simulate(made, round_us=made.live_round_us).tables, made)
    return " ".join([found.sentence, *found.details])


def test_a_bandwidth_that_limits_is_named() -> None:
    found = sentence(scenario(100_000))
    assert "The connection from task manager 0 to 1 is full. It carried" in found
    assert "its bandwidth is 100,000: raise cluster.bandwidth_bytes_per_s" in found
    assert "buffers" not in found


@pytest.mark.parametrize("bandwidth", [None, 1e9])
def test_a_round_trip_that_limits_is_not_the_bandwidth(bandwidth: float | None) -> None:
    found = sentence(scenario(bandwidth, latency_ms=400))
    assert "Its buffers are too few for one round trip" in found
