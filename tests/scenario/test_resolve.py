from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest
from pydantic import ValidationError

from flowcontrol.errors import ScenarioError
from flowcontrol.scenario import Schedule, parse_scenario
from flowcontrol.scenario.models import Cluster
from flowcontrol.scenario.options import NetworkOptions
from flowcontrol.scenario.stage_models import Output, Stall
from flowcontrol.scenario.system import SystemSpec


def test_defaults(changed: Any) -> None:
    scenario = parse_scenario(changed())
    assert (scenario.name, scenario.duration_s, scenario.seed) == ("small", 10.0, 1)
    assert (scenario.round_ms, scenario.sample_interval_s) == (None, 1.0)
    assert scenario.system == SystemSpec(transport="credit", throttle="none")
    assert scenario.cluster == Cluster(
        task_managers=2, slots=None, network_latency_ms=0.0, bandwidth_bytes_per_s=None
    )
    assert scenario.cluster.serialization_bytes_per_s == 250_000_000
    assert scenario.options == NetworkOptions()
    sink = scenario.stage("sink")
    assert (sink.record_bytes, sink.selectivity, sink.selectivity_exact) == (200, 1.0, 1)
    assert (sink.emit_rate, sink.input, sink.output, sink.stalls) == (None, None, None, ())
    edge = scenario.edges[0]
    assert (edge.name, edge.folder) == ("source->sink", "source-sink")
    assert (edge.chain, edge.partition_type) == (False, "pipelined_bounded")


@pytest.mark.parametrize(
    "key",
    [
        *(f"cluster/{key}" for key in ("slots", "bandwidth_bytes_per_s", "disk_bytes_per_s")),
        *(f"stages/1/{key}" for key in ("service_rate", "selectivity", "placement", "output")),
        *(f"stages/0/{key}" for key in ("input", "service_time_cv")),
        *(f"edges/0/{key}" for key in ("key", "key_weights", "channel_weights")),
        "round_ms",
    ],
)
def test_null_is_the_default(changed: Any, key: str) -> None:
    bare = changed((key, "<remove it>")) if key == "stages/1/service_rate" else changed()
    assert parse_scenario(changed((key, None))) == parse_scenario(bare)


def test_null_is_what_follows_from_other_keys(changed: Any) -> None:
    bare = changed(("edges/0/partitioner", "<remove it>"), ("stages/0/record_bytes", 1024))
    nulls = [("edges/0/partitioner", None), ("stages/0/record_bytes", None)]
    assert parse_scenario(changed(*nulls)) == parse_scenario(bare)


def test_times_are_exact_microseconds(changed: Any) -> None:
    scenario = parse_scenario(
        changed(
            ("duration_s", 0.1),
            ("round_ms", 0.3),
            ("sample_interval_s", 1.000001),
            ("cluster/network_latency_ms", 0.007),
        )
    )
    assert scenario.duration_us == 100_000
    assert scenario.live_round_us == 300
    assert scenario.sample_interval_us == 1_000_001
    assert scenario.cluster.network_latency_us == 7
    assert parse_scenario(changed()).live_round_us == 500_000


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        (7, [[(0, 7)]] * 3),
        (0, [[(0, 0)]] * 3),
        (0.1, [[(0, Fraction(1, 10))]] * 3),
        ([{"at_s": 0, "rate": 2}, {"at_s": 0.5, "rate": 0.3}], [[(0, 2), (500_000, "3/10")]] * 3),
        ([1, 2, 3], [[(0, 1)], [(0, 2)], [(0, 3)]]),
        (
            [1, [{"at_s": 0, "rate": 2}, {"at_s": 9, "rate": 0}], 3],
            [[(0, 1)], [(0, 2), (9_000_000, 0)], [(0, 3)]],
        ),
    ],
)
def test_rates_are_expanded_to_a_schedule_each(changed: Any, written: Any, meant: Any) -> None:
    scenario = parse_scenario(changed(("stages/1/service_rate", written)))
    schedules = scenario.stage("sink").service_rate
    assert schedules is not None
    found = [[(phase.at_us, phase.rate) for phase in each.phases] for each in schedules]
    assert found == [[(at, Fraction(rate)) for at, rate in each] for each in meant]
    assert scenario.stage("source").emit_rate == (Schedule.constant(100),) * 2
    assert scenario.stage("source").service_rate is None


@pytest.mark.parametrize(
    ("managers", "placed"),
    [
        (1, [(0, 0), (0, 0, 0)]),
        (2, [(0, 1), (0, 1, 0)]),
        (3, [(0, 1), (2, 0, 1)]),
        (9, [(0, 1), (2, 3, 4)]),
    ],
)
def test_subtasks_are_placed_one_after_the_other(
    changed: Any, managers: int, placed: list[tuple[int, ...]]
) -> None:
    scenario = parse_scenario(changed(("cluster/task_managers", managers)))
    assert [stage.placement for stage in scenario.stages] == placed


def test_stated_placements_do_not_move_the_others(changed: Any) -> None:
    scenario = parse_scenario(changed(("cluster/task_managers", 3), ("stages/0/placement", [2, 2])))
    assert [stage.placement for stage in scenario.stages] == [(2, 2), (2, 0, 1)]


@pytest.mark.parametrize(("slots", "fits"), [(None, True), (1, False), (2, True), (3, True)])
def test_slots_hold_one_subtask_of_each_stage(changed: Any, slots: Any, fits: bool) -> None:
    mapping = changed(("cluster/slots", slots))  # two of the sink's three on task manager 0
    if fits:
        assert parse_scenario(mapping).cluster.slots == slots
    else:
        with pytest.raises(ScenarioError, match="has 1 slots"):
            parse_scenario(mapping)


@pytest.mark.parametrize(
    ("parallelism", "partitioner"), [(2, "forward"), (1, "rebalance"), (3, "rebalance")]
)
def test_an_edge_without_partitioner_is_flinks(
    changed: Any, parallelism: int, partitioner: str
) -> None:
    mapping = changed(("stages/1/parallelism", parallelism), ("edges/0/partitioner", None))
    assert parse_scenario(mapping).edges[0].partitioner == partitioner


@pytest.mark.parametrize("partitioner", ["rebalance", "rescale", "shuffle", "broadcast", "global"])
def test_partitioners_without_parameters(changed: Any, partitioner: str) -> None:
    edge = parse_scenario(changed(("edges/0/partitioner", partitioner))).edges[0]
    assert edge.partitioner == partitioner
    assert (edge.key_weights, edge.channel_weights, edge.key) == (None, None, None)


def test_weights_are_exact(changed: Any) -> None:
    keys = changed(("edges/0/partitioner", "hash"), ("edges/0/key_weights", {"a": 0.1, "b": 2}))
    assert parse_scenario(keys).edges[0].key_weights == {"a": Fraction(1, 10), "b": Fraction(2)}
    for partitioner in ("hash", "custom"):
        shares = changed(
            ("edges/0/partitioner", partitioner), ("edges/0/channel_weights", [0.7, 0, 0.3])
        )
        edge = parse_scenario(shares).edges[0]
        assert edge.channel_weights == (Fraction(7, 10), Fraction(0), Fraction(3, 10))


def test_selectivity_is_exact() -> None:
    stages = [{"name": "a", "emit_rate": 1}, {"name": "b", "selectivity": 0.1}, {"name": "c"}]
    edges = [{"from": "a", "to": "b"}, {"from": "b", "to": "c"}]
    mapping = {"schema": 1, "name": "s", "duration_s": 1, "stages": stages, "edges": edges}
    stage = parse_scenario(mapping).stage("b")
    assert stage.selectivity_exact == Fraction(1, 10)
    assert stage.selectivity == 0.1


def test_an_output_lies_in_the_runs_folder(changed: Any) -> None:
    default = parse_scenario(changed(("stages/1/output", {"format": "delta"})))
    assert default.stage("sink").output == Output(format="delta", path="output/sink")
    named = {"format": "delta", "path": "tables/flights"}
    stated = parse_scenario(changed(("stages/1/output", named)))
    assert stated.stage("sink").output == Output(format="delta", path="tables/flights")


@pytest.mark.parametrize("path", ["output/b", "output/b/inner", "output"])
def test_two_outputs_lie_apart(path: str) -> None:
    output = {"format": "delta"}
    mapping = {
        "schema": 1,
        "name": "two",
        "duration_s": 1,
        "stages": [
            {"name": "a", "emit_rate": 1},
            {"name": "b", "output": output},
            {"name": "c", "output": {**output, "path": path}},
        ],
        "edges": [{"from": "a", "to": "b"}, {"from": "a", "to": "c"}],
    }
    with pytest.raises(ScenarioError) as caught:
        parse_scenario(mapping)
    [problem] = caught.value.problems
    assert problem.place == "stages[2].output.path"
    assert "output of 'b' (output/b)" in problem.message


def test_stalls_are_read(changed: Any) -> None:
    stalls = [{"at_s": 1.5, "for_s": 2}, {"at_s": 3, "for_s": 1, "subtasks": [1]}]
    scenario = parse_scenario(changed(("stages/1/stalls", stalls)))
    assert scenario.stage("sink").stalls == (
        Stall(at_s=1.5, for_s=2, subtasks=(0, 1, 2)),
        Stall(at_s=3, for_s=1, subtasks=(1,)),
    )


@pytest.mark.parametrize("index", [0, 1])
@pytest.mark.parametrize("kind", ["constant", "exponential", "lognormal"])
def test_times_of_sources_and_servers_vary(changed: Any, index: int, kind: str) -> None:
    stage = parse_scenario(changed((f"stages/{index}/service_time", kind))).stages[index]
    assert (stage.service_time, stage.service_time_cv) == (kind, 1.0)


@pytest.mark.parametrize("cv", [1e-6, 0.3, 1, 1000])
def test_a_coefficient_of_variation(changed: Any, cv: float) -> None:
    given = changed(("stages/0/service_time", "lognormal"), ("stages/0/service_time_cv", cv))
    assert parse_scenario(given).stage("source").service_time_cv == cv


def test_a_scenario_is_frozen(changed: Any) -> None:
    scenario = parse_scenario(changed())
    with pytest.raises(ValidationError, match="frozen"):
        scenario.seed = 2  # type: ignore[misc]
    with pytest.raises(ValidationError, match="frozen"):
        scenario.stages[0].record_bytes = 2  # type: ignore[misc]


# Limits first: the last value that is taken and the first that is not, for every number.
BOUNDS = [
    ("duration_s", [1e-6, 1, 10**9], [0, 10**9 + 1]),
    ("round_ms", [1e-3, 1, 10**9], [0, 10**9 + 1]),
    ("sample_interval_s", [1e-6, 1], [0, -1e-6]),
    ("seed", [0, 1, 2**63 - 1], [-1, 2**63]),
    ("cluster/task_managers", [1, 2, 32_768], [0, 32_769]),
    ("cluster/slots", [2, 32_768], [0, 32_769]),
    ("cluster/network_latency_ms", [0, 1e-3], [-1e-3, 1e-4]),
    ("cluster/bandwidth_bytes_per_s", [1e-3, 1, 10**15], [0, -1, 10**15 + 1]),
    ("cluster/serialization_bytes_per_s", [1e-3, 1, 10**15], [0, -1, 10**15 + 1]),
    ("stages/0/emit_rate", [0, 0.001, 10**12], [-0.001, 10**12 + 1]),
    ("stages/1/service_rate", [0, 0.001, 10**12], [-0.001, 10**12 + 1]),
    ("stages/1/parallelism", [1, 2.0, 32_768], [0, -1, 1.5, 32_769]),
    ("stages/1/record_bytes", [1, 2, 2**31 - 1], [0, -1, 2**31]),
    ("stages/1/selectivity", [1], [0, -1]),
    ("options/taskmanager.memory.segment-size", [4096, 8192, "32mb"], [4095, 4097, 2048, "3kb"]),
]


@pytest.mark.parametrize(
    ("path", "value"), [(path, value) for path, good, _ in BOUNDS for value in good]
)
def test_within_limits(changed: Any, path: str, value: Any) -> None:
    assert parse_scenario(changed((path, value))).name == "small"


@pytest.mark.parametrize(
    ("path", "value"),
    [(path, value) for path, _, bad in BOUNDS for value in [*bad, float("nan"), float("-inf")]],
)
def test_beyond_limits(changed: Any, path: str, value: Any) -> None:
    with pytest.raises(ScenarioError) as caught:
        parse_scenario(changed((path, value)))
    assert len(caught.value.problems) == 1
    assert repr(value) in str(caught.value)
