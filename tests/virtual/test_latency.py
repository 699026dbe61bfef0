"""Latencies of whole jobs against what an event-by-event calculation gives."""

from __future__ import annotations

import math
from itertools import pairwise, product
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


def exact_ms(rate: int, service_rate: int, nbytes: int, segment: int, hop_ms: float) -> float:
    """Mean latency, ms, of a source and a sink, record by record; credit is always there.

    A buffer leaves when the first byte of the next one is written (reference section 2.5), and
    takes ``hop_ms``; the sink takes records up in their order, each for the same time.
    """
    records, free_ms, total_ms = 4_000, 0.0, 0.0
    for number in range(1, records + 1):
        buffers = -(-nbytes * number // segment)
        leaves = buffers * segment // nbytes + 1
        begins_ms = max(free_ms, leaves * 1000 / rate + hop_ms)
        free_ms = begins_ms + 1000 / service_rate
        total_ms += begins_ms - number * 1000 / rate
    return total_ms / records


# Exclusive buffers, latency of the network and length of a round, ms: credit lasts. Two buffers a
# round trip are too few for a hop of 1 ms, as in a real job, and for rounds of more than 0.25 ms.
CREDIT_LASTS = [*product([8], [0.1, 1], [0.1, 0.25, 0.5, 1]), *product([2], [0.1], [0.1, 0.25])]


@pytest.mark.parametrize("rate", [2_000, 6_000, 10_000])
@pytest.mark.parametrize(("exclusive", "latency_ms", "round_ms"), CREDIT_LASTS)
def test_a_round_is_charged_once_with_small_segments(
    rate: int, latency_ms: float, round_ms: float, exclusive: int
) -> None:
    """Four records a buffer. A hop takes whole rounds; all else is no more than half of one."""
    stages = [
        {"name": "source", "emit_rate": rate, "record_bytes": 1017},
        {"name": "sink", "service_rate": 20_000},
    ]
    found = mean_ms(
        stages,
        duration_s=3,
        round_ms=round_ms,
        cluster={"task_managers": 2, "network_latency_ms": latency_ms},
        options={
            "taskmanager.memory.segment-size": "4kb",
            NETMEM + "buffers-per-channel": exclusive,
        },
    )
    hop_ms = math.ceil(latency_ms / round_ms - 1e-9) * round_ms
    assert abs(found - exact_ms(rate, 20_000, 1017, 4096, hop_ms)) <= round_ms / 2
