"""Checkpoints where only the virtual clock goes: latencies of several rounds, slow connections."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

import flowcontrol
from flowcontrol.memory import log_sizes
from flowcontrol.protocol.checkpoints.barriers import ACKNOWLEDGED, TAKEN
from flowcontrol.scenario import Scenario, parse_scenario
from flowcontrol.state.queues import (
    ALIGNED_BARRIER,
    CANCEL_MARKER,
    DATA,
    MOST_BARRIERS,
    SPANNING_DATA,
    UNALIGNED_BARRIER,
)
from flowcontrol.trace.channel_state import AddCredit, ResumeConsumption
from flowcontrol.virtual import simulate

CHECKPOINT = "execution.checkpointing."
NETMEM = "taskmanager.network.memory."


def scenario(options: dict[str, Any], placement: int = 1, width: int = 1, **keys: Any) -> Scenario:
    """A source of 100 records/s and a sink of 200, rounds of 100 ms, four of which a way takes."""
    both = {"record_bytes": 1000, "parallelism": width}
    stages = [
        {"name": "source", "emit_rate": 100, "placement": [0] * width, **both},
        {"name": "sink", "service_rate": 200, "placement": [placement] * width, **both},
    ]
    return parse_scenario(
        {
            "schema": 1,
            "name": "latency",
            "duration_s": 4,
            "round_ms": 100,
            "cluster": {"task_managers": 2, "network_latency_ms": 400},
            "options": {
                "taskmanager.memory.segment-size": "4kb",
                "execution.buffer-timeout.interval": "100ms",
                NETMEM + "buffers-per-channel": 50,
                CHECKPOINT + "interval": "1s",
                **options,
            },
            "stages": stages,
            "edges": [{"from": "source", "to": "sink", "partitioner": "rebalance"}],
            **keys,
        }
    )


def test_all_that_travels_takes_the_latency() -> None:
    """Triggered in 10; the source hears in 14, the sink in 18, the source again in 22."""
    states = list(flowcontrol.rounds(scenario({})))
    [barrier] = [
        one
        for one in states[14].channel("source->sink")[0].under_way
        if one.message.kind == ALIGNED_BARRIER
    ]
    assert (barrier.message.checkpoint, barrier.message.created) == (1, 1_000_000)
    assert barrier.arrives == 18
    for number in range(10, 26):
        out, into = states[number].channel("source->sink")
        assert out.state.is_blocked == (14 <= number < 22), number
        told = [one for one in into.under_way if isinstance(one, ResumeConsumption)]
        assert told == ([ResumeConsumption(1, 22)] if 18 <= number < 22 else []), number
        sent = [one for one in out.under_way if one.arrives == number + 4]
        kinds = {one.message.kind for one in sent}
        assert kinds <= (
            {ALIGNED_BARRIER, DATA, SPANNING_DATA} if number == 14 else {DATA, SPANNING_DATA}
        ), number
        assert not sent or not 14 < number < 22, number
    waits = states[12].task("source").checkpoints
    assert [(one.checkpoint, one.arrives) for one in waits.triggers] == [(1, 14)]
    told = states[18].channel("source->sink")[1].under_way
    assert any(isinstance(one, AddCredit) for one in told)


def test_the_tables_say_when_the_coordinator_heard() -> None:
    tables = simulate(scenario({})).tables
    first, *_ = tables["checkpoints"].to_pylist()
    assert (first["triggered_s"], first["ended_s"], first["e2e_ms"]) == (1.0, 2.2, 1200.0)
    assert (first["status"], first["acknowledged"], first["subtasks"]) == ("completed", 2, 2)
    rows = tables["checkpoint_tasks"].to_pylist()[:2]
    assert [(row["stage"], row["acknowledged_s"], row["start_delay_ms"]) for row in rows] == [
        ("source", 1.8, 400.0),
        ("sink", 2.2, 800.0),
    ]


def test_the_coordinator_is_behind_the_network_and_a_local_channel_is_not() -> None:
    """Heard in 14, read in 15: a local channel takes a round, the coordinator's messages four."""
    states = list(flowcontrol.rounds(scenario({}, placement=0)))
    for number in range(13, 19):
        out, _ = states[number].channel("source->sink")
        assert out.state.is_blocked == (14 <= number < 16), number
    taken, report = states[15].task("sink").checkpoints.reports
    assert (taken.kind, report.kind) == (TAKEN, ACKNOWLEDGED)
    assert (report.round, report.start_delay) == (15, 500_000)


@pytest.mark.parametrize("unaligned", [False, True])
def test_a_slow_connection_delays_a_barrier_by_what_is_before_it(unaligned: bool) -> None:
    """50,000 byte/s carry half of what is emitted: an aligned barrier waits, another one does not.

    It may still have to wait for the message on the wire, and for those under way.
    """
    options = {
        CHECKPOINT + "unaligned.enabled": unaligned,
        "execution.buffer-timeout.interval": "-1",
    }
    cluster = {"task_managers": 2, "network_latency_ms": 0, "bandwidth_bytes_per_s": 50_000}
    slow = scenario(options, cluster=cluster)
    found, under_way = simulate(slow).tables, set()
    for state in flowcontrol.rounds(slow):
        for sent in state.channel("source->sink")[0].under_way:
            under_way.add(sent.message.kind)
    assert (UNALIGNED_BARRIER in under_way) == unaligned
    source, sink = found["checkpoint_tasks"].to_pylist()[:2]
    delay = sink["start_delay_ms"] - source["start_delay_ms"]
    assert (source["persisted_bytes"] > 0) == unaligned
    assert delay < 500 if unaligned else delay > 500


def test_a_full_log_of_reports_begins_the_run_again(monkeypatch: pytest.MonkeyPatch) -> None:
    expected = simulate(scenario({})).tables
    monkeypatch.setattr(log_sizes, "_first_reports", lambda job: 1)
    sizes, grown = [], log_sizes.LogSizes.grown

    def noted(self: Any, *given: Any) -> Any:
        sizes.append(grown(self, *given))
        return sizes[-1]

    monkeypatch.setattr(log_sizes.LogSizes, "grown", noted)
    assert simulate(scenario({}, width=3)).tables
    assert [one.reports for one in sizes] == [8]
    for name, table in simulate(scenario({})).tables.items():
        assert table.equals(expected[name]), name


def test_all_that_a_task_puts_out_after_a_long_record_finds_room() -> None:
    """A record of 0.6 s, in which checkpoints expire: two markers of each at once.

    Flink puts one out in place of the barrier, and one for a marker that comes from another input.
    """
    receiver = {"parallelism": 2, "service_rate": 1.6, "record_bytes": 6000}
    slow = parse_scenario(
        {
            "schema": 1,
            "name": "long",
            "duration_s": 0.7,
            "round_ms": 7,
            "options": {
                "taskmanager.memory.segment-size": "4kb",
                NETMEM + "buffers-per-channel": 1,
                NETMEM + "floating-buffers-per-gate": 1,
                "execution.buffer-timeout.interval": "-1",
                CHECKPOINT + "interval": "28ms",
                CHECKPOINT + "timeout": "42ms",
                CHECKPOINT + "unaligned.enabled": True,
                CHECKPOINT + "aligned-checkpoint-timeout": "21ms",
                CHECKPOINT + "tolerable-failed-checkpoints": 1000,
            },
            "stages": [
                {"name": "source", "parallelism": 3, "emit_rate": 2143, "record_bytes": 293},
                {"name": "middle", **receiver},
                {"name": "sink", "service_rate": 100},
            ],
            "edges": [
                {"from": "source", "to": "middle", "partitioner": "rebalance"},
                {"from": "middle", "to": "sink", "partitioner": "rebalance"},
            ],
        }
    )
    most = 0
    for state in flowcontrol.rounds(slow):
        out, _ = state.channel("middle->sink")
        kinds = (one.message for one in out.under_way)
        markers = Counter(one.checkpoint for one in kinds if one.kind == CANCEL_MARKER)
        assert max(markers.values(), default=0) <= 2
        most = max(most, markers.total())
    assert most > MOST_BARRIERS + 4
