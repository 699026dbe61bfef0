"""Latencies of whole jobs against what an event-by-event calculation gives."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest

from flowcontrol.scenario import parse_scenario
from flowcontrol.virtual import simulate

NETMEM = "taskmanager.network.memory."


def mean_ms(stages: list[dict[str, Any]], **keys: Any) -> float:
    """Mean latency of a chain, ms."""
    names = [stage["name"] for stage in stages]
    scenario = {
        "schema": 1,
        "name": "latency",
        "sample_interval_s": keys["duration_s"],
        "stages": stages,
        "edges": [{"from": a, "to": b, "partitioner": "rebalance"} for a, b in pairwise(names)],
        **keys,
    }
    [row] = simulate(parse_scenario(scenario)).tables["latency"].to_pylist()
    return float(row["mean_ms"])


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("rate", [10, 20, 25])
@pytest.mark.parametrize("hops", [1, 2])
def test_records_at_the_flushers_beat_wait_half_an_interval(
    seed: int, rate: int, hops: int
) -> None:
    """A flusher of 100 ms a hop, hops of a round of 1 ms; buffers are never full."""
    stages = [{"name": f"s{i}", "record_bytes": 10} for i in range(hops + 1)]
    stages[0]["emit_rate"] = rate
    found = mean_ms(stages, seed=seed, duration_s=60, round_ms=1)
    assert found == pytest.approx(50 * hops + hops, rel=0.06)
