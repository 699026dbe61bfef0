"""Real runs with skewed keys: the subtask that limits is named, and no busy neighbour."""

from __future__ import annotations

import pyarrow as pa
import pytest

from flowcontrol.analysis import find_bottleneck
from flowcontrol.scenario import Scenario, parse_scenario
from flowcontrol.virtual import simulate

SHARES = (0.2, 0.243, 0.1, 0.057, 0.3, 0.1)
"""Subtask 4 is full at 66,667 records/s; subtask 1 is then busy for 81 % of the time."""


def run(
    offered: float, system: str = "flink", shares: tuple[float, ...] = SHARES
) -> tuple[dict[str, pa.Table], Scenario]:
    """Simulate source, window and sink: the tables and the scenario."""
    scenario = parse_scenario(
        {
            "schema": 1,
            "name": "skew",
            "duration_s": 4,
            "sample_interval_s": 0.2,
            "system": system,
            "stages": [
                {"name": "source", "emit_rate": offered, "record_bytes": 100},
                {"name": "window", "parallelism": len(shares), "service_rate": 20_000},
                {"name": "sink"},
            ],
            "edges": [
                {
                    "from": "source",
                    "to": "window",
                    "partitioner": "hash",
                    "channel_weights": list(shares),
                },
                {"from": "window", "to": "sink", "partitioner": "rebalance"},
            ],
            "options": {"taskmanager.memory.segment-size": "4kb"},
        }
    )
    return simulate(scenario).tables, scenario


@pytest.mark.parametrize("system", ["flink", "pulsar", "storm-2"])
def test_only_the_overloaded_subtask_is_named(system: str) -> None:
    tables, scenario = run(80_000, system)
    stages = tables["stages"].to_pandas()
    later = stages[(stages["stage"] == "window") & (stages["t_s"] > 2)]
    means = later.groupby("subtask")[["busy_ms_per_s", "in_pool_usage"]].mean()
    assert means["busy_ms_per_s"][1] > 800  # the hard case: a neighbour that is busy, too
    assert means["busy_ms_per_s"][4] > 995
    if system == "flink":
        assert means["in_pool_usage"][1] < 0.2
        assert means["in_pool_usage"][4] > 0.9
    found = find_bottleneck(tables, scenario)
    assert (found.stage, found.subtasks) == ("window", (4,))
    assert "subtask 4 of window" in found.sentence
    assert "spread the keys more evenly" in " ".join([found.sentence, *found.details])


def test_two_overloaded_subtasks_whose_queues_both_grow_are_both_named() -> None:
    """Nothing stops the source, and each of them falls behind at a pace of its own."""
    shares = (0.4, 0.3, 0.1, 0.1, 0.1)
    found = find_bottleneck(*run(70_000, "unbounded", shares))
    assert (found.stage, found.subtasks) == ("window", (0, 1))


def test_equal_subtasks_are_the_stage() -> None:
    found = find_bottleneck(*run(150_000, shares=(0.25,) * 4))
    assert (found.stage, found.subtasks) == ("window", ())
    assert "give window more parallelism or speed" in found.sentence


def test_in_a_chain_what_waits_stands_before_its_first_stage() -> None:
    scenario = parse_scenario(
        {
            "schema": 1,
            "name": "chained",
            "duration_s": 4,
            "sample_interval_s": 0.2,
            "stages": [
                {"name": "source", "emit_rate": 80_000, "record_bytes": 100},
                {"name": "parse", "parallelism": len(SHARES)},
                {"name": "window", "parallelism": len(SHARES), "service_rate": 20_000},
            ],
            "edges": [
                {
                    "from": "source",
                    "to": "parse",
                    "partitioner": "hash",
                    "channel_weights": list(SHARES),
                },
                {"from": "parse", "to": "window", "partitioner": "forward", "chain": True},
            ],
            "options": {"taskmanager.memory.segment-size": "4kb"},
        }
    )
    found = find_bottleneck(simulate(scenario).tables, scenario)
    assert found.subtasks == (4,)
