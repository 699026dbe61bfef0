"""A stage whose rate a service outside sets: what is said of it, and what is not advised."""

from __future__ import annotations

from typing import Any

from flowcontrol.analysis import summarise
from flowcontrol.scenario import parse_scenario
from flowcontrol.virtual import simulate

CHAIN: dict[str, Any] = {
    "schema": 1,
    "name": "chain",
    "duration_s": 20,
    "sample_interval_s": 1,
    "stages": [
        {"name": "source", "emit_rate": 1000, "record_bytes": 200},
        {"name": "sink", "parallelism": 2, "total_rate": 400},
    ],
    "edges": [{"from": "source", "to": "sink", "partitioner": "rebalance"}],
}


def summary(**keys: Any) -> dict[str, Any]:
    source, sink = CHAIN["stages"]
    scenario = parse_scenario({**CHAIN, "stages": [source, {**sink, **keys}]})
    run = simulate(scenario)
    return summarise(
        run.tables, scenario, clock="virtual", rounds=run.rounds, wall_s=1.0, round_ms=1.0
    )


def test_the_service_is_named_and_no_more_subtasks_are_advised() -> None:
    found = summary(external=True)
    assert found["bottleneck"] == "sink"
    said = " ".join([found["sentence"], *found["details"]])
    assert "he service behind sink sets the pace" in said
    assert "parallelism" not in said
    (cause,) = [one for one in found["causes"] if one["stage"] == "sink"]
    assert cause["cause"] == "external"
    assert cause["advice"].startswith("make the service quicker, or send it less")


def test_without_the_word_the_stage_is_slow() -> None:
    found = summary()
    assert "give sink more parallelism or speed" in found["sentence"]
    (cause,) = [one for one in found["causes"] if one["stage"] == "sink"]
    assert cause["cause"] == "operator"


def test_what_a_run_does_is_the_same() -> None:
    """It is a word on what the rate is, not another rate."""
    stated, plain = (
        summary(**keys)["stages"]["sink"]["whole"] for keys in ({"external": True}, {})
    )
    assert stated["rate_in"] == plain["rate_in"]
