"""The calls of a run's control plane say what its other tables say."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from flowcontrol.protocol.control.calls import places_of
from flowcontrol.results.control_run import control_tasks_of
from flowcontrol.results.run import Run
from flowcontrol.scenario import parse_scenario
from flowcontrol.virtual import simulate

OPTIONS = {
    "execution.checkpointing.interval": "400ms",
    "restart-strategy.type": "fixed-delay",
    "restart-strategy.fixed-delay.delay": "100ms",
    "restart-strategy.fixed-delay.attempts": 9,
    "heartbeat.interval": "100ms",
    "heartbeat.timeout": "500ms",
}
FAILURES = [
    {"at_s": 1.25, "stage": "sink", "subtask": 0},
    {"at_s": 1.85, "task_manager": 0},
    {"at_s": 2.6, "job_manager": True},
]


def run(latency_ms: float, **more: Any) -> Run:
    return simulate(
        parse_scenario(
            {
                "schema": 1,
                "name": "control",
                "duration_s": 3.2,
                "round_ms": 10,
                "cluster": {"task_managers": 2, "control_latency_ms": latency_ms},
                "options": OPTIONS,
                "stages": [
                    {"name": "source", "parallelism": 2, "emit_rate": 500, "record_bytes": 1000},
                    {"name": "sink", "parallelism": 3},
                ],
                "edges": [{"from": "source", "to": "sink", "partitioner": "rebalance"}],
                "trace": {},
                **more,
            }
        )
    )


def calls(found: Run, name: str) -> list[dict[str, Any]]:
    return [row for row in found.tables["control_messages"].to_pylist() if row["name"] == name]


def times(found: Run, name: str, more_s: float = 0) -> Counter[float]:
    return Counter(round(row["t_s"] + more_s, 6) for row in calls(found, name))


@pytest.mark.parametrize("latency_ms", [0, 20])
def test_checkpoints_and_restarts_are_those_of_the_tables(latency_ms: int) -> None:
    found = run(latency_ms, failures=FAILURES)
    tables = {name: table.to_pylist() for name, table in found.tables.items()}
    tasks, latency_s = len(control_tasks_of(found.job)), latency_ms / 1000
    restarts, checkpoints = tables["restarts"], tables["checkpoints"]
    assert [row["tasks"] for row in restarts] == [5, 5, 5]  # the hard case: all three kinds
    triggered = Counter({row["triggered_s"]: 2 for row in checkpoints})
    assert times(found, "triggerCheckpoint") == triggered
    told = Counter(row["acknowledged_s"] for row in tables["checkpoint_tasks"])
    assert times(found, "acknowledgeCheckpoint", latency_s) == told
    completed = [row["ended_s"] for row in checkpoints if row["status"] == "completed"]
    assert set(times(found, "confirmCheckpoint")) == set(completed)
    assert len(calls(found, "submitTask")) == tasks + sum(row["tasks"] for row in restarts)
    runs = times(found, "updateTaskExecutionState")
    assert all(runs[row["running_s"]] >= tasks for row in restarts)
    new_leader = restarts[2]["restarted_s"]
    tokens = {
        (row["t_s"] >= new_leader, row["fencing_token"]) for row in calls(found, "submitTask")
    }
    assert len(tokens) == 2
    assert len({token for _, token in tokens}) == 2


@pytest.mark.parametrize("latency_ms", [0, 20])
def test_every_slot_is_returned_at_the_end(latency_ms: int) -> None:
    found = run(latency_ms, failures=FAILURES)
    slots = len(places_of(control_tasks_of(found.job)))
    assert slots == 3
    assert len(calls(found, "freeSlot")) == slots
    last = found.tables["control_messages"].to_pylist()[-1]
    assert (last["name"], last["bytes"]) == ("declareRequiredResources", 1195)


def test_operators_of_several_groups_have_slots_of_their_own() -> None:
    """Five slots of one task manager, where two subtasks of each stage would share two."""
    operators = [
        {"name": "s", "parallelism": 2, "emit_rate": 5, "record_bytes": 9, "slot_group": "g"},
        {"name": "a", "parallelism": 2, "slot_group": "h"},
        {"name": "b", "slot_group": "default"},
    ]
    edges = [{"from": "s", "to": "a"}, {"from": "a", "to": "b", "partitioner": "rebalance"}]
    scenario = parse_scenario(
        {
            "schema": 1,
            "name": "groups",
            "duration_s": 2,
            "round_ms": 100,
            "cluster": {"task_managers": 1, "slots": 5},
            "operators": operators,
            "edges": edges,
            "trace": {},
        }
    )
    found = simulate(scenario)
    assert [task.slot for task in control_tasks_of(found.job)] == [0, 1, 2, 3, 4]
    assert len(calls(found, "requestSlot")) == len(calls(found, "freeSlot")) == 5


def test_a_job_that_stops_with_a_savepoint_finishes() -> None:
    found = run(0, savepoints=[{"at_s": 1.5, "stop": True}])
    [ended] = [
        row["ended_s"]
        for row in found.tables["checkpoints"].to_pylist()
        if row["kind"] == "savepoint"
    ]
    assert set(times(found, "freeSlot")) == {ended}
    assert calls(found, "cancelTask") == []


def test_a_job_that_fails_for_good_gives_its_slots_back() -> None:
    options = {**OPTIONS, "restart-strategy.type": "none"}
    found = run(0, failures=FAILURES[:1], options=options)
    assert found.jobs[0]["state"] == "failed"
    assert set(times(found, "freeSlot")) == {found.jobs[0]["stop_at_s"]}


def test_a_window_has_the_calls_of_its_time() -> None:
    whole = run(0).tables["control_messages"].to_pylist()
    part = run(0, trace={"from_s": 0.5, "to_s": 1.5}).tables["control_messages"].to_pylist()
    assert part == [row for row in whole if 0.5 <= row["t_s"] <= 1.5]
    assert 0 < len(part) < len(whole)


def test_a_run_without_a_trace_has_none() -> None:
    assert "control_messages" not in run(0, trace=None).tables


def test_other_systems_have_none() -> None:
    assert run(0, system="storm", options={}).tables["control_messages"].num_rows == 0
