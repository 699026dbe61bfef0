"""A job runs when it is registered, has its slots and is deployed; so do restarts."""

from __future__ import annotations

from typing import Any

import pytest

import flowcontrol
from flowcontrol.errors import ScenarioError
from flowcontrol.scenario import parse_scenario
from flowcontrol.virtual import simulate

START = {0: 0, 20: 230, 50: 700}
"""By latency of a call, ms, when the job runs, ms: nine calls in a row and 50 ms; with 50 ms a
registration is answered as its first patience ends, 100 ms, and the second call is."""


def scenario(latency_ms: float, **more: Any) -> Any:
    return parse_scenario(
        {
            "schema": 1,
            "name": "late",
            "duration_s": 3,
            "round_ms": 10,
            "sample_interval_s": 0.5,
            "cluster": {"task_managers": 2, "slots": 1, "control_latency_ms": latency_ms},
            "stages": [
                {"name": "source", "parallelism": 1, "emit_rate": 1000, "record_bytes": 1000},
                {"name": "sink", "parallelism": 1, "service_rate": 2000},
            ],
            "edges": [{"from": "source", "to": "sink"}],
            **more,
        }
    )


FAULTS: dict[str, Any] = {
    "options": {
        "execution.checkpointing.interval": "400ms",
        "restart-strategy.type": "fixed-delay",
        "restart-strategy.fixed-delay.delay": "100ms",
        "restart-strategy.fixed-delay.attempts": 9,
        "heartbeat.interval": "100ms",
        "heartbeat.timeout": "500ms",
    },
    "failures": [
        {"at_s": 1.25, "stage": "sink", "subtask": 0},
        {"at_s": 1.85, "task_manager": 0},
        {"at_s": 2.6, "job_manager": True},
    ],
}


@pytest.mark.parametrize("latency_ms", START)
def test_sources_emit_from_then_on(latency_ms: int) -> None:
    run = simulate(scenario(latency_ms))
    rows = [row for row in run.tables["stages"].to_pylist() if row["stage"] == "source"]
    assert [row["records_out"] for row in rows] == [
        max(0, round(row["t_s"] * 1000) - START[latency_ms]) for row in rows
    ]


@pytest.mark.parametrize("from_s", [0, 0.1])
@pytest.mark.parametrize("latency_ms", START)
def test_partitions_are_requested_then(latency_ms: int, from_s: float) -> None:
    """Nobody requests anything of a task that is not deployed; data comes later still."""
    run = simulate(scenario(latency_ms, trace={"from_s": from_s, "to_s": 1.5}))
    rows = run.tables["messages"].to_pylist()
    requests = [row["t_s"] for row in rows if row["name"] == "PartitionRequest"]
    start_s = START[latency_ms] / 1000
    assert requests == ([start_s] if start_s >= from_s else [])
    first = next(row["t_s"] for row in rows if row["name"] == "BufferResponse")
    assert first >= max(from_s, start_s)
    numbers = [row["sequence_number"] for row in rows if row["name"] == "BufferResponse"]
    assert numbers == list(range(numbers[0], numbers[0] + len(numbers)))
    assert (numbers[0] == 0) == (start_s >= from_s)


def test_checkpoints_begin_an_interval_after_it_runs() -> None:
    run = simulate(scenario(20, options=FAULTS["options"]))
    assert run.tables["checkpoints"].column("triggered_s").to_pylist()[:3] == [0.63, 1.03, 1.43]


def test_restarts_are_deployed_again() -> None:
    """With slots one call; without five and 50 ms, and a JobMaster's hearing; a new one four."""
    took = {
        latency: [
            round((row["running_s"] - row["restarted_s"]) * 1000)
            for row in simulate(scenario(latency, **FAULTS)).tables["restarts"].to_pylist()
        ]
        for latency in (0, 20)
    }
    assert took == {0: [0, 0, 0], 20: [20, 170, 80]}


def test_both_clocks_are_equal() -> None:
    own = scenario(20, **FAULTS)
    kernel, memory = flowcontrol.rounds(own), flowcontrol.rounds(own, clock="live")
    count = 0
    for one, other in zip(kernel, memory, strict=True):
        assert one == other
        count += 1
    assert count == 300


def test_zero_changes_nothing() -> None:
    stated, default = scenario(0), parse_scenario({**scenario(0).canonical()})
    assert stated.canonical() == default.canonical()
    assert "control_latency_ms" not in str(stated.canonical())


@pytest.mark.parametrize(
    ("more", "place"),
    [
        ({"duration_s": 0.2}, "duration_s"),
        ({"failures": [{"at_s": 0.229, "task_manager": 0}]}, "failures[0].at_s"),
        ({"savepoints": [{"at_s": 0.229}]}, "savepoints[0].at_s"),
    ],
)
def test_nothing_happens_before(more: dict[str, Any], place: str) -> None:
    with pytest.raises(ScenarioError) as refused:
        simulate(scenario(20, **more))
    [problem] = refused.value.problems
    assert problem.place == place
    assert "the job runs from 0.23 s on" in problem.message


def test_a_call_takes_a_second_at_most() -> None:
    with pytest.raises(ScenarioError) as refused:
        scenario(1000.001)
    [problem] = refused.value.problems
    assert problem.place == "cluster.control_latency_ms"
