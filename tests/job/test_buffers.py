"""Sizes of gates and partitions, by hand, and jobs that need more buffers than there are."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import pytest

from flowcontrol.errors import ScenarioError
from flowcontrol.layout.buffers import GateSize, PartitionSize
from flowcontrol.layout.physical_graph import build_physical_graph
from flowcontrol.scenario import parse_scenario
from modules import load

jobs = load("tests/job/small_jobs.py")

EDGE = "source->sink"


def sizes(jobs: ModuleType, options: Any, managers: int = 2, **keys: Any) -> tuple[Any, Any]:
    """Sizes of the partition and the gate of one channel, remote unless told."""
    stages = [jobs.source(10, placement=[0]), jobs.sink(10, placement=[managers - 1])]
    cluster = {"task_managers": managers}
    made = jobs.job(stages, [("source", "sink", "forward")], options, cluster=cluster, **keys)
    return made.sizes.partitions[EDGE, 0], made.sizes.gates[EDGE, 0]


# One channel: the partition takes 2 to 10, the gate 2 exclusive and 1 to 8 floating.
@pytest.mark.parametrize(
    ("buffers", "partition", "gate"),
    [
        (2048, (10, 5), (8, 2)),
        (15, (10, 5), (8, 2)),
        (14, (10, 4), (8, 2)),
        (11, (10, 1), (8, 2)),
        (10, (10, 0), (8, 2)),
        (9, (9, 0), (7, 2)),
        (4, (4, 0), (2, 2)),
        (3, (3, 0), (1, 2)),
    ],
)
def test_a_remote_channel_gets_what_is_there(
    buffers: int, partition: tuple[int, int], gate: tuple[int, int]
) -> None:
    found = sizes(jobs, {jobs.BUFFERS: buffers})
    assert found == (PartitionSize(*partition), GateSize(*gate))


# Both ends on one task manager: no exclusive buffers are taken. Excess = buffers - 3 is shared
# out by capacity (8 and 7, each at most the excess), running sums rounded down (section 5.1).
@pytest.mark.parametrize(
    ("buffers", "partition", "gate"),
    [
        (3, (2, 0), (1, 2)),
        (4, (2, 0), (2, 2)),  # 1 x 1/2 = 0, then 1
        (10, (5, 0), (5, 2)),  # 7 x 7/14 = 3, then 4
        (11, (6, 0), (5, 2)),  # 8 x 8/15 = 4, then 4
        (18, (10, 0), (8, 2)),
        (21, (10, 3), (8, 2)),
    ],
)
def test_a_local_channel_shares_one_task_manager(
    buffers: int, partition: tuple[int, int], gate: tuple[int, int]
) -> None:
    found = sizes(jobs, {jobs.BUFFERS: buffers}, managers=1)
    assert found == (PartitionSize(*partition), GateSize(*gate))


# required = min(channels x exclusive + 1, threshold); of it as many exclusive as fit beside 1.
@pytest.mark.parametrize(
    ("threshold", "gate"), [(1000, (8, 2)), (5, (8, 2)), (4, (10, 1)), (3, (10, 1))]
)
def test_a_threshold_turns_exclusive_into_floating(threshold: int, gate: tuple[int, int]) -> None:
    stages = [jobs.source(10, parallelism=2, placement=[0, 0]), jobs.sink(10, placement=[1])]
    options = {jobs.THRESHOLD: threshold}
    made = jobs.job(stages, [("source", "sink", "rebalance")], options)
    assert made.sizes.gates[EDGE, 0] == GateSize(*gate)


@pytest.mark.parametrize(("threshold", "floating"), [(2, 12), (1, 12)])
def test_a_threshold_may_leave_no_exclusive_buffer(threshold: int, floating: int) -> None:
    """What the threshold takes from two channels, the floating pool may hold: 2 x 2 + 8."""
    stages = [jobs.source(10, parallelism=2, placement=[0, 0]), jobs.sink(10, placement=[1])]
    options = {jobs.THRESHOLD: threshold}
    made = jobs.job(stages, [("source", "sink", "rebalance")], options)
    assert made.sizes.gates[EDGE, 0] == GateSize(floating, 0)


# One channel, no exclusive buffers: the partition takes 2 to max(2, floating), the gate 1 to
# floating (sections 6.1 and 6.2).
@pytest.mark.parametrize(
    ("buffers", "floating", "partition", "gate"),
    [(2048, 8, (8, 5), 8), (2048, 1, (2, 5), 1), (6, 8, (6, 0), 6), (2, 8, (2, 0), 2)],
)
def test_sizes_without_exclusive_buffers(
    buffers: int, floating: int, partition: tuple[int, int], gate: int
) -> None:
    options = {jobs.EXCLUSIVE: 0, jobs.FLOATING: floating, jobs.BUFFERS: buffers}
    assert sizes(jobs, options) == (PartitionSize(*partition), GateSize(gate, 0))


def test_a_threshold_is_no_matter_to_local_channels() -> None:
    stages = [jobs.source(10, placement=[0]), jobs.sink(10, placement=[0])]
    made = jobs.job(stages, [("source", "sink", "forward")], {jobs.THRESHOLD: 1})
    assert made.sizes.gates[EDGE, 0] == GateSize(10, 0)


def test_overdraft_is_set_aside_in_order_of_creation() -> None:
    """Two partitions of 10 on one task manager with 27 buffers: 5, then the 2 that are left."""
    stages = [jobs.source(10, parallelism=2, placement=[0, 0]), jobs.sink(10, placement=[1])]
    made = jobs.job(stages, [("source", "sink", "rebalance")], {jobs.BUFFERS: 27})
    found = [made.sizes.partitions[EDGE, i] for i in (0, 1)]
    assert found == [PartitionSize(10, 5), PartitionSize(10, 2)]


def test_partitions_come_before_gates_and_stages_in_order() -> None:
    """A map whose 11 buffers go to its partition's minimum, its gate's, and 2 exclusive."""
    stages = [
        jobs.source(10, placement=[0]),
        {"name": "map", "placement": [1]},
        jobs.sink(10, placement=[0]),
    ]
    edges = [("source", "map", "forward"), ("map", "sink", "forward")]
    made = jobs.job(stages, edges, {jobs.BUFFERS: 11})
    # Task manager 1: 11 - 2 exclusive - 3 required = 6 of excess, capacity 6 each: 3 and 3.
    assert made.sizes.partitions["map->sink", 0] == PartitionSize(5, 0)
    assert made.sizes.gates["source->map", 0] == GateSize(4, 2)


# ---------------------------------------------------------------- too few

TOO_FEW = [
    # buffers, who, which manager, required, available
    (1, "source subtask 0, task manager 0", 2, 1),
    (2, "sink subtask 0, task manager 1", 2, 1),
]


@pytest.mark.parametrize(("buffers", "who", "required", "available"), TOO_FEW)
def test_too_few_buffers_are_refused_in_flinks_words(
    buffers: int, who: str, required: int, available: int
) -> None:
    with pytest.raises(ScenarioError) as refused:
        sizes(jobs, {jobs.BUFFERS: buffers})
    [problem] = refused.value.problems
    assert who in problem.place
    assert problem.message.startswith(
        f"Insufficient number of network buffers: required {required}, but only {available} "
        f"available. The total number of network buffers is currently set to {buffers} of 4096 "
        "bytes each."
    )
    assert "taskmanager.memory.network.fraction" in problem.message


# Three senders on task manager 0, a sink on 1, nothing else there. The gate's floating pool takes
# 1, then the channels ask for their exclusive buffers, one after the other (section 5.2).
CHANNEL_BY_CHANNEL = [
    # buffers, exclusive; required and available of the request that fails
    (6, 2, 2, 1),  # 1 + 2 + 2, then 1 is left
    (5, 2, 2, 0),
    (4, 2, 2, 1),  # 1 + 2, the second channel finds 1
    (12, 5, 5, 1),
    (10, 5, 5, 4),
    (6, 7, 7, 5),  # the first channel
    (3, 1, 1, 0),  # 1 + 1 + 1
]


@pytest.mark.parametrize(("buffers", "each", "required", "available"), CHANNEL_BY_CHANNEL)
def test_each_channel_asks_for_its_own_exclusive_buffers(
    buffers: int, each: int, required: int, available: int
) -> None:
    stages = [jobs.source(10, parallelism=3, placement=[0, 2, 3]), jobs.sink(10, placement=[1])]
    options = {jobs.BUFFERS: buffers, jobs.EXCLUSIVE: each}
    cluster = {"task_managers": 4}
    with pytest.raises(ScenarioError) as refused:
        jobs.job(stages, [("source", "sink", "rebalance")], options, cluster=cluster)
    [problem] = refused.value.problems
    assert problem.place == "options (sink subtask 0, task manager 1)"
    assert problem.message.startswith(
        f"Insufficient number of network buffers: required {required}, but only {available} "
        f"available. The total number of network buffers is currently set to {buffers} of 4096 "
        "bytes each. You can increase this number by setting the configuration keys"
    )
    assert problem.message.endswith("raise that or leave it out.")
    enough = {**options, jobs.BUFFERS: 1 + 3 * each}
    made = jobs.job(stages, [("source", "sink", "rebalance")], enough, cluster=cluster)
    assert made.sizes.gates[EDGE, 0] == GateSize(1, each)


@pytest.mark.parametrize(
    ("key", "limit"),
    [("FLOATING", "at least 1"), ("QUOTA", "at least 1"), ("BUFFERS", "at least 1")],
)
def test_none_at_all_is_refused_as_a_problem_of_the_scenario(key: str, limit: str) -> None:
    option = getattr(jobs, key)
    with pytest.raises(ScenarioError) as refused:
        sizes(jobs, {option: 0})
    [problem] = refused.value.problems
    assert option in problem.place
    assert limit in problem.message


def test_the_default_memory_is_enough_for_a_wide_job() -> None:
    scenario = parse_scenario(
        {
            "schema": 1,
            "name": "wide",
            "duration_s": 1,
            "stages": [
                {"name": "source", "parallelism": 8, "emit_rate": 1},
                {"name": "sink", "parallelism": 8},
            ],
            "edges": [{"from": "source", "to": "sink", "partitioner": "rebalance"}],
        }
    )
    made = build_physical_graph(scenario)
    # Two task managers: each sender and receiver has 4 local channels and 4 remote ones.
    assert set(made.sizes.partitions.values()) == {PartitionSize(24, 5)}
    assert set(made.sizes.gates.values()) == {GateSize(8, 2)}
