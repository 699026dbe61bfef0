"""Rounds that divide neither the run nor its samples: every figure is of the time that was run."""

from __future__ import annotations

from typing import Any

import pytest

from flowcontrol.analysis import summarise
from flowcontrol.layout.physical_graph import build_physical_graph
from flowcontrol.scenario import Scenario, parse_scenario
from flowcontrol.virtual import simulate


def scenario(duration_s: float, interval_s: float, round_ms: float) -> Scenario:
    mapping: dict[str, Any] = {
        "schema": 1, "name": "undivided", "duration_s": duration_s, "round_ms": round_ms,
        "sample_interval_s": interval_s,
        "stages": [{"name": "source", "emit_rate": 100, "record_bytes": 100},
                   {"name": "sink", "service_rate": 200}],
        "edges": [{"from": "source", "to": "sink", "partitioner": "forward"}],
    }  # fmt: skip
    return parse_scenario(mapping)


@pytest.mark.parametrize(
    ("keys", "expected"),
    [
        ((1, 1, 700), [(0.7, 0, 0), (1.4, 1, 1)]),
        ((3, 1, 700), [(0.7, 0, 0), (1.4, 1, 1), (2.8, 2, 3), (3.5, 4, 4)]),
        ((2, 0.2, 500), [(0.5, 0, 0), (1.0, 1, 1), (1.5, 2, 2), (2.0, 3, 3)]),
        ((2, 0.75, 250), [(0.75, 0, 2), (1.5, 3, 5), (2.0, 6, 7)]),  # these divide it
    ],
)
def test_samples_stand_where_they_are_taken_and_none_is_repeated(
    keys: tuple[float, float, float], expected: list[tuple[float, int, int]]
) -> None:
    """Both clocks take their samples there."""
    job = build_physical_graph(scenario(*keys))
    assert list(job.samples(job.rounds)) == expected


@pytest.mark.parametrize("keys", [(1, 1, 700), (10, 1, 700), (10, 0.3, 700), (2, 0.2, 500)])
def test_rates_are_of_the_time_that_was_run(keys: tuple[float, float, float]) -> None:
    own = scenario(*keys)
    run = simulate(own)
    found = summarise(
        run.tables, own, clock="virtual", rounds=run.rounds, wall_s=1.0, round_ms=keys[2]
    )
    assert found["emulated_s"] == pytest.approx(run.rounds * keys[2] / 1000)
    assert found["stages"]["source"]["whole"]["rate_out"] == pytest.approx(100)
    taken = found["stages"]["sink"]["whole"]["records_in"]
    assert sum(run.tables["latency"]["count"].to_pylist()) == taken > 0
