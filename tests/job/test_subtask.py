"""One subtask round by round: in which order it takes, what it makes of what, where it ends."""

from __future__ import annotations

from collections.abc import Iterator
from types import ModuleType
from typing import Any

import pytest

from flowcontrol.layout.job import Job
from flowcontrol.layout.replay import Replayed
from flowcontrol.live.moves import works_of
from flowcontrol.live.stage_rows import SubtaskRound
from flowcontrol.trace.round_state import RoundState
from staged_runs import staged

ONE_BUFFER, FOUR_TO_A_BUFFER = 4096, 1024


def a_map(
    jobs: ModuleType, counts: list[int], record_bytes: int, gates: int = 1, **stage: Any
) -> tuple[Job, Replayed]:
    """A map behind sources with so many records each, a subtask or a stage each."""
    senders = len(counts) // gates
    source = {"emit_rate": 1000, "parallelism": senders, "record_bytes": record_bytes}
    stages = [{"name": f"source{i}", "placement": [0] * senders, **source} for i in range(gates)]
    stages += [{"name": "map", "placement": [1], **stage}, jobs.sink(None, placement=[2])]
    edges = [(f"source{i}", "map", "rebalance") for i in range(gates)]
    edges.append(("map", "sink", "forward"))
    made: Job = jobs.job(stages, edges, cluster={"task_managers": 3})
    limits = {(f"source{i // senders}", i % senders): count for i, count in enumerate(counts)}
    return made, Replayed(limits=limits)


def followed(
    made: Job, replayed: Replayed | None = None, stage: str = "map"
) -> Iterator[tuple[SubtaskRound, RoundState]]:
    """What the first subtask of a stage does in each round, and the state behind it."""
    own, number = staged(made, replayed), [plan.name for plan in made.stages].index(stage)
    for _ in range(made.rounds):
        state = own.run()
        replica, _ = own._stages[number]
        yield works_of(replica, made.stages[number], own.published)[0], state


def takes(laid_out: tuple[Job, Replayed], rounds: int) -> list[list[tuple[int, int, int]]]:
    """Gate, channel and records of what a map takes up, by round from the second on."""
    found = [
        [(take.gate, take.channel, take.records) for take in work.takes]
        for work, _ in zip((work for work, _ in followed(*laid_out)), range(rounds), strict=False)
    ]
    return found[1:]


# ---------------------------------------------------------------- order


def test_channels_are_read_in_turn_a_buffer_each(jobs: ModuleType) -> None:
    made = a_map(jobs, [2, 1, 2], ONE_BUFFER)
    assert takes(made, 3) == [[(0, 0, 1), (0, 1, 1), (0, 2, 1), (0, 0, 1), (0, 2, 1)], []]


def test_gates_are_read_in_turn_as_well(jobs: ModuleType) -> None:
    made = a_map(jobs, [2, 2], ONE_BUFFER, gates=2)
    assert takes(made, 2) == [[(0, 0, 1), (1, 0, 1), (0, 0, 1), (1, 0, 1)]]


def test_the_turn_is_kept_from_round_to_round(jobs: ModuleType) -> None:
    """Three of a buffer of four are read; the rest comes first in the next round."""
    made = a_map(jobs, [4, 4], FOUR_TO_A_BUFFER, service_rate=30)
    assert takes(made, 5) == [[(0, 0, 3)], [(0, 0, 1), (0, 1, 2)], [(0, 1, 2)], []]


def test_a_buffer_without_the_end_of_a_record_is_passed_over(jobs: ModuleType) -> None:
    works = followed(*a_map(jobs, [1], 2 * ONE_BUFFER))
    [_, (work, state)] = [next(works), next(works)]
    assert [take.records for take in work.takes] == [1]
    assert state.task("map").gates[0].channels[0].state.consumed == 2


def test_a_task_without_capacity_leaves_everything(jobs: ModuleType) -> None:
    for _, state in followed(*a_map(jobs, [1], 2 * ONE_BUFFER, service_rate=0)):
        assert state.task("map").state.taken == 0
        assert state.task("map").gates[0].channels[0].state.consumed == 0


# ---------------------------------------------------------------- what it yields

# Output n is made when the records taken up times the selectivity reach n + 1.
YIELDS = [
    (1, 3, [0, 1, 2]),
    (2, 2, [0, 0, 1, 1]),
    (1.5, 3, [0, 1, 1, 2]),
    (0.5, 5, [1, 3]),
    (0.3, 10, [3, 6, 9]),
    (0, 4, []),
]


@pytest.mark.parametrize(("selectivity", "records", "parents"), YIELDS)
def test_which_record_an_output_is_made_of(
    jobs: ModuleType, selectivity: float, records: int, parents: list[int]
) -> None:
    """Also if it takes one up in each round: what is left over is kept."""
    for rate in (None, 10):
        made = a_map(jobs, [records], 100, selectivity=selectivity, service_rate=rate)
        works = [work for work, _ in followed(*made)]
        found = [work.first + one for work in works for one in work.edges[0].parents.tolist()]
        assert found == parents
        assert {route for work in works for route in work.edges[0].routes.tolist()} <= {0}
        assert works[-1].taken == records


def test_every_edge_gets_every_output(jobs: ModuleType) -> None:
    stages = [
        jobs.source(30, placement=[0]),
        {"name": "a", "placement": [1]},
        {"name": "b", "placement": [1, 1], "parallelism": 2},
    ]
    made = jobs.job(stages, [("source", "a", "forward"), ("source", "b", "rebalance")])
    work, _ = next(followed(made, stage="source"))
    assert [edge.routes.tolist() for edge in work.edges] == [[0, 0, 0], [0, 1, 0]]
    assert [edge.parents.tolist() for edge in work.edges] == [[0, 1, 2], [0, 1, 2]]
    assert (list(work.takes), work.first, work.records) == ([], 0, 3)


# ---------------------------------------------------------------- replayed rows


@pytest.mark.parametrize(("rate", "taken"), [(25, [2, 3, 1, 0]), (100, [6, 0, 0, 0])])
def test_a_replaying_source_keeps_its_rate_and_ends(
    jobs: ModuleType, rate: float, taken: list[int]
) -> None:
    made = jobs.job([jobs.source(rate), jobs.sink(None)], [("source", "sink", "forward")])
    works = followed(made, Replayed(limits={("source", 0): 6}), "source")
    assert [next(works)[0].records for _ in range(4)] == taken
    assert next(works)[1].task("source").idle_us == 100_000
