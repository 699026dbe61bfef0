"""What the lag of a watermark consists of, in a run of the virtual clock: parts against their form.

A steady job: source and sink have one rate each, so that what is in flight no longer changes.
"""

from __future__ import annotations

from typing import Any

import pytest

from flowcontrol.analysis import summarise
from flowcontrol.scenario import Scenario, parse_scenario
from flowcontrol.virtual import simulate

ROUND_MS, INTERVAL_MS, DELAY_MS = 50, 200, 1000


def scenario(service_rate: int, parallelism: int = 1) -> Scenario:
    own = {"parallelism": parallelism}
    return parse_scenario(
        {
            "schema": 1,
            "name": "lag",
            "duration_s": 20,
            "round_ms": ROUND_MS,
            "sample_interval_s": 1,
            "options": {"taskmanager.memory.segment-size": "4kb"},
            "stages": [
                {
                    "name": "source", "emit_rate": 1000, "record_bytes": 200, **own,
                    "event_time": {"out_of_orderness_s": 1}, "watermark": {"delay_s": 1},
                },
                {"name": "map", "service_rate": 2000, **own},
                {"name": "sink", "service_rate": service_rate, **own},
            ],
            "edges": [
                {"from": "source", "to": "map", "partitioner": "rebalance"},
                {"from": "map", "to": "sink", "partitioner": "rebalance"},
            ],
        }
    )  # fmt: skip


def event_time(job: Scenario) -> dict[str, Any]:
    """Return what is said of event time, and the sentences of the run."""
    tables = simulate(job).tables
    found = summarise(tables, job, clock="virtual", rounds=400, wall_s=1, round_ms=ROUND_MS)
    told: dict[str, Any] = found["event_time"]
    return told | {key: found[key] for key in ("sentence", "details")}


def test_each_part_is_its_closed_form_under_steady_backpressure() -> None:
    found = event_time(scenario(400, parallelism=2))
    apart = found["apart"]
    assert [hop["edge"] for hop in apart["hops"]] == ["source->map", "map->sink"]
    for hop in apart["hops"]:
        assert hop["wait_ms"] > 500  # it is backpressure
        assert hop["wait_ms"] == pytest.approx(hop["expected_ms"], abs=INTERVAL_MS + ROUND_MS)
    rest, form = apart["at_source_ms"], apart["at_source_expected_ms"]
    assert abs(rest - form) <= INTERVAL_MS / 2 + 2 * ROUND_MS
    whole = apart["delay_ms"] + rest + sum(hop["wait_ms"] for hop in apart["hops"])
    assert whole == pytest.approx(apart["lag_ms"])
    assert apart["lag_ms"] == pytest.approx(apart["expected_ms"], rel=0.1)
    assert "wait in flight at map->sink behind" in " ".join(found["details"])


def test_a_job_that_keeps_up_lags_by_its_delay_and_probes() -> None:
    found = event_time(scenario(3000))
    assert found["matter"] == []
    probed = (
        2 * INTERVAL_MS
    )  # what the last probe gave is on its way, what the one before gave came
    assert 0 < found["apart"]["lag_ms"] - DELAY_MS <= probed + 2 * 2 * ROUND_MS
    assert found["sentence"].startswith("No bottleneck")
