"""Where a task's time goes, when the flusher sends, and what stops a task: by hand."""

from __future__ import annotations

import json
from collections.abc import Iterable
from types import ModuleType
from typing import Any

import pytest

from flowcontrol.layout.physical_graph import build_physical_graph
from flowcontrol.layout.work import emission_cost_ns, flush_phase_us
from flowcontrol.scenario import parse_scenario
from modules import load

jobs = load("tests/job/small_jobs.py")

Times = tuple[int, int, int]


def states(rounds: Iterable[Any], edge: str, side: str) -> list[dict[str, Any]]:
    """State of the first task of a side of an edge, round by round."""
    return [json.loads(batch.rows[edge][side][0]["task_state"]) for batch in rounds]


def times(rounds: Iterable[Any], edge: str, side: str) -> list[Times]:
    """Per cent of the round (100 ms) that the task was busy, idle and back-pressured."""
    found = []
    for state in states(rounds, edge, side):
        assert sum(state["times_us"]) == 100_000
        busy, idle, backpressured = (us // 1000 for us in state["times_us"])
        found.append((busy, idle, backpressured))
    return found


BUSY, IDLE, BLOCKED = (100, 0, 0), (0, 100, 0), (0, 0, 100)

# The job worked out by hand in test_reference.py: emitted of 5 due, taken up of 2 that it can.
EMITTED = [5, 2, 0, 5, 0, 2, 0, 4, 1, 2, 2, 2]
TAKEN = [0, 2, 0, 2, 2, 2, 1, 2, 2, 2, 2, 2]


def test_a_source_is_idle_but_for_what_it_emits_and_could_not_emit() -> None:
    """A record takes its thread 1 ms; what it could not emit is its share of what fell due."""
    stages = [jobs.source(50, record_bytes=4096), jobs.sink(20)]
    options = {jobs.FLOATING: 3, jobs.OVERDRAFT: 0}
    edges, cluster = [("source", "sink", "forward")], {"serialization_bytes_per_s": 4_096_000}
    made = jobs.job(stages, edges, options, duration_s=1.2, cluster=cluster)
    rounds = jobs.run(made)
    assert [b.rows["source->sink"]["sender"][0]["rows"] for b in rounds] == EMITTED
    assert [b.rows["source->sink"]["receiver"][0]["rows"] for b in rounds] == TAKEN
    expected = [(emitted, 19 * emitted, 20 * (5 - emitted)) for emitted in EMITTED]
    assert times(rounds, "source->sink", "sender") == expected
    expected = [(50 * taken, 100 - 50 * taken, 0) for taken in TAKEN]
    assert times(rounds, "source->sink", "receiver") == expected


def test_a_source_has_no_more_time_than_it_is_not_blocked() -> None:
    """Its cost limits nothing: it emits what it may, and is busy for all the time it has."""
    stages = [jobs.source(50, record_bytes=4096), jobs.sink(20)]
    options = {jobs.FLOATING: 3, jobs.OVERDRAFT: 0}
    edges, cluster = [("source", "sink", "forward")], {"serialization_bytes_per_s": 1e-3}
    rounds = jobs.run(jobs.job(stages, edges, options, duration_s=1.2, cluster=cluster))
    assert [b.rows["source->sink"]["sender"][0]["rows"] for b in rounds] == EMITTED
    expected = [(20 * emitted, 0, 20 * (5 - emitted)) for emitted in EMITTED]
    assert times(rounds, "source->sink", "sender") == expected


COSTS = [
    # edges, bytes a second -> nanoseconds an emission of 1,017 bytes
    ("by default", 1, None, 4_068),
    ("on each edge", 2, None, 8_136),
    ("at another rate", 1, 2e9, 508),  # rounded down
    ("in next to no time", 2, 1e15, 0),
    ("at most a round of 100 ms", 1, 1, 100_000_000),
]


@pytest.mark.parametrize(("edges", "rate", "expected"), [c[1:] for c in COSTS],
                         ids=[c[0] for c in COSTS])  # fmt: skip
def test_what_an_emission_costs(edges: int, rate: float | None, expected: int) -> None:
    sinks = [{**jobs.sink(10), "name": f"sink{n}"} for n in range(edges)]
    stages = [jobs.source(10, record_bytes=1017), *sinks]
    cluster = {} if rate is None else {"serialization_bytes_per_s": rate}
    links = [("source", sink["name"], "forward") for sink in sinks]
    made = jobs.job(stages, links, cluster=cluster)
    costs = {plan.name: emission_cost_ns(made, plan) for plan in made.stages}
    assert costs.pop("source") == expected
    assert set(costs.values()) == {0}


def test_in_a_chain_an_emission_costs_what_leaves_the_task() -> None:
    """Half of the records, at the size that the chained stage makes them."""
    stages = [
        {**jobs.source(10), "record_bytes": 400},
        {"name": "half", "selectivity": 0.5, "record_bytes": 1000},
        jobs.sink(10),
    ]
    edges = [{"from": "source", "to": "half", "chain": True}, {"from": "half", "to": "sink"}]
    made = build_physical_graph(parse_scenario({**jobs.BASE, "stages": stages, "edges": edges}))
    assert [emission_cost_ns(made, plan) for plan in made.stages] == [2_000, 0]


def three(jobs: ModuleType, emit: Any, serve: Any, drain: Any, **stage: Any) -> list[Any]:
    """Run source, map and sink; records are a buffer each; a long look at the map's end."""
    stages = [
        jobs.source(emit, record_bytes=4096),
        {"name": "map", "record_bytes": 4096, "service_rate": serve, **stage},
        jobs.sink(drain),
    ]
    if serve is None:
        del stages[1]["service_rate"]
    return jobs.run(jobs.job(stages, [("source", "map", "forward"), ("map", "sink", "forward")]))


MAPS = [
    # emitted, its rate, the sink's rate -> the map in the end
    ("keeps up", 10, 20, None, (50, 50, 0)),
    ("is the bottleneck", 20, 10, None, (100, 0, 0)),
    ("is blocked for nine tenths", 100, 100, 10, (10, 0, 90)),
    ("has no rate and nothing to wait for", 10, None, None, (0, 100, 0)),
    ("is stopped, with input", 10, [{"at_s": 0, "rate": 20}, {"at_s": 2, "rate": 0}], None, BUSY),
    ("is stopped, without input", 0, 0, None, IDLE),
    ("starves", 0, 10, None, IDLE),
]


@pytest.mark.parametrize(("emit", "serve", "drain", "expected"), [m[1:] for m in MAPS],
                         ids=[m[0] for m in MAPS])  # fmt: skip
def test_a_map_in_the_end(emit: Any, serve: Any, drain: Any, expected: Times) -> None:
    found = times(three(jobs, emit, serve, drain), "map->sink", "sender")
    assert set(found[-5:]) == {expected}


def test_a_map_without_a_rate_is_blocked_for_what_it_could_not_take() -> None:
    """It works in no time: the share of what waits is back-pressure, the rest idle."""
    rounds = three(jobs, 100, None, 10)
    found = times(rounds, "map->sink", "sender")
    # In the end 1 of the 9 buffers that stand before it is taken in a round.
    assert {row["rows"] for b in rounds[-5:] for row in b.rows["source->map"]["receiver"]} == {1}
    assert set(found[-5:]) == {(0, 11, 88)}
    assert all(busy == 0 for busy, _, _ in found)


def test_less_than_a_record_a_round_keeps_a_task_busy_all_the_time() -> None:
    """5 records/s of 100 ms rounds: every second round may take one."""
    stages = [jobs.source(50), jobs.sink(5)]
    rounds = jobs.run(jobs.job(stages, [("source", "sink", "forward")]))
    taken = [b.rows["source->sink"]["receiver"][0]["rows"] for b in rounds]
    assert taken[-6:] == [0, 1, 0, 1, 0, 1]
    assert set(times(rounds, "source->sink", "receiver")[1:]) == {BUSY}


def test_a_source_that_may_not_emit_is_idle_unless_it_is_blocked() -> None:
    stop = [{"at_s": 0, "rate": 100}, {"at_s": 2, "rate": 0}]
    stages = [
        jobs.source(stop, record_bytes=4096),
        jobs.sink([{"at_s": 0, "rate": 0}, {"at_s": 3, "rate": 500}]),
    ]
    rounds = jobs.run(jobs.job(stages, [("source", "sink", "forward")]))
    found = times(rounds, "source->sink", "sender")
    assert set(found[10:30]) == {BLOCKED}
    assert set(found[-5:]) == {IDLE}


def test_a_rate_of_nothing_at_all() -> None:
    stages = [jobs.source(0), jobs.sink(10)]
    rounds = jobs.run(jobs.job(stages, [("source", "sink", "forward")]))
    assert set(times(rounds, "source->sink", "sender")) == {IDLE}
    assert set(times(rounds, "source->sink", "receiver")) == {IDLE}


# ---------------------------------------------------------------- the flusher

# A record a round of 100 ms, never enough to fill a buffer: the rounds in which it is sent, and
# how many records go.
FLUSHED = [
    (-1, {}),
    (0, dict.fromkeys(range(10), 1)),
    ("50ms", dict.fromkeys(range(10), 1)),
    ("100ms", dict.fromkeys(range(10), 1)),
    ("200ms", dict.fromkeys(range(1, 10, 2), 2)),
    ("250ms", {2: 3, 4: 2, 7: 3, 9: 2}),  # at 250, 500, 750 and 1,000 ms
    ("999ms", {9: 10}),
    ("1s", {9: 10}),
    ("1001ms", {}),
]


@pytest.mark.parametrize(("interval", "expected"), FLUSHED, ids=[str(f[0]) for f in FLUSHED])
def test_an_open_buffer_waits_for_the_flusher(
    interval: Any, expected: dict[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a flusher that started with the run; its phase is drawn otherwise."""
    monkeypatch.setattr("flowcontrol.memory.links.flush_phase_us", lambda *_: 0)
    stages = [jobs.source(10, record_bytes=1), jobs.sink(None)]
    made = jobs.job(stages, [("source", "sink", "forward")], {jobs.FLUSH: interval}, duration_s=1)
    sent = {}
    for batch in jobs.run(made):
        [row] = batch.rows["source->sink"]["sender"]
        for message in json.loads(row["channel_state"])["messages"]:
            sent[batch.number] = sent.get(batch.number, 0) + message["records"]
    assert sent == expected


def paused(rate: float) -> list[dict[str, float]]:
    """A rate for one round; the source has not ended, for it goes on after the run."""
    return [{"at_s": at_s, "rate": now} for at_s, now in ((0, rate), (0.1, 0), (1000, rate))]


def test_a_flush_finds_nothing_twice() -> None:
    """What was sent is not sent again; a buffer without news takes no credit."""
    stages = [jobs.source(paused(10)), jobs.sink(None)]
    rounds = jobs.run(jobs.job(stages, [("source", "sink", "forward")]))
    last = rounds[-1].rows["source->sink"]["sender"][0]
    assert (last["sent"], last["released"], last["backlog"]) == (1, 1, 0)
    assert last["pool_used"] == 1


def test_a_full_last_buffer_is_withheld_without_a_flusher() -> None:
    """Reference 2.5: noticed when the next one is added, which never comes."""
    stages = [jobs.source(paused(30), record_bytes=4096), jobs.sink(None)]
    made = jobs.job(stages, [("source", "sink", "forward")], {jobs.FLUSH: -1})
    last = jobs.run(made)[-1].rows["source->sink"]["sender"][0]
    assert (last["written"], last["sent"], last["backlog"], last["pool_used"]) == (3, 2, 0, 1)


@pytest.mark.parametrize(("interval", "backlog"), [("100ms", 1), (-1, 0)])
def test_an_open_buffer_counts_once_it_is_flushed(interval: Any, backlog: int) -> None:
    """Flushed but without credit: a message that waits. Not flushed: none."""
    stages = [jobs.source(10, record_bytes=1), jobs.sink(0)]
    made = jobs.job(stages, [("source", "sink", "forward")], {jobs.FLUSH: interval})
    row = jobs.run(made)[-1].rows["source->sink"]["sender"][0]
    sent = 10 * backlog  # all exclusive and floating buffers hold a record each
    figures = (row["sent"], row["released"], row["backlog"], row["pool_used"])
    assert figures == (sent, sent + backlog, backlog, 1)


# One exclusive and one floating buffer, a sender's pool of two, a sink that takes nothing. Worked
# out from reference section 2.5; released, sent, backlog, and buffers that the sender queues.
UNSEEN = {
    # A record is a buffer, one a round. It is full when it is written, and is seen to be when the
    # next one is.
    (4096, -1): [
        (1, 0, 0, 1),
        (2, 1, 0, 1),  # sends the first on its initial credit
        (3, 1, 1, 2),  # no credit: the second is in the backlog, the third is not
        (3, 2, 0, 1),  # blocked when the round began; has heard of the floating buffer
        (4, 2, 1, 2),
        (4, 2, 1, 2),
    ],
    # Half a buffer a round: an open one is neither released nor in the backlog.
    (2048, -1): [
        (0, 0, 0, 1),
        (1, 0, 0, 1),
        (1, 1, 0, 1),
        (2, 1, 0, 1),
        (2, 2, 0, 1),  # the floating buffer came for the first message
        (3, 2, 0, 1),
        (3, 2, 1, 2),
        (3, 2, 1, 2),  # blocked
    ],
    # A flush at the end of each round: the last buffer counts, full or open.
    (4096, "100ms"): [(1, 1, 0, 0), (2, 1, 1, 1), (3, 2, 1, 1), (4, 2, 2, 2), (4, 2, 2, 2)],
    (2048, "100ms"): [(1, 1, 0, 1), (2, 1, 1, 1), (3, 2, 1, 1), (3, 2, 1, 1), (4, 2, 2, 2)],
}


@pytest.mark.parametrize(("record_bytes", "interval"), UNSEEN)
def test_the_backlog_is_what_flink_announces(record_bytes: int, interval: Any) -> None:
    expected = UNSEEN[record_bytes, interval]
    options = {jobs.EXCLUSIVE: 1, jobs.FLOATING: 1, jobs.OVERDRAFT: 0, jobs.FLUSH: interval}
    stages = [jobs.source(10, record_bytes=record_bytes), jobs.sink(0)]
    made = jobs.job(stages, [("source", "sink", "forward")], options, duration_s=len(expected) / 10)
    rows = [batch.rows["source->sink"]["sender"][0] for batch in jobs.run(made)]
    queued = [json.loads(row["channel_state"])["channel"]["buffers"] for row in rows]
    names = ("released", "sent", "backlog")
    found = [(*(row[n] for n in names), count) for row, count in zip(rows, queued, strict=True)]
    assert found == expected
    assert [row["written"] for row in rows] == [row["released"] for row in rows]


# ---------------------------------------------------------------- what stops a task


def blocked_inside(jobs: ModuleType, overdraft: int) -> tuple[dict[str, Any], dict[str, Any]]:
    """A record of three buffers in a pool of two, nothing ever taken: row and state at the end."""
    stages = [jobs.source(10, record_bytes=3 * 4096), jobs.sink(0)]
    options = {jobs.EXCLUSIVE: 1, jobs.FLOATING: 1, jobs.OVERDRAFT: overdraft, jobs.FLUSH: -1}
    rounds = jobs.run(jobs.job(stages, [("source", "sink", "forward")], options, duration_s=1))
    row = rounds[0].rows["source->sink"]["sender"][0]
    return row, states(rounds[:1], "source->sink", "sender")[0]["partitions"][0]


def test_overdraft_finishes_the_record_that_was_begun() -> None:
    row, state = blocked_inside(jobs, overdraft=1)
    assert (row["pool_size"], row["rows"], row["written"]) == (2, 1, 3)
    assert row["sent"] == 1
    assert (state["pending"], state["left_bytes"]) == ([], 0)


def test_without_overdraft_a_task_blocks_inside_the_record() -> None:
    row, state = blocked_inside(jobs, overdraft=0)
    assert (row["pool_size"], row["rows"], row["written"]) == (2, 1, 2)
    assert (state["pending"], state["left_bytes"]) == ([0], 4096)


# A record of five buffers a round, a pool of two with two of overdraft, one exclusive and one
# floating buffer, no flusher. Worked out from reference sections 2.5, 4.2 and 4.4; written, sent,
# buffers of the pool in use, bytes of the record that are left.
SPANNING = [
    (4, 1, 3, 4096),  # two of the pool, two of overdraft; sends the first on its initial credit
    (4, 1, 3, 4096),  # overdraft would serve the fifth, but the task waits for the pool
    (4, 3, 1, 4096),  # sends two: the first goes to the global pool, the second is free
    (5, 3, 2, 0),  # the last one; nothing is free, so no further record
    (5, 4, 1, 0),
    (8, 4, 4, 8192),  # the free one, two of overdraft
]


def test_overdraft_is_requested_buffer_by_buffer() -> None:
    stages = [jobs.source(10, record_bytes=5 * 4096), jobs.sink(None)]
    options = {jobs.EXCLUSIVE: 1, jobs.FLOATING: 1, jobs.OVERDRAFT: 2, jobs.FLUSH: -1}
    made = jobs.job(stages, [("source", "sink", "forward")], options, duration_s=0.6)
    rounds = jobs.run(made)
    left = [
        state["partitions"][0]["left_bytes"] for state in states(rounds, "source->sink", "sender")
    ]
    rows = [batch.rows["source->sink"]["sender"][0] for batch in rounds]
    names = ("written", "sent", "pool_used")
    found = [(*(row[n] for n in names), b) for row, b in zip(rows, left, strict=True)]
    assert found == SPANNING


def test_a_record_larger_than_every_buffer_gets_through() -> None:
    """Ten buffers a record through a window of two and a pool of two."""
    stages = [jobs.source(1, record_bytes=10 * 4096), jobs.sink(None)]
    options = {jobs.EXCLUSIVE: 1, jobs.FLOATING: 1, jobs.OVERDRAFT: 0}
    made = jobs.job(stages, [("source", "sink", "forward")], options, duration_s=10)
    rounds = jobs.run(made)
    taken = [b.rows["source->sink"]["receiver"][0]["rows"] for b in rounds]
    assert sum(taken) >= 3
    assert max(row["pool_used"] for b in rounds for row in b.rows["source->sink"]["sender"]) == 2


@pytest.mark.parametrize(("quota", "most"), [(2, 2), (3, 3), (10, 6)])
def test_one_channel_at_its_quota_stops_the_whole_task(quota: int, most: int) -> None:
    """The first of two receivers takes nothing; the other gets no more than came before."""
    stages = [
        jobs.source(100, record_bytes=4096, placement=[0]),
        jobs.sink([0, 1000], parallelism=2, placement=[1, 1]),
    ]
    options = {jobs.QUOTA: quota, jobs.FLOATING: 2}
    made = jobs.job(stages, [("source", "sink", "rebalance")], options)
    assert made.sizes.partitions["source->sink", 0].size == 6
    last = jobs.run(made)[-1].rows["source->sink"]
    assert [row["backlog"] for row in last["sender"]] == [most, 0]
    assert sum(row["rows"] for row in last["sender"]) == 0


def test_each_flusher_has_a_phase_of_its_own_from_the_seed() -> None:
    """One thread an output edge and subtask, started at some moment: never all at once."""
    stages = [jobs.source(10, parallelism=3), jobs.sink(None)]
    edges = [("source", "sink", "rebalance")]
    seen = {}
    for seed in (1, 2):
        made = jobs.job(stages, edges, {jobs.FLUSH: "100ms"}, seed=seed)
        seen[seed] = [flush_phase_us(made, made.links[0], sender) for sender in range(3)]
    assert all(0 <= phase < 100_000 for phases in seen.values() for phase in phases)
    assert len({phase for phases in seen.values() for phase in phases}) == 6
