"""A subtask's state as rows: whose columns they fill, and that nothing of it is lost."""

from __future__ import annotations

import dataclasses
import json
from types import ModuleType
from typing import Any

import pytest

from flowcontrol.job import Incoming, Outgoing, Subtask
from flowcontrol.job.ledger_rows import receiver_rows, sender_rows
from flowcontrol.job.record_subtask import new_subtask
from flowcontrol.job.snapshot import incoming_of, outgoing_of, restore, task_state
from flowcontrol.protocol.rows import TAKEN_FLOATING
from flowcontrol.protocol.states import Message
from flowcontrol.records import LEDGER

SENDER = {
    "sender", "receiver", "written", "released", "sent", "credit", "backlog", "pool_used",
    "pool_size", "rows", "bytes", "channel_state", "task_state",
}  # fmt: skip
PLENTY = Outgoing(100, 0)

RECEIVER = {
    "sender", "receiver", "announced", "consumed", "exclusive", "floating_held", "pool_used",
    "pool_size", "rows", "bytes", "channel_state", "task_state",
}  # fmt: skip


def receiving(found: Subtask, gate: int, latency: Any = None) -> list[dict[str, Any]]:
    return receiver_rows(found.job, task_state(found, 0), gate, latency)


def sending(found: Subtask, partition: int) -> list[dict[str, Any]]:
    return sender_rows(found.job, task_state(found, 0), partition)


def task(jobs: ModuleType, stage: str = "map") -> Subtask:
    """A subtask of a job whose map has a local and a remote channel to its sink, a round old."""
    made = jobs.job(
        [
            jobs.source(100, placement=[0]),
            {"name": "map", "placement": [1], "service_rate": 40},
            jobs.sink(10, parallelism=2, placement=[1, 2]),
        ],
        [("source", "map", "forward"), ("map", "sink", "rebalance")],
        cluster={"task_managers": 3},
    )
    found = Subtask(made, made.stage(stage), 0)
    if stage == "map":
        seen = Incoming(
            3, [Message(records=3, backlog=2), Message(records=3, backlog=1), Message(records=3)]
        )
        found.step(0, [[seen]], [[Outgoing(0, 0), Outgoing(2, 0)]])
    return found


def test_a_side_fills_its_columns_and_no_others(jobs: ModuleType) -> None:
    found = task(jobs)
    assert {frozenset(row) for row in sending(found, 0)} == {frozenset(SENDER)}
    assert {frozenset(row) for row in receiving(found, 0)} == {frozenset(RECEIVER)}
    common = {"side", "batch_id", "committed_at"}
    assert SENDER | RECEIVER | common == set(LEDGER.names)


def test_the_receivers_figures(jobs: ModuleType) -> None:
    """Three messages of three records, backlogs 2, 1, 0; four of the records are read."""
    [row] = receiving(task(jobs), 0)
    # The first takes an exclusive buffer and asks for 2 + 2 free ones: 3 floating, 3 credits. The
    # others take floating ones and want less. When the first returns there are 3 free and 2
    # wanted: it pushes the last free floating one out, for no credit. The second is being read.
    assert (row["consumed"], row["exclusive"], row["floating_held"]) == (1, 2, 2)
    assert (row["announced"], row["pool_used"], row["pool_size"]) == (5, 2, 8)
    assert (row["rows"], row["bytes"]) == (4, 1600)
    [waiting] = json.loads(row["channel_state"])["queue"]
    assert (waiting["records"], waiting["buffer"]) == (3, TAKEN_FLOATING)


def test_the_senders_figures(jobs: ModuleType) -> None:
    """Four records of 400 bytes, two to each channel, flushed at the end of the round."""
    local, remote = sending(task(jobs), 0)
    for row in (local, remote):
        assert (row["written"], row["released"], row["sent"], row["backlog"]) == (1, 1, 1, 0)
        assert (row["rows"], row["bytes"], row["pool_used"]) == (2, 800, 2)
    assert (local["credit"], remote["credit"]) == (0, 1)
    assert json.loads(local["channel_state"])["local"] is True
    assert json.loads(remote["channel_state"])["local"] is False


def test_a_local_channel_announces_what_it_was_handed(jobs: ModuleType) -> None:
    made = jobs.local()
    found = Subtask(made, made.stage("sink"), 0)
    found.step(0, [[Incoming(2, [Message(records=30), Message(records=30)])]], [])
    [row] = receiving(found, 0)
    assert (row["announced"], row["consumed"]) == (2, 0)
    assert (row["exclusive"], row["floating_held"], row["pool_used"]) == (0, 0, 0)


def test_the_tasks_state_stands_in_its_first_row_only(jobs: ModuleType) -> None:
    rows = sending(task(jobs), 0)
    assert [row["task_state"] is None for row in rows] == [False, True]


def test_latencies_are_kept_where_they_are_given(jobs: ModuleType) -> None:
    found = task(jobs)
    assert "latency" not in json.loads(receiving(found, 0)[0]["task_state"])
    for latency in ([], [[1, 4], [2, 1]]):
        [row] = receiving(found, 0, latency)
        assert json.loads(row["task_state"])["latency"] == latency


def test_what_the_neighbours_read_off_a_row(jobs: ModuleType) -> None:
    found = task(jobs)
    _, remote = sending(found, 0)
    assert incoming_of(remote) == Incoming(1, [Message(records=2, nbytes=800)])
    [row] = receiving(found, 0)
    assert outgoing_of(row) == Outgoing(5, 1)


def rows_of(found: Subtask) -> tuple[list[Any], list[Any]]:
    return (
        [receiving(found, i) for i in range(len(found.gates))],
        [sending(found, i) for i in range(len(found.partitions))],
    )


def test_a_restored_task_goes_on_inside_an_output(jobs: ModuleType) -> None:
    """Its operator has put out more than could be written, and half a record is left over."""
    stages = [
        jobs.source(100, placement=[0], record_bytes=200),
        {"name": "map", "placement": [1], "selectivity": 1.5, "record_bytes": 24_000},
        jobs.sink(10, placement=[2]),
    ]
    edges = [("source", "map", "forward"), ("map", "sink", "forward")]
    made = jobs.job(stages, edges, cluster={"task_managers": 3})
    old = Subtask(made, made.stage("map"), 0)
    old.step(0, [[Incoming(1, [Message(records=9)])]], [[Outgoing(0, 0)]])
    assert old.task.is_pending == 1
    new = Subtask(made, made.stage("map"), 0)
    restore(new, *rows_of(old))
    assert [operator.records_out for operator in new.operators] == [old.task.taken * 3 // 2]
    for number in range(1, 20):
        seen = [[Incoming(1, [])]], [[Outgoing(5 * number, 0)]]
        works = [found.step(number, *seen) for found in (old, new)]
        assert works[0].takes == works[1].takes
        assert list(works[0].parents[0]) == list(works[1].parents[0])
        assert rows_of(old) == rows_of(new)
    assert new.task.taken == 9


def test_a_restored_subtask_is_in_the_same_state(jobs: ModuleType) -> None:
    """Whatever decides the next round; what was done in the last one is not part of it."""
    old = task(jobs)
    new = Subtask(old.job, old.plan, old.index)
    restore(new, *rows_of(old))
    assert [list(part.counts) for part in new.partitions] == [[1, 1]]
    for name in ("gates", "partitions"):
        for was, now in zip(getattr(old, name), getattr(new, name), strict=True):
            assert was.pool == now.pool
            assert was.segments == now.segments
    assert new.operators == old.operators
    state = dataclasses.asdict(old.task)
    assert dataclasses.asdict(new.task) == {**state, "busy": 0, "idle": 0, "blocked": 0, "due": 0}
    for name in ("pending", "emitted", "left_bytes"):
        was, now = ([getattr(out, name) for out in found.outputs] for found in (old, new))
        assert was == now
    assert [out.router.counts for out in new.outputs] == [[2, 2]]
    seen = [Incoming(4, [Message(records=7, backlog=3)])]
    again = [Outgoing(0, 1), Outgoing(3, 1)]
    works = [found.step(1, [seen], [again]) for found in (old, new)]
    assert works[0].takes == works[1].takes == [(0, 0, 4)]
    assert rows_of(old) == rows_of(new)


@pytest.mark.parametrize("stage", ["source", "sink"])
def test_a_source_and_a_sink_are_restored_too(jobs: ModuleType, stage: str) -> None:
    old = task(jobs, stage)
    old.step(
        0,
        [[Incoming(1, [Message(records=5)])]][: len(old.gates)],
        [[PLENTY]][: len(old.partitions)],
    )
    new = Subtask(old.job, old.plan, 0)
    restore(new, *rows_of(old))
    for found in (old, new):
        found.step(1, [[Incoming(1, [])]][: len(old.gates)], [[PLENTY]][: len(old.partitions)])
    assert rows_of(new) == rows_of(old)
    assert old.task.taken > 0


def test_a_throttled_source_is_restored_by_the_names_of_its_state(jobs: ModuleType) -> None:
    system = {"transport": "unbounded", "throttle": {"name": "pid_rate", "min_rate": 20}}
    made = jobs.job([jobs.source(100), jobs.sink(10)], [("source", "sink", "forward")],
                    system=system)  # fmt: skip
    old, new = (new_subtask(made, made.stage("source"), 0) for _ in range(2))
    old.source.gap_ns = 30_000_000  # four emissions a round
    old.step(0, [], [[PLENTY]])
    restore(new, *rows_of(old))
    assert new.source == old.source
    state = json.loads(sending(old, 0)[0]["task_state"])
    assert state["source"] == {
        "is_stopped": 0, "gap_ns": 30_000_000, "admitted": -1,
        "next_ns": 120_000_000, "waiting": 0, "offered": 0,
    }  # fmt: skip
    assert state["log"] == {"end": 10, "position": 4, "reading": 0}
    assert new.log == old.log


def test_what_a_receiver_remembers_of_a_channel_is_kept_by_name(jobs: ModuleType) -> None:
    system = {"transport": "blocking_queue"}
    made = jobs.job([jobs.source(100), jobs.sink(10)], [("source", "sink", "forward")],
                    system=system)  # fmt: skip
    old, new = (new_subtask(made, made.stage("sink"), 0) for _ in range(2))
    old.grants[0][0].held, old.grants[0][0].window = 3, 1000
    restore(new, *rows_of(old))
    assert new.grants == old.grants
    assert json.loads(receiving(old, 0)[0]["channel_state"])["grant"] == {
        "seen": 0, "held": 3, "window": 1000, "arrived": 0, "began": -1, "trip_ns": 0,
        "highest": 0, "samples": 0,
    }  # fmt: skip


def test_equal_states_are_equal_text(jobs: ModuleType) -> None:
    assert rows_of(task(jobs)) == rows_of(task(jobs))
    text = receiving(task(jobs), 0)[0]["channel_state"]
    assert json.dumps(json.loads(text), separators=(",", ":")) == text
