"""Checkpoints and restarts against the closed forms of the model, at rounds of a millisecond."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest

from flowcontrol.scenario import parse_scenario
from flowcontrol.spec.functions import backlog_at_restart, catch_up_us, records_reprocessed
from flowcontrol.virtual import simulate

CHECKPOINT = "execution.checkpointing."
DEBLOAT = "taskmanager.network.memory.buffer-debloat."
NAMES = ("source", "one", "two", "sink")
RATES = (4000, 2500, 1500, 1000)
"""Records/s: all queues are full, and the sink drains a record a round, wherever it waits."""
BUFFER = 10
"""Records of 400 bytes in a segment of 4 KiB."""


def tables(
    options: dict[str, Any] | None = None, duration_s: float = 12, **stages: dict[str, Any]
) -> dict[str, Any]:
    """Run four stages in a row, each on a task manager of its own, that checkpoint every 10 s."""
    rows = [
        {"name": name, "service_rate" if i else "emit_rate": rate, "placement": [i]}
        for i, (name, rate) in enumerate(zip(NAMES, RATES, strict=True))
    ]
    keys = stages.pop("keys", {})
    cluster = {"task_managers": 4, "upload_bytes_per_s": 1_000_000}
    scenario = {
        "schema": 1,
        "name": "laws",
        "duration_s": duration_s,
        "round_ms": 1,
        "cluster": cluster,
        "options": {
            "taskmanager.memory.segment-size": "4kb",
            CHECKPOINT + "interval": "10s",
            CHECKPOINT + "tolerable-failed-checkpoints": 1000,
            **(options or {}),
        },
        "stages": [{"record_bytes": 400, **row, **stages.get(row["name"], {})} for row in rows],
        "edges": [{"from": a, "to": b, "partitioner": "forward"} for a, b in pairwise(NAMES)],
        **keys,
    }
    found = simulate(parse_scenario(scenario)).tables
    return {name: table.to_pylist() for name, table in found.items()}


def delays(found: dict[str, Any], checkpoint: int) -> list[float]:
    """The start delays of a checkpoint, in the order of the stages."""
    rows = [row for row in found["checkpoint_tasks"] if row["checkpoint_id"] == checkpoint]
    assert [row["stage"] for row in rows] == list(NAMES)
    return [row["start_delay_ms"] for row in rows]


def in_flight(found: dict[str, Any]) -> list[int]:
    """Records in each hop when the first checkpoint is triggered."""
    return [row["in_flight_records"] for row in found["channels"] if row["t_s"] == 10.0]


def test_an_aligned_barrier_takes_what_is_before_it_over_the_drain_rate() -> None:
    """In all within a round a hop; at each hop besides to the buffer that a sender fills."""
    found = tables()
    before, hops = in_flight(found), [b - a for a, b in pairwise(delays(found, 1))]
    assert min(before) > 100
    assert sum(hops) == pytest.approx(sum(before), abs=len(hops))
    assert hops == pytest.approx(before, abs=1 + BUFFER)
    e2e_ms = found["checkpoints"][0]["e2e_ms"]
    assert e2e_ms == pytest.approx(sum(before), abs=2 + len(hops))


def test_an_unaligned_one_takes_its_bytes_over_the_bandwidth_and_one_record() -> None:
    """A record takes the slowest task 1 ms; a message of the coordinator takes a round.

    Barriers overtake where records are spread, and not on forward edges.
    """
    states = {name: {"state": {"bytes": 20_000 * i}} for i, name in enumerate(NAMES)}
    edges = [{"from": a, "to": b, "partitioner": "rebalance"} for a, b in pairwise(NAMES)]
    found = tables({CHECKPOINT + "unaligned.enabled": True}, keys={"edges": edges}, **states)
    rows = [row for row in found["checkpoint_tasks"] if row["checkpoint_id"] == 1]
    assert all(row["persisted_bytes"] > 20_000 for row in rows[:3])
    written_ms = max((row["state_bytes"] + row["persisted_bytes"]) / 1000 for row in rows)
    e2e_ms = found["checkpoints"][0]["e2e_ms"]
    assert written_ms <= e2e_ms <= written_ms + len(NAMES) * (1 + 1) + 2
    assert e2e_ms < sum(in_flight(found)) / 2  # what an aligned one takes


@pytest.mark.parametrize("target_ms", [200, 500])
def test_with_debloating_a_hop_takes_about_the_target(target_ms: int) -> None:
    """Debloated buffers hold what is consumed in the target; a change below 25 % is not made."""
    options = {
        "taskmanager.memory.segment-size": "32kb",
        DEBLOAT + "enabled": True,
        DEBLOAT + "target": f"{target_ms}ms",
    }
    found = tables(options, 45)
    for checkpoint in (2, 3, 4):
        for a, b in pairwise(delays(found, checkpoint)):
            assert b - a == pytest.approx(target_ms, rel=0.25)


@pytest.mark.parametrize(("share", "status"), [(0.9, "expired"), (1.1, "completed")])
def test_no_checkpoint_completes_in_a_timeout_below_what_is_in_flight_over_the_rate(
    share: float, status: str
) -> None:
    """It cannot if sum q / X > mu."""
    needed_ms = sum(in_flight(tables()))
    options = {CHECKPOINT + "timeout": f"{round(share * needed_ms)}ms"}
    found = tables(options, 35)
    assert [row["status"] for row in found["checkpoints"]] == [status] * 3


@pytest.mark.parametrize(
    ("arrival", "failed_s", "delay_s"), [(600, 25.5, 2), (300, 21.0, 5), (800, 20.7, 1)]
)
def test_a_job_catches_up_in_its_backlog_over_what_it_can_do_more(
    arrival: int, failed_s: float, delay_s: int
) -> None:
    """Within 2 %: backlog = what is processed again, and what came while the job was down."""
    options = {
        "restart-strategy.type": "fixed-delay",
        "restart-strategy.fixed-delay.delay": f"{delay_s}s",
    }
    keys = {"failures": [{"at_s": failed_s, "stage": "sink", "subtask": 0}]}
    found = tables(options, 60, source={"arrival_rate": arrival}, keys=keys)
    [restart] = found["restarts"]
    assert restart["checkpoint_id"] == 2
    down_us = round((restart["running_s"] - failed_s) * 1e6)
    again = records_reprocessed(round((failed_s - 20) * 1e6), arrival, RATES[-1])
    assert restart["records_reprocessed"] == pytest.approx(float(again), abs=0.005 * arrival)
    backlog = backlog_at_restart(0, again, arrival, down_us)
    expected = catch_up_us(backlog, RATES[-1], arrival)
    assert expected is not None
    took_s = restart["caught_up_s"] - restart["running_s"]
    assert took_s == pytest.approx(expected / 1e6, rel=0.02)
