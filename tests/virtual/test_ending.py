"""A chain of three tasks ends, whatever carries its messages."""

from __future__ import annotations

from typing import Any

import pytest

import flowcontrol
from flowcontrol.scenario import parse_scenario
from flowcontrol.state.queues import END_OF_PARTITION

WAYS: dict[str, dict[str, Any]] = {
    "credit": {},
    "local": {"placement": [0, 0, 0]},
    "a shared connection": {"cluster": {"bandwidth_bytes_per_s": 1e6, "network_latency_ms": 30}},
    "tcp": {"system": "flink-1.4"},
    "permits": {"system": {"transport": "half_return_credit"}},
    "a switch": {"system": {"transport": "hop_hysteresis"}},
    "a throttle": {"system": {"transport": "unbounded", "throttle": {"name": "pid_rate"}}},
    "blocking": {"partition_type": "blocking"},
    "hybrid_full": {"partition_type": "hybrid_full"},
    "hybrid_selective": {"partition_type": "hybrid_selective"},
}


@pytest.mark.parametrize("way", WAYS)
def test_every_task_ends_and_every_channel_carries_one_end(way: str) -> None:
    keys = dict(WAYS[way])
    kind = {"partition_type": keys.pop("partition_type")} if "partition_type" in keys else {}
    placement = keys.pop("placement", [0, 1, 0])
    emits = [{"at_s": 0, "rate": 200}, {"at_s": 0.2, "rate": 0}]
    mapping = {
        "schema": 1,
        "name": "ends",
        "duration_s": 4,
        "round_ms": 10,
        "stages": [
            {"name": "a", "emit_rate": emits, "record_bytes": 1500, "placement": [placement[0]]},
            {"name": "b", "placement": [placement[1]], "service_rate": 500},
            {"name": "c", "placement": [placement[2]]},
        ],
        "edges": [
            {"from": "a", "to": "b", "partitioner": "forward", **kind},
            {"from": "b", "to": "c", "partitioner": "forward"},
        ],
        **keys,
        "cluster": {"task_managers": 2, "disk_bytes_per_s": 1e7, **keys.get("cluster", {})},
        "options": {"taskmanager.memory.segment-size": "4kb"},
    }
    states = list(flowcontrol.rounds(parse_scenario(mapping), round_us=10_000))
    ends = {"a->b": 0, "b->c": 0}
    for before, state in zip([None, *states], states, strict=False):
        for name, out, _ in state.channels():
            queued = before.channel(*name)[0].state if before is not None else None
            was_sent = queued is not None and queued.is_finished == 1 and queued.events == 0
            is_sent = out.state.is_finished == 1 and out.state.events == 0
            ends[name.edge] += int(is_sent and not was_sent)
            assert all(m.message.records == 0 for m in out.under_way
                       if m.message.kind == END_OF_PARTITION)  # fmt: skip
    assert ends == {"a->b": 1, "b->c": 1}
    last = states[-1]
    assert [task.state.is_finished for task in last.tasks] == [1, 1, 1]
    assert [task.state.taken for task in last.tasks] == [40, 40, 40]
    order = [next(s.number for s in states if s.task(n).state.is_finished) for n in "abc"]
    assert order == sorted(set(order))
