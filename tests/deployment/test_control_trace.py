"""The control plane of a placed job, as one list: counts and sizes of the reference's table."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from hypothesis import given, settings

from flowcontrol.deployment import (
    assign_slots,
    control_trace,
    execution_graph,
    job_graph,
    slot_sharing,
    stream_graph,
)
from modules import load

jobs = load("tests/deployment/test_any_job.py").jobs

MEASURED = {
    "operators": [
        {"name": "a", "parallelism": 2},
        {"name": "b", "parallelism": 3},
        {"name": "c", "parallelism": 2},
    ],
    "edges": [{"from": "a", "to": "b", "partitioner": "hash"}, {"from": "b", "to": "c"}],
}
"""Two task managers of two slots, three vertices, seven subtasks, three slots in use."""


def placed(job: dict[str, Any], managers: int, slots: int) -> tuple[Any, Any]:
    graph = execution_graph(job_graph(stream_graph(job)))
    groups = slot_sharing(graph)
    return graph, assign_slots(groups, max(managers, -(-len(groups) // slots)), slots)


def test_the_job_that_was_measured() -> None:
    found = control_trace(*placed(MEASURED, 2, 2), checkpoints=3, duration_s=60)
    assert found == sorted(found, key=lambda one: one.t_s)
    counts = Counter(one.name for one in found if not one.name.startswith("heartbeat"))
    assert counts == {
        "registerTaskExecutor": 2,
        "sendSlotReport": 2,
        "submitJob": 1,
        "registerJobMaster": 1,
        "declareRequiredResources": 4,
        "requestSlot": 3,
        "registerTaskManager": 2,
        "offerSlots": 2,
        "submitTask": 7,
        "updateTaskExecutionState": 21,
        "triggerCheckpoint": 6,
        "acknowledgeCheckpoint": 21,
        "confirmCheckpoint": 21,
        "cancelTask": 7,
        "freeSlot": 3,
    }
    assert {one.t_s for one in found if one.name == "triggerCheckpoint"} == {15, 30, 45}
    offers = sorted(one.bytes for one in found if one.name == "offerSlots")
    assert offers == [2298, 2335]
    asked = Counter(one.t_s for one in found if one.name.startswith("heartbeatFromResource"))
    assert asked == dict.fromkeys([10, 20, 30, 40, 50, 60], 3)
    assert found[-1].t_s == 60


@given(job=jobs())
@settings(max_examples=settings.default.max_examples)
def test_any_job(job: dict[str, Any]) -> None:
    graph, places = placed(job, 2, 2)
    found = control_trace(graph, places, checkpoints=1, duration_s=5)
    tasks, slots = len(graph.subtasks), len(set(places.values()))
    counts = Counter(one.name for one in found)
    for name, times in {
        "submitTask": tasks,
        "updateTaskExecutionState": 3 * tasks,
        "acknowledgeCheckpoint": tasks,
        "cancelTask": tasks,
        "requestSlot": slots,
        "freeSlot": slots,
        "declareRequiredResources": 1 + slots,
        "registerTaskManager": len({manager for manager, _ in places.values()}),
    }.items():
        assert counts[name] == times, name
    assert all(15_000 <= one.bytes <= 25_000 for one in found if one.name == "submitTask")
    assert all(1785 <= one.bytes <= 4517 for one in found if one.name == "acknowledgeCheckpoint")


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({"checkpoints": -1}, "checkpoints is -1: needs at least 0"),
        ({"duration_s": 0}, "duration_s is 0: needs more than 0"),
        ({"latency_ms": -1}, "latency_ms is -1: needs 0 to 1000"),
        ({"latency_ms": 1001}, "latency_ms is 1001: needs 0 to 1000"),
        ({"duration_s": 0.15}, "the job does not run yet at 0.0375 s"),
    ],
)
def test_refused(asked: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=r"needs|does not run yet") as refused:
        control_trace(*placed(MEASURED, 2, 2), **asked)
    assert words in str(refused.value)


def test_a_place_too_few_and_one_too_many() -> None:
    graph, places = placed(MEASURED, 2, 2)
    fewer = {task: place for task, place in places.items() if task != ("b", 2)}
    with pytest.raises(ValueError, match=r"\('b', 2\) has no place"):
        control_trace(graph, fewer)
    with pytest.raises(ValueError, match=r"\('z', 0\) is not a subtask"):
        control_trace(graph, {**places, ("z", 0): (0, 0)})
