"""The table of pool usages: every reading, for remote and local inputs, and of a real run."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import pytest

from flowcontrol.analysis.causes import pool_readings
from flowcontrol.analysis.causes.pools import BUFFERS, ELSEWHERE, LOCAL, NETWORK, POOLS
from flowcontrol.scenario import parse_scenario
from flowcontrol.virtual import simulate

H, L = 0.9, 0.3
Usages = tuple[float, float, float, float]

TABLE: list[tuple[float, Usages, str, str]] = [
    # output pool before it; input, output, floating, exclusive; what they say
    (L, (L, L, L, L), "fine", "all channels flow"),
    (H, (L, L, L, L), "fine", NETWORK),
    (L, (L, H, L, L), POOLS[False, True, False], "all channels flow"),
    (H, (L, H, L, L), "blocked by what follows or by the network, for the moment", NETWORK),
    (L, (H, L, H, L), "pressure is building before it", "some channels will be held up soon"),
    (H, (H, L, H, L), POOLS[True, False, True], "some channels are held up: uneven ones"),
    (L, (H, H, H, H), "blocked from further down, or by the network", BUFFERS[True, True, False]),
    (H, (H, H, H, H), POOLS[True, True, True], "most channels are held up, or all"),
    (H, (H, L, 0.0, H), POOLS[True, False, True], "most channels are held up, or all"),
]  # fmt: skip


def reading(builder: ModuleType, before: float, usages: Usages, placement: list[int]) -> Any:
    stages: dict[str, Any] = {
        "source": {"placement": [0]}, "map": {"placement": placement}, "sink": {"placement": [0]}
    }  # fmt: skip
    scenario = builder.scenario("pools", stages, ["source->map", "map->sink"])
    names = ("in_pool_usage", "out_pool_usage", "floating_buffers_usage", "exclusive_buffers_usage")
    results = (
        builder.Results([1.0, 2.0])
        .stage("source", out_pool_usage=before)
        .stage("map", **dict(zip(names, usages, strict=True)))
        .stage("sink")
        .channel("source->map")
        .channel("map->sink")
    )
    found = pool_readings(results.tables(), scenario)
    assert [one.stage for one in found] == ["source", "map", "sink"]
    assert found[0].channels == ""
    return found[1]


@pytest.mark.parametrize(("before", "usages", "said", "channels"), TABLE)
def test_the_table(
    builder: ModuleType, before: float, usages: Usages, said: str, channels: str
) -> None:
    found = reading(builder, before, usages, [1])
    assert (found.reading, found.channels) == (said, channels)
    assert (found.into, found.out, found.floating, found.exclusive) == usages


def test_every_reading_is_in_the_table() -> None:
    assert {said for _, _, said, _ in TABLE} == set(POOLS.values())
    assert {channels for *_, channels in TABLE} == set(BUFFERS.values())


def test_local_inputs_have_no_buffers_of_their_own(builder: ModuleType) -> None:
    """Their usages are 0, which would read as the network."""
    found = reading(builder, H, (0.0, L, 0.0, 0.0), [0])
    assert (found.reading, found.channels) == (LOCAL, "")
    found = reading(builder, H, (0.0, H, 0.0, 0.0), [0])
    assert (found.reading, found.channels) == (POOLS[False, True, True], "")


@pytest.mark.usefixtures("whole_kernel")
def test_a_run_with_one_slow_subtask() -> None:
    """The others' empty buffers are not the network."""
    scenario = parse_scenario(
        {
            "schema": 1, "name": "slot", "duration_s": 4, "sample_interval_s": 0.2,
            "options": {"taskmanager.memory.segment-size": "4kb"},
            "stages": [
                {"name": "source", "emit_rate": 6000, "record_bytes": 100, "placement": [0]},
                {"name": "sink", "parallelism": 3, "placement": [1, 1, 1],
                 "service_rate": [4000, 700, 4000]},
            ],
            "edges": [{"from": "source", "to": "sink", "partitioner": "rebalance"}],
        }
    )  # fmt: skip
    found = pool_readings(simulate(scenario).tables, scenario)
    assert [one.channels for one in found if one.stage == "sink"] == [
        ELSEWHERE,
        "most channels are held up, or all",
        ELSEWHERE,
    ]


def test_records_are_counted_without_pools(builder: ModuleType) -> None:
    scenario = parse_scenario(
        {
            "schema": 1,
            "name": "storm",
            "duration_s": 1,
            "system": "storm-2",
            "stages": [{"name": "source", "emit_rate": 10}, {"name": "sink"}],
            "edges": [{"from": "source", "to": "sink", "partitioner": "rebalance"}],
        }
    )
    results = builder.Results([1.0]).stage("source").stage("sink").channel("source->sink")
    assert pool_readings(results.tables(), scenario) == []
