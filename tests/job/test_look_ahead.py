"""How many rounds a stage may run at once: what it hears first decides."""

from __future__ import annotations

from typing import Any

import pytest

from flowcontrol.layout.job import Job
from flowcontrol.layout.physical_graph import build_physical_graph
from flowcontrol.live.runtime import MOST_AT_ONCE, rounds_at_once, rounds_of_batch
from flowcontrol.scenario import parse_scenario


def job(latency_ms: float = 35, **more: Any) -> Job:
    """Two sources, a map and a sink, each on a task manager of its own; rounds of 10 ms."""
    rate = {"emit_rate": 100, "record_bytes": 100}
    mapping = {
        "schema": 1,
        "name": "ahead",
        "duration_s": 1.05,
        "round_ms": 10,
        "cluster": {"task_managers": 4, "network_latency_ms": latency_ms},
        "stages": [
            {"name": "one", **rate, "placement": [0]},
            {"name": "two", **rate, "placement": [1]},
            {"name": "map", "placement": [2], "parallelism": 1},
            {"name": "sink", "placement": [3]},
        ],
        "edges": [
            {"from": "one", "to": "map"},
            {"from": "two", "to": "map"},
            {"from": "map", "to": "sink"},
        ],
    }
    stages = more.pop("stages", {})
    mapping["stages"] = [{**own, **stages.get(own["name"], {})} for own in mapping["stages"]]  # type: ignore[attr-defined]
    return build_physical_graph(parse_scenario({**mapping, **more}))


def at_once(made: Job) -> list[int]:
    return [rounds_at_once(made, plan) for plan in made.stages]


@pytest.mark.parametrize(
    ("latency_ms", "rounds"),
    [(0, 1), (10, 1), (10.001, 2), (35, 4), (640, 64), (900, MOST_AT_ONCE), (10**9, MOST_AT_ONCE)],
)
def test_it_is_the_latency_in_rounds(latency_ms: float, rounds: int) -> None:
    assert at_once(job(latency_ms)) == [rounds] * 4


def test_a_channel_within_a_task_manager_takes_a_round_for_both_its_ends() -> None:
    assert at_once(job(stages={"one": {"placement": [2]}})) == [1, 4, 1, 4]


@pytest.mark.parametrize(
    ("more", "rounds"),
    [
        ({"options": {"execution.checkpointing.interval": "100ms"}}, [1] * 4),
        ({"failures": [{"at_s": 0.5, "stage": "map", "subtask": 0}]}, [1] * 4),
        ({"system": {"transport": "credit", "throttle": "global_hysteresis"}}, [1, 1, 4, 4]),
        (
            {
                "stages": {
                    name: {
                        "event_time": {},
                        "watermark": {"alignment": {"group": "g", "max_drift_s": 1}},
                    }
                    for name in ("one", "two")
                }
            },
            [1, 1, 4, 4],
        ),
        (
            {
                "stages": {
                    "one": {"event_time": {}, "watermark": {"delay_s": 0}},
                    "two": {"event_time": {}, "watermark": {"delay_s": 0}},
                    "map": {"window": {"kind": "tumbling", "size_s": 0.1, "keys": 1}},
                }
            },
            [4, 4, 1, 4],
        ),
    ],
    ids=["checkpoints", "failures", "throttle", "alignment", "windows"],
)
def test_what_is_heard_sooner_allows_a_round(more: dict[str, Any], rounds: list[int]) -> None:
    assert at_once(job(**more)) == rounds


def test_batches_hold_each_round_once() -> None:
    made = job()
    for plan in made.stages:
        batches = [rounds_of_batch(made, plan, number) for number in range(28)]
        assert [number for batch in batches for number in batch] == list(range(105))
        assert [len(batch) for batch in batches] == [4] * 26 + [1, 0]
