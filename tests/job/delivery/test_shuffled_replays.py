"""Sinks of several subtasks whose records reach other subtasks when they come again."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import pytest

from flowcontrol.layout.job import Job
from flowcontrol.layout.physical_graph import build_physical_graph
from flowcontrol.scenario import parse_scenario

HEARTBEATS = {
    "restart-strategy.type": "fixed-delay",
    "restart-strategy.fixed-delay.attempts": 99,
    "restart-strategy.fixed-delay.delay": "100ms",
    "heartbeat.interval": "100ms",
    "heartbeat.timeout": "300ms",
}


def job_of(guarantee: str, failures: list[dict[str, Any]], **changed: Any) -> Job:
    """80 records over a forward edge and three rebalances, to three subtasks of a sink."""
    emits = [{"at_s": 0, "rate": 40}, {"at_s": 2, "rate": 0}]
    source = {"name": "a", "parallelism": 1, "arrival_rate": emits, "emit_rate": 60}
    options = {**HEARTBEATS, **changed.pop("options", {})}
    sink = {"name": "k", "parallelism": 3, "service_rate": [70, 25, 40], "guarantee": guarantee}
    mapping = {
        "schema": 1,
        "name": "shuffled",
        "duration_s": 12,
        "round_ms": 25,
        "sample_interval_s": 0.5,
        "cluster": {"task_managers": 2},
        "options": options,
        "failures": failures,
        "stages": [
            {**source, **changed.pop("source", {})},
            {"name": "m", "parallelism": 1, "service_rate": 90},
            {"name": "n", "parallelism": 3, "service_rate": [40, 90, 30]},
            sink,
        ],
        "edges": [
            {"from": "a", "to": "m", "partitioner": "forward"},
            {"from": "m", "to": "n", "partitioner": "rebalance"},
            {"from": "n", "to": "k", "partitioner": "rebalance"},
        ],
    }
    return build_physical_graph(parse_scenario(mapping), round_us=25_000)


LEADER, MACHINE = {"job_manager": True}, {"task_manager": 1}
BOTH = [{"at_s": 1.945, **LEADER}, {"at_s": 1.945, **MACHINE}]
AGAIN = {"at_s": 2.9, "stage": "n", "subtask": 1}


@pytest.mark.parametrize("guarantee", ["at-most-once", "at-least-once"])
@pytest.mark.parametrize(
    "failures", [BOTH, [*BOTH, AGAIN], [{"at_s": 1.3, **LEADER}]], ids=["both", "again", "leader"]
)
def test_each_record_is_visible_or_lost_wherever_it_comes_again(
    random_deliveries: ModuleType, guarantee: str, failures: list[dict[str, Any]]
) -> None:
    control = random_deliveries.watched(job_of(guarantee, failures))
    accounts = [sink.account for sink in control.sinks]
    committed = sum(one.committed for one in accounts)
    twice = sum(one.visible_twice for one in accounts)
    lost = sum(one.lost for one in accounts)
    assert committed - twice + lost == 80
    assert (lost > 0, twice > 0) == (guarantee == "at-most-once", guarantee == "at-least-once")
