"""What a scenario's system means: presets with fixed options, chains, bounds, clocks."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest

from flowcontrol.errors import ScenarioError
from flowcontrol.scenario import Scenario, check_clock, parse_scenario
from flowcontrol.scenario.system import PRESETS, preset_system

EXCLUSIVE = "taskmanager.network.memory.buffers-per-channel"


def read(system: Any, stages: int = 2, **more: Any) -> Scenario:
    names = [f"s{i}" for i in range(stages)]
    drawn: list[dict[str, Any]] = [{"name": name} for name in names]
    drawn[0]["emit_rate"] = 10
    edges = [{"from": a, "to": b} for a, b in pairwise(names)]
    document = {"schema": 1, "name": "x", "duration_s": 1, "system": system}
    return parse_scenario({**document, "stages": drawn, "edges": edges, **more})


def test_flink_2_has_fixed_what_a_scenario_states() -> None:
    stated = {"options": {EXCLUSIVE: 16}}
    assert read("flink", **stated).options.exclusive_buffers == 16
    scenario = read("flink-2", **stated)
    assert scenario.options.exclusive_buffers == 2
    assert scenario.options.floating_buffers == 8
    assert scenario.options.max_buffers_per_channel == 10
    assert scenario.options.max_overdraft_buffers == 20
    assert parse_scenario(scenario.canonical()) == scenario


def test_chained_chains_every_edge() -> None:
    scenario = read({"transport": "chained"}, stages=3)
    assert [edge.chain for edge in scenario.edges] == [True, True]
    assert len({stage.placement for stage in scenario.stages}) == 1
    with pytest.raises(ScenarioError, match=r"edges\[0\].partitioner"):
        read({"transport": "chained"}, edges=[{"from": "s0", "to": "s1", "partitioner": "hash"}])


@pytest.mark.parametrize("name", PRESETS)
def test_a_preset_written_out_is_itself(name: str) -> None:
    scenario = read(name)
    assert scenario.system == preset_system(name)
    assert parse_scenario(scenario.canonical()) == scenario


@pytest.mark.parametrize(
    ("system", "is_bounded"),
    [
        ("flink", True),
        ("pulsar", True),
        ("unbounded", False),
        ("storm-1", False),
        ("storm-2", False),
        ("structured-streaming", False),
        ("kafka-streams", True),
        ({"transport": "unbounded", "throttle": {"name": "static_admission"}}, False),
        (
            {"transport": "unbounded", "throttle": {"name": "static_admission", "max_records": 1}},
            True,
        ),
    ],
)
def test_what_has_a_bound(system: Any, is_bounded: bool) -> None:
    assert read(system).system.is_bounded is is_bounded


@pytest.mark.parametrize(("depth", "refused"), [(1, 0), (12, 0), (13, 1)])
def test_the_live_clock_throttles_only_so_many_stages(depth: int, refused: int) -> None:
    problems = check_clock(read("storm-1", stages=depth + 1), "live")
    assert [problem.place for problem in problems] == ["system.throttle"] * refused
    assert check_clock(read("unbounded", stages=depth + 1), "live") == []
    assert check_clock(read("storm-1", stages=depth + 1), "virtual") == []


@pytest.mark.parametrize("system", ["flink-1.4", "pulsar"])
def test_the_live_clock_runs_other_transports(system: str) -> None:
    assert check_clock(read(system), "live") == []


def test_records_have_no_wire_of_a_bandwidth() -> None:
    cluster = {"cluster": {"bandwidth_bytes_per_s": 1e6}}
    [problem] = check_clock(read("pulsar", **cluster), "virtual")
    assert problem.place == "cluster.bandwidth_bytes_per_s"
    assert check_clock(read("flink", **cluster), "virtual") == []
