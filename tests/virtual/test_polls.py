"""Batches of so many records, one at a time: what they let through, and what they do not delay."""

from __future__ import annotations

from typing import Any

import pytest

from flowcontrol.analysis import summarise
from flowcontrol.scenario import parse_scenario
from flowcontrol.virtual import choose_round_us, simulate

SYSTEMS: dict[str, Any] = {
    "kafka-streams": "kafka-streams",
    "limited batches": {
        "transport": "unbounded",
        "throttle": {"name": "static_admission", "max_records": 1000},
    },
}


def sink_of(offered: float, system: Any, duration_s: float = 4) -> dict[str, Any]:
    """Return the figures of a sink of 40,000 records/s over the second half of a run."""
    scenario = parse_scenario(
        {
            "schema": 1,
            "name": "polls",
            "duration_s": duration_s,
            "sample_interval_s": duration_s / 8,
            "system": system,
            "stages": [
                {"name": "source", "emit_rate": offered},
                {"name": "map", "service_rate": 60_000},
                {"name": "sink", "service_rate": 40_000},
            ],
            "edges": [{"from": "source", "to": "map"}, {"from": "map", "to": "sink"}],
        }
    )
    run = simulate(scenario)
    summary = summarise(
        run.tables, scenario, clock="virtual", rounds=run.rounds, wall_s=0,
        round_ms=choose_round_us(scenario) / 1000,
    )  # fmt: skip
    found: dict[str, Any] = summary["stages"]["sink"]["second_half"]
    return found


@pytest.mark.parametrize("system", SYSTEMS.values(), ids=SYSTEMS)
def test_the_next_poll_follows_when_the_records_are_done(system: Any) -> None:
    """1,000 records are 25 ms of work here: what is offered passes, and at most 40,000."""
    assert sink_of(15_000, system)["rate_in"] == pytest.approx(15_000, rel=0.01)
    assert sink_of(60_000, system)["rate_in"] == pytest.approx(40_000, rel=0.06)


def test_a_poll_of_an_empty_log_ends_with_the_first_record() -> None:
    """``poll.ms`` is how long it waits at most; a record that comes meanwhile does not wait."""
    assert sink_of(5, "kafka-streams", 8)["latency"]["max_ms"] < 50
