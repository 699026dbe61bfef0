"""A source is busy while it emits; however busy, it limits nothing and is never blamed."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import pyarrow.compute as pc
import pytest

from flowcontrol.analysis import find_bottleneck
from flowcontrol.scenario import parse_scenario
from flowcontrol.virtual import simulate

MILLION = 1_000_000


def run(service_rate: float | None) -> tuple[Any, dict[str, float]]:
    """Simulate a source of 1 million records/s: what limits, and its three times, ms/s."""
    scenario = parse_scenario(
        {
            "schema": 1,
            "name": "fast",
            "duration_s": 0.4,
            "round_ms": 1,
            "sample_interval_s": 0.05,
            "stages": [
                {"name": "source", "emit_rate": MILLION, "record_bytes": 1024},
                {"name": "sink", "service_rate": service_rate},
            ],
            "edges": [{"from": "source", "to": "sink"}],
            "options": {"taskmanager.memory.segment-size": "1mb"},
        }
    )
    tables = simulate(scenario).tables
    own = tables["stages"].filter(pc.equal(tables["stages"]["stage"], "source"))
    names = ("busy_ms_per_s", "idle_ms_per_s", "backpressured_ms_per_s")
    return find_bottleneck(tables, scenario), {n: pc.mean(own[n]).as_py() for n in names}


def test_a_source_that_is_busy_all_the_time_is_no_bottleneck() -> None:
    found, times = run(None)
    assert times == {"busy_ms_per_s": 1000, "idle_ms_per_s": 0, "backpressured_ms_per_s": 0}
    assert (found.stage, found.edge) == (None, None)
    assert found.sentence.startswith("No bottleneck: source set the pace at its own rate, 1,000,0")


@pytest.mark.parametrize("service_rate", [900_000, 100_000])
def test_the_sink_limits_a_source_that_is_busy_when_it_is_not_blocked(service_rate: int) -> None:
    found, times = run(service_rate)
    assert times["idle_ms_per_s"] < 1
    assert times["backpressured_ms_per_s"] > 50
    assert found.stage == "sink"


@pytest.mark.parametrize("blocked", [0, 20, 21, 100, 101, 900])
def test_it_is_not_named_however_little_is_blocked(builder: ModuleType, blocked: int) -> None:
    job = builder.scenario(
        "fast", {"source": {}, "middle": {}, "sink": {}}, ["source->middle", "middle->sink"]
    )
    results = builder.Results([10.0, 50.0, 100.0])
    results.stage("source", busy_ms_per_s=1000 - blocked, backpressured_ms_per_s=blocked)
    results.stage("middle", busy_ms_per_s=400)
    results.stage("sink", busy_ms_per_s=300)
    found = find_bottleneck(results.tables(), job)
    assert found.stage != "source"
    assert "Bottleneck: source" not in found.sentence
