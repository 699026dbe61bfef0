"""What an announced barrier does before its turn, as a real Flink showed it."""

from __future__ import annotations

from typing import Any

import pytest

from flowcontrol.layout.physical_graph import build_physical_graph
from flowcontrol.scenario import parse_scenario
from modules import load

watched_runs: Any = load("tests/job/watched_runs.py")

ROUND_MS = 10
SEGMENT_MS = 41
"""What the sink needs for a segment: 4.1 records at 100/s."""


def start_delay_ms(emit_rates: list[int], **checkpointing: Any) -> float:
    """Start delay of a sink of 100 records/s behind these sources, at its first checkpoint."""
    prefix = "execution.checkpointing."
    scenario = parse_scenario(
        {
            "schema": 1,
            "name": "announced",
            "duration_s": 4,
            "round_ms": ROUND_MS,
            "cluster": {"task_managers": 3, "slots": 1},
            "options": {
                "taskmanager.memory.segment-size": "4kb",
                f"{prefix}interval": "2s",
                **{
                    f"{prefix}{key.replace('_', '-')}": value
                    for key, value in checkpointing.items()
                },
            },
            "stages": [
                {
                    "name": "source",
                    "parallelism": len(emit_rates),
                    "emit_rate": emit_rates,
                    "record_bytes": 1000,
                },
                {"name": "sink", "service_rate": 100},
            ],
            "edges": [{"from": "source", "to": "sink", "partitioner": "rebalance"}],
        }
    )
    job = build_physical_graph(scenario, round_us=ROUND_MS * 1000)
    run = watched_runs.WatchedRun(job)
    run.run()
    own = run.checkpoints.coordinator
    assert own.statistics(1).status == "completed"
    return own.task_statistics(1)[len(emit_rates)].start_delay / 1000


def test_a_start_delay_ends_at_the_barrier_not_at_its_announcement() -> None:
    """Half of what is in flight is behind the announced barrier when it is pulled to the front."""
    options: dict[str, Any] = {"unaligned.enabled": True}
    drained = start_delay_ms([1000])
    announced = 0.7 * drained
    assert drained > 500
    found = start_delay_ms([1000], **options, aligned_checkpoint_timeout=f"{round(announced)}ms")
    assert found == pytest.approx(announced, abs=2 * ROUND_MS)


@pytest.mark.parametrize(
    ("rate", "longer_ms"),
    [
        (25, SEGMENT_MS),  # a buffer is before it in its channel, which would have been next
        (10, 0),  # it stands alone in its channel, which is last in the order already
    ],
)
def test_an_announcement_costs_its_channel_its_turn(rate: int, longer_ms: int) -> None:
    aligned = start_delay_ms([rate, 1000])
    announced = start_delay_ms(
        [rate, 1000], **{"unaligned.enabled": True}, aligned_checkpoint_timeout="10s"
    )
    assert aligned > 2 * SEGMENT_MS
    assert announced - aligned == pytest.approx(longer_ms, abs=ROUND_MS)
