"""One subtask, fed by hand: in which order it takes, what it yields, what it refuses."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flowcontrol.errors import ProtocolError
from flowcontrol.job import Incoming, Outgoing, Subtask
from flowcontrol.protocol.states import Message

PLENTY = Outgoing(1000, 1000)


def a_map(jobs: ModuleType, sources: int = 1, senders: int = 1, **stage: Any) -> Subtask:
    """A map with one gate a source and one channel a sender; everything remote."""
    stages = [
        {"name": f"source{i}", "emit_rate": 1, "parallelism": senders, "placement": [0] * senders}
        for i in range(sources)
    ]
    stages += [{"name": "map", "placement": [1], **stage}, jobs.sink(None, placement=[2])]
    edges = [(f"source{i}", "map", "rebalance") for i in range(sources)]
    edges.append(("map", "sink", "forward"))
    made = jobs.job(stages, edges, cluster={"task_managers": 3})
    return Subtask(made, made.stage("map"), 0)


def messages(*records: int, before: int = 0, backlog: int = 0) -> Incoming:
    return Incoming(before + len(records), [Message(records=n, backlog=backlog) for n in records])


# ---------------------------------------------------------------- order


def test_channels_are_read_in_turn_a_buffer_each(jobs: ModuleType) -> None:
    task = a_map(jobs, senders=3)
    work = task.step(0, [[messages(2, 1), messages(3), messages(1, 4)]], [[PLENTY]])
    assert work.takes == [(0, 0, 2), (0, 1, 3), (0, 2, 1), (0, 0, 1), (0, 2, 4)]
    assert (work.first, work.records) == (0, 11)
    assert task.taken == [[3, 3, 5]]


def test_gates_are_read_in_turn_as_well(jobs: ModuleType) -> None:
    task = a_map(jobs, sources=2)
    work = task.step(0, [[messages(1, 2)], [messages(3, 4)]], [[PLENTY]])
    assert work.takes == [(0, 0, 1), (1, 0, 3), (0, 0, 2), (1, 0, 4)]


def test_the_turn_is_kept_from_round_to_round(jobs: ModuleType) -> None:
    """Three of a buffer of five are read; the rest comes first in the next round."""
    task = a_map(jobs, senders=2, service_rate=30)
    assert task.step(0, [[messages(5), messages(5)]], [[PLENTY]]).takes == [(0, 0, 3)]
    rest = [[messages(before=1), messages(before=1)]]
    assert task.step(1, rest, [[PLENTY]]).takes == [(0, 0, 2), (0, 1, 1)]
    assert task.step(2, rest, [[PLENTY]]).takes == [(0, 1, 3)]
    assert [row.consumed for row in task.gates[0].channels] == [1, 0]
    work = task.step(3, rest, [[PLENTY]])
    assert (work.takes, work.first, work.records) == ([(0, 1, 1)], 9, 1)
    assert task.step(4, rest, [[PLENTY]]).takes == []


def test_a_buffer_without_the_end_of_a_record_is_passed_over(jobs: ModuleType) -> None:
    task = a_map(jobs)
    work = task.step(0, [[messages(0, 1)]], [[PLENTY]])
    assert work.takes == [(0, 0, 1)]
    assert task.gates[0].channels[0].consumed == 2


def test_a_task_without_capacity_leaves_everything(jobs: ModuleType) -> None:
    task = a_map(jobs, service_rate=0)
    assert task.step(0, [[messages(0, 1)]], [[PLENTY]]).records == 0
    assert task.gates[0].channels[0].consumed == 0


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
    task = a_map(jobs, selectivity=selectivity)
    work = task.step(0, [[messages(records)]], [[PLENTY]])
    assert [list(found) for found in work.parents] == [parents]
    assert [list(found) for found in work.routes] == [[0] * len(parents)]
    assert task.routed == [[len(parents)]]


@given(
    selectivity=st.sampled_from([0.3, 0.5, 1, 1.5, 2.7]),
    sizes=st.lists(st.integers(0, 6), min_size=1, max_size=8),
)
def test_remainders_are_kept_and_parents_lie_in_their_round(
    jobs: ModuleType, selectivity: float, sizes: list[int]
) -> None:
    task, total, made = a_map(jobs, selectivity=selectivity), 0, 0
    for number, size in enumerate(sizes):
        work = task.step(number, [[messages(size, before=number)]], [[PLENTY]])
        parents = work.parents[0]
        assert work.first == total
        total += size
        made += len(parents)
        assert made == int(total * round(selectivity * 10) // 10)
        assert all(0 <= parent < work.records for parent in parents)
        assert list(parents) == sorted(parents)


def test_every_edge_gets_every_output(jobs: ModuleType) -> None:
    stages = [
        jobs.source(30, placement=[0]),
        {"name": "a", "placement": [1]},
        {"name": "b", "placement": [1, 1], "parallelism": 2},
    ]
    made = jobs.job(stages, [("source", "a", "forward"), ("source", "b", "rebalance")])
    task = Subtask(made, made.stage("source"), 0)
    work = task.step(0, [], [[PLENTY], [PLENTY, PLENTY]])
    assert [list(route) for route in work.routes] == [[0, 0, 0], [0, 1, 0]]
    assert [list(parents) for parents in work.parents] == [[0, 1, 2], [0, 1, 2]]
    assert (work.takes, work.first, work.records) == ([], 0, 3)


# ---------------------------------------------------------------- replayed rows


def test_a_replaying_source_ends_with_its_rows(jobs: ModuleType) -> None:
    made = jobs.two_by_two()
    table = np.array([1, 1, 0, 1, 0, 0, 1])
    task = Subtask(made, made.stage("source"), 0, tables=[table], input_records=7)
    seen = [[PLENTY, PLENTY]]
    works = [task.step(number, [], seen) for number in range(3)]
    assert [work.records for work in works] == [7, 0, 0]
    assert list(works[0].routes[0]) == list(table)
    assert task.times_us == [0, 100_000, 0]


def test_a_replaying_source_keeps_its_rate(jobs: ModuleType) -> None:
    made = jobs.job([jobs.source(25), jobs.sink(None)], [("source", "sink", "forward")])
    task = Subtask(made, made.stage("source"), 0, tables=[np.zeros(6, int)], input_records=6)
    assert [task.step(n, [], [[PLENTY]]).records for n in range(4)] == [2, 3, 1, 0]


# ---------------------------------------------------------------- what it refuses


@pytest.mark.parametrize(
    ("incoming", "text"),
    [
        (messages(1, before=1), "1 messages came, sent is 2, arrived 0"),
        (Incoming(2, []), "0 messages came, sent is 2, arrived 0"),
        (Incoming(0, [Message(records=1)]), "1 messages came, sent is 0, arrived 0"),
        (messages(*[1] * 11), "11 messages came, sent is 11, arrived 10, announced 2"),
    ],
    ids=["a gap", "lost", "from nowhere", "without credit"],
)
def test_a_sender_that_breaks_the_protocol_is_named(
    jobs: ModuleType, incoming: Incoming, text: str
) -> None:
    """As in Flink the receiver sees it when the last of 2 exclusive and 8 floating is taken."""
    task = a_map(jobs)
    with pytest.raises(ProtocolError, match=text) as error:
        task.step(0, [[incoming]], [[PLENTY]])
    assert "source0->map 0->0" in str(error.value)


def test_what_the_receiver_has_buffers_for_is_no_matter_of_its_own(jobs: ModuleType) -> None:
    """Ten messages on two credits get in: only the audit sees that one side went too far."""
    task = a_map(jobs)
    task.step(0, [[messages(*[1] * 10)]], [[PLENTY]])
    assert task.gates[0].channels[0].arrived == 10
