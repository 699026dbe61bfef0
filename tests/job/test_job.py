"""A scenario laid out: channels, which of them are local, rounds, and the order of everything."""

from __future__ import annotations

from types import ModuleType

import pytest

from flowcontrol.layout.graph import Channel
from flowcontrol.layout.physical_graph import build_physical_graph


def channels(jobs: ModuleType, partitioner: str, senders: int, receivers: int) -> list[tuple]:
    stages = [jobs.source(10, parallelism=senders), jobs.sink(10, parallelism=receivers)]
    extra = {"channel_weights": [1] * receivers} if partitioner in {"custom", "hash"} else {}
    made = jobs.job(stages, [("source", "sink", partitioner, extra)])
    return [(c.sender, c.receiver) for c in made.links[0].channels]


ALL_TO_ALL = [(0, 0), (0, 1), (0, 2), (1, 0), (1, 1), (1, 2)]


@pytest.mark.parametrize("partitioner", ["rebalance", "shuffle", "hash", "custom", "global"])
def test_most_partitioners_link_all_to_all(jobs: ModuleType, partitioner: str) -> None:
    assert channels(jobs, partitioner, 2, 3) == ALL_TO_ALL


@pytest.mark.parametrize(
    ("partitioner", "senders", "receivers", "expected"),
    [
        ("forward", 2, 2, [(0, 0), (1, 1)]),
        ("rescale", 2, 4, [(0, 0), (0, 1), (1, 2), (1, 3)]),
        ("rescale", 4, 2, [(0, 0), (1, 0), (2, 1), (3, 1)]),
        ("rescale", 2, 3, [(0, 0), (0, 1), (1, 2)]),
        ("rescale", 3, 2, [(0, 0), (1, 1), (2, 1)]),
        # The second sender's first subpartition is read by receiver 4 (4 mod 2), as in Flink.
        ("rescale", 2, 5, [(0, 0), (0, 1), (0, 2), (1, 4), (1, 3)]),
    ],
)
def test_pointwise_partitioners_link_some(
    jobs: ModuleType, partitioner: str, senders: int, receivers: int, expected: list
) -> None:
    assert channels(jobs, partitioner, senders, receivers) == expected


def test_one_task_manager_makes_a_channel_local(jobs: ModuleType) -> None:
    stages = [
        jobs.source(10, parallelism=2, placement=[0, 1]),
        jobs.sink(10, parallelism=2, placement=[1, 0]),
    ]
    [link] = jobs.job(stages, [("source", "sink", "rebalance")]).links
    assert link.channels == (
        Channel(0, 0, False),
        Channel(0, 1, True),
        Channel(1, 0, True),
        Channel(1, 1, False),
    )
    assert [c.receiver for c in link.outgoing(1)] == [0, 1]
    assert [(c.sender, c.is_local) for c in link.incoming(0)] == [(0, False), (1, True)]
    assert link.outgoing(2) == ()


def test_stages_stand_in_topological_order_and_links_as_declared(jobs: ModuleType) -> None:
    stages = [
        {"name": "sink"},
        {"name": "map", "record_bytes": 7},
        {"name": "source", "emit_rate": 1, "record_bytes": 5},
    ]
    edges = [("map", "sink", "rebalance"), ("source", "map", "rebalance")]
    made = jobs.job(stages, edges)
    assert [plan.name for plan in made.stages] == ["source", "map", "sink"]
    assert [(link.name, link.folder) for link in made.links] == [
        ("map->sink", "map-sink"),
        ("source->map", "source-map"),
    ]
    assert [link.record_bytes for link in made.links] == [7, 5]
    ends = [(plan.is_source, not plan.outputs) for plan in made.stages]
    assert ends == [(True, False), (False, False), (False, True)]
    assert made.stage("map").inputs == made.stage("source").outputs
    with pytest.raises(KeyError):
        made.stage("nowhere")


@pytest.mark.parametrize(
    ("duration_s", "round_ms", "rounds"),
    [(1, 100, 10), (1, 300, 4), (0.9, 300, 3), (0.901, 300, 4), (0.001, 300, 1), (1, None, 2)],
)
def test_rounds_cover_the_whole_run(
    jobs: ModuleType, duration_s: float, round_ms: float | None, rounds: int
) -> None:
    stages = [jobs.source(1), jobs.sink(1)]
    edges = [("source", "sink", "forward")]
    made = jobs.job(stages, edges, duration_s=duration_s, round_ms=round_ms)
    assert made.rounds == rounds
    assert made.round_us == (500_000 if round_ms is None else round_ms * 1000)
    assert made.time_s(made.rounds) >= duration_s
    assert made.time_s(0) == 0


def test_a_clock_may_choose_its_round(jobs: ModuleType) -> None:
    made = build_physical_graph(jobs.single().scenario, round_us=1000)
    assert (made.round_us, made.rounds, made.time_s(1)) == (1000, 4000, 0.001)
