"""Stages that run in a memory each, linked by what they publish, do what one memory does.

The scenarios of ``conf`` have what acts on several tasks together: connections, processors,
coordinators, throttles, failures. Some stages begin anew now and then from what was published.
"""

from __future__ import annotations

from itertools import islice
from typing import Any

import pytest

from flowcontrol.layout.job import Job
from flowcontrol.layout.physical_graph import build_physical_graph
from flowcontrol.live.shares import ChannelShare
from flowcontrol.results.running import step
from flowcontrol.scenario import load_scenario
from modules import ROOT, load
from staged_runs import staged

clocks = load("tests/virtual/clocks.py")

DEBLOAT = "taskmanager.network.memory.buffer-debloat"
ALIGNED = {
    f"stages.{stage}.{key}": value
    for stage, rate in (("orders", 500), ("clicks", 2000))
    for key, value in {
        "emit_rate": [{"at_s": 0, "rate": 0}, {"at_s": 1, "rate": rate}],
        "watermark.alignment.max_drift_s": 0.3,
        "watermark.alignment.interval_s": 0.1,
    }.items()
}
REQUESTS: dict[str, Any] = {
    "latency_ms": 30, "latency_distribution": "exponential", "in_flight": 3, "buffered": 23,
    "batch_records": 7, "buffer_s": 0.05, "timeout_s": 0.12, "limit": {"records_per_s": 300},
    "errors": {"record": 0.02, "request": 0.02},
}  # fmt: skip
BLOCKING: dict[str, Any] = {
    "like": "jdbc-sql", "latency_ms": 30, "latency_distribution": "exponential", "buffer_s": 0.2,
    "batch_records": 9, "errors": {"record": 0.02, "request": 0.02},
    "retry": {"attempts": 2, "delay_ms": 20},
}  # fmt: skip
PRODUCER: dict[str, Any] = {
    "like": "kafka", "latency_ms": 50, "latency_distribution": "exponential", "partitions": 2,
    "batch_bytes": 1000, "buffered_bytes": 8000, "in_flight": 3, "buffer_s": 0.02,
    "errors": {"record": 0.02, "request": 0.02},
}  # fmt: skip
CALLS: dict[str, Any] = {
    "style": "await", "latency_ms": 30, "latency_distribution": "exponential", "in_flight": 7,
    "timeout_s": 0.15, "retry": {"attempts": 2, "delay_ms": 15, "multiplier": 2},
    "errors": {"request": 0.1, "empty": 0.1}, "limit": {"requests_per_s": 250, "burst_s": 0.1},
    "cache": {"hit": 0.2},
}  # fmt: skip
LOOKUPS: dict[str, Any] = {
    "style": "lookup", "latency_ms": 9, "errors": {"request": 0.1}, "cache": {"hit": 0.6},
    "retry": {"attempts": 2, "delay_ms": 7},
}  # fmt: skip
TIMED: dict[str, Any] = {
    "round_ms": 10,
    "stages.source.event_time": {"out_of_orderness_s": 0.05},
    "stages.source.watermark": {"delay_s": 0.05},
    "stages.map.parallelism": 2,
    "stages.sink.window": {"kind": "tumbling", "size_s": 0.1, "keys": 5},
    "options.pipeline.auto-watermark-interval": "20ms",
    "options.metrics.latency.interval": "30ms",
}
BRIEF = [{"at_s": 0, "rate": 20000}, {"at_s": 1, "rate": 0}]
SCENARIOS: dict[str, tuple[str, dict[str, Any]]] = {
    "credits": ("three-stages", {}),
    "two inputs": ("fan-in", {}),
    "keys": ("skew", {}),
    "several rounds under way": ("two-sites", {"round_ms": 20}),
    "a log": ("kafka-source", {}),
    "barriers aligned": ("checkpoint-aligned", {}),
    "barriers overtake": ("checkpoint-unaligned", {}),
    "windows": ("late-data", {}),
    "idle sources": ("idle-source", {}),
    "aligned sources": ("skewed-sources", ALIGNED),
    "a chain": ("word-count", {}),
    "processors": ("cpu-bound", {}),
    "connections without credits": ("head-of-line", {}),
    "a bandwidth": ("three-stages", {"cluster.bandwidth_bytes_per_s": 200_000}),
    "partitions without a bound": ("partition-types", {"edges": "pipelined", "round_ms": 50}),
    "partitions on disk": ("partition-types", {"round_ms": 50, "stages.read.emit_rate": BRIEF}),
    "debloating": (
        "three-stages",
        {f"options.{DEBLOAT}.enabled": True, f"options.{DEBLOAT}.period": "200ms"},
    ),
    "a throttle before a log": ("experiment", {"system": "spark-streaming"}),
    "a throttle": ("experiment", {"system": "storm-1"}),
    "grants of records": ("experiment", {"system": "rabbitmq"}),
    "a broadcast": ("fan-in", {"edges": "broadcast"}),
    "commits": (
        "iceberg-commits",
        {
            "round_ms": 50,
            "stages.sink.commit": {"fixed_ms": 80, "per_file_ms": 20, "files": 4},
            "options.execution.checkpointing.interval": "500ms",
        },
    ),
    "requests": (
        "dynamodb-throttled",
        {"round_ms": 10, "stages.sink.parallelism": 3, "stages.sink.requests": REQUESTS},
    ),
    "a token bucket": (
        "dynamodb-throttled",
        {
            "round_ms": 10,
            "stages.sink.parallelism": 3,
            "stages.sink.requests": {
                **REQUESTS,
                "rate_limiting": {"records_per_s": 70, "burst_s": 0.2},
            },
        },
    ),
    "a producer": (
        "jdbc-nightly",
        {"round_ms": 10, "stages.sink.parallelism": 3, "stages.sink.requests": PRODUCER},
    ),
    "transactions": (
        "jdbc-nightly",
        {
            "round_ms": 10,
            "stages.sink.parallelism": 3,
            "stages.sink.requests": PRODUCER,
            "stages.sink.guarantee": "exactly-once",
            "stages.sink.commit": {"fixed_ms": 30},
            "options.execution.checkpointing.interval": "200ms",
        },
    ),
    "requests that block": (
        "jdbc-nightly",
        {"round_ms": 10, "stages.sink.parallelism": 3, "stages.sink.requests": BLOCKING},
    ),
    "calls in order": (
        "three-stages",
        {"round_ms": 10, "stages.map.parallelism": 2, "stages.map.requests": CALLS},
    ),
    "calls in any order": (
        "three-stages",
        {"round_ms": 10, "stages.map.requests": {**CALLS, "ordered": False}},
    ),
    "calls and barriers": (
        "three-stages",
        {
            "round_ms": 10,
            "stages.map.requests": CALLS,
            "options.execution.checkpointing.interval": "100ms",
        },
    ),
    "calls and watermarks": ("three-stages", {**TIMED, "stages.map.requests": CALLS}),
    "calls in segments": (
        "three-stages",
        {**TIMED, "stages.map.requests": {**CALLS, "ordered": False, "in_flight": 4}},
    ),
    "lookups": ("three-stages", {"round_ms": 10, "stages.map.requests": LOOKUPS}),
}
ROUNDS = 60
RESTARTS = {
    "credits": 1,
    "several rounds under way": 3,
    "barriers overtake": 7,
    "windows": 5,
    "processors": 3,
    "connections without credits": 3,
    "a bandwidth": 4,
    "debloating": 4,
    "partitions without a bound": 4,
    "partitions on disk": 7,
    "a throttle before a log": 5,
    "a throttle": 4,
    "grants of records": 3,
    "requests": 5,
    "a token bucket": 4,
    "requests that block": 5,
    "a producer": 5,
    "transactions": 4,
    "commits": 3,
    "calls in order": 5,
    "calls in any order": 3,
    "calls and barriers": 4,
    "calls and watermarks": 3,
    "calls in segments": 5,
    "lookups": 7,
}
"""Rounds behind each of which all stages begin anew."""


def laid_out(name: str) -> Job:
    """Return the job of a case."""
    conf, changes = SCENARIOS[name]
    overrides = {key: value for key, value in changes.items() if key != "edges"}
    scenario = load_scenario(ROOT / "conf" / f"{conf}.yaml", overrides=overrides)
    if edges := changes.get("edges"):
        key = "partitioner" if edges == "broadcast" else "partition_type"
        every = tuple(edge.model_copy(update={key: edges}) for edge in scenario.edges)
        scenario = scenario.model_copy(update={"edges": every})
    return build_physical_graph(scenario)


@pytest.mark.parametrize("name", list(SCENARIOS))
def test_stages_do_what_one_memory_does(name: str) -> None:
    job = laid_out(name)
    own, moved = staged(job), 0
    for state in islice(clocks.kernel_states(job), ROUNDS):
        assert own.run() == state, f"after round {state.number}"
        moved += sum(task.taken for task in state.tasks)
        if (state.number + 1) % RESTARTS.get(name, ROUNDS) == 0:
            own.restart()
    assert moved > 0


def test_jobs_that_share_memory_do_too() -> None:
    """One starts, one stops, and one finds no buffers; all stages begin anew on the way."""
    times = {"audit.start_at_s": 1, "audit.stop_at_s": 2, "backfill.start_at_s": 2.5}
    changes = {f"jobs.{name}": value for name, value in times.items()}
    job = build_physical_graph(
        load_scenario(
            ROOT / "conf" / "two-jobs.yaml", overrides={"duration_s": 3, "round_ms": 50, **changes}
        )
    )
    own, absent = staged(job), set[int]()
    for state in step(job):
        assert own.run() == state, f"after round {state.number}"
        absent.add(sum(not task.is_running for task in state.tasks))
        if (state.number + 1) % 4 == 0:
            own.restart()
    assert absent == {16, 24}


SLOW = {**REQUESTS, "latency_ms": 700, "buffered": 500, "limit": {"records_per_s": 120}}


@pytest.mark.parametrize(
    "requests", [None, SLOW, PRODUCER], ids=["plain", "requests", "transactions"]
)
def test_a_job_that_fails_does_too(requests: dict[str, Any] | None) -> None:
    """Tasks die, are restored from a checkpoint, and catch up; all begin anew on the way."""
    changes: dict[str, Any] = {"round_ms": 500}
    if requests is not None:
        changes["stages.sink.requests"] = {**requests, "buffer_s": 1}
        if requests is PRODUCER:
            changes["stages.sink.guarantee"] = "exactly-once"
        else:
            changes["stages.sink.requests"]["timeout_s"] = 2
    job = build_physical_graph(load_scenario(ROOT / "conf" / "recovery.yaml", overrides=changes))
    own, absent = staged(job), 0
    for state in clocks.kernel_states(job):
        assert own.run() == state, f"after round {state.number}"
        absent += sum(not task.is_running for task in state.tasks)
        if requests is not None and (state.number + 1) % 9 == 0:
            own.restart()
    assert absent > 0


def test_a_sender_wakes_for_news_only() -> None:
    """A receiver that has taken nothing and says nothing in a round does not wake its sender."""
    own, told, quiet = staged(laid_out("requests")), 0, 0
    before: dict[int, ChannelShare] = {}
    for _ in range(ROUNDS):
        own.run()
        now = {
            number: share
            for task in own.published.tasks.values()
            for number, share in task.inputs.items()
        }
        for number, share in now.items():
            told += share.has_news
            if (old := before.get(number)) and share.cells == old.cells and not share.messages:
                assert not share.has_news, number
                quiet += 1
        before = now
    assert told > 0 < quiet
