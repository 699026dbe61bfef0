"""Figures of runs whose answer is known, and what a program is given."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from figures import Line, Row, batches, figures, follows_s, rows, show, swings
from stated import properties

from flowcontrol.errors import ScenarioError
from flowcontrol.scenario import Scenario, parse_scenario


def scenario(**changes: Any) -> Scenario:
    stated: dict[str, Any] = {
        "schema": 1,
        "name": "pair",
        "system": "arroyo",
        "duration_s": 40,
        "stages": [
            {"name": "source", "emit_rate": 100, "record_bytes": 10},
            {"name": "sink", "service_rate": [{"at_s": 0, "rate": 200}, {"at_s": 20, "rate": 50}]},
        ],
        "edges": [{"from": "source", "to": "sink"}],
    }
    return parse_scenario({**stated, **changes})


def samples(delay_s: float, waits: float) -> pd.DataFrame:
    """The source goes from 100 to 50 records/s so long after 20 s."""
    at = np.arange(0.1, 40.05, 0.1)
    turn = 20 + delay_s
    emitted = np.where(at < turn, 100 * at, 100 * turn + 50 * (at - turn))
    return pd.DataFrame(
        {"source.out": emitted, "sink.in": emitted - waits, "sink.out": emitted - waits}, index=at
    )


def test_rates_and_what_waits() -> None:
    found = dict(figures(scenario(), samples(3.0, 12.0)))
    assert found[(0, 20), "source", "records"] == pytest.approx(100)
    assert found[(20, 40), "sink", "records"] == pytest.approx(50)
    assert found[(20, 40), "before sink", "waits"] == pytest.approx(12)


def test_how_long_a_source_goes_on() -> None:
    found = dict(figures(scenario(), samples(3.0, 12.0)))
    assert found[(20, 40), "source", "follows"] == pytest.approx(3.0, abs=0.01)
    assert ((0, 20), "source", "follows") not in found
    assert follows_s(1.0, Line(100.0, 0.0), Line(50.0, 75.0)) == pytest.approx(0.5)


def test_lots_make_no_difference_to_how_long_a_source_goes_on() -> None:
    run = samples(3.0, 12.0)
    run["source.out"] = 70 * np.floor(run["source.out"] / 70)
    found = dict(figures(scenario(), run))
    assert found[(20, 40), "source", "follows"] == pytest.approx(3.0, abs=0.1)


def test_a_swing_of_one_run_alone_is_apart() -> None:
    steady, swinging = samples(3.0, 12.0), samples(3.0, 12.0)
    at = swinging.index.to_numpy()
    swinging["source.out"] += 40 * np.sin(np.pi * at / 2)
    for run in ((steady, swinging), (swinging, steady)):
        found = [row for row in rows(scenario(), *run) if row.figure == "depth"]
        assert found and not any(row.agrees for row in found)


def test_a_swing_has_a_period_and_a_depth() -> None:
    at = np.arange(0.1, 40.05, 0.1)
    rate = np.where((at % 4) < 2, 200.0, 0.0)
    counted = pd.Series(np.cumsum(rate) * 0.1, index=at)
    found = dict(swings(counted))
    assert found["period"] == pytest.approx(4, abs=0.1)
    assert found["depth"] == pytest.approx(2, abs=0.1)
    assert not dict(swings(pd.Series(100 * at, index=at)))


def test_batches_are_told_from_each_other() -> None:
    at = np.arange(0.1, 40.05, 0.1)
    stairs = 100 * np.floor(at / 0.5 + 1e-6)
    stairs[at > 30.05] += 150
    found = dict(batches(pd.Series(stairs, index=at)))
    assert found == {"median batch": 100, "largest batch": 150}
    assert not dict(batches(pd.Series(100 * at, index=at)))


def test_a_source_of_batches_neither_follows_nor_swings() -> None:
    stages = [
        {"name": "source", "arrival_rate": 100, "emit_rate": 1e6, "record_bytes": 10},
        {"name": "sink", "service_rate": [{"at_s": 0, "rate": 200}, {"at_s": 20, "rate": 50}]},
    ]
    batched = scenario(system="kafka-streams", stages=stages)
    kinds = {figure for (_, _, figure), _ in figures(batched, samples(3.0, 12.0))}
    assert kinds == {"records", "waits"}


def test_what_is_apart_is_marked() -> None:
    near, far = samples(3.0, 12.0), samples(5.0, 24.0)
    apart = [row for row in rows(scenario(), near, far) if not row.agrees]
    assert {(row.place, row.figure) for row in apart} == {
        ("before sink", "waits"),
        ("source", "follows"),
    }
    assert "apart" in show(apart) and f"0 of {len(apart)} figures agree" in show(apart)
    assert Row((0, 1), "sink", "records", 100, 102.9).agrees
    assert not Row((0, 1), "sink", "records", 100, 103.1).agrees


def test_a_program_is_given_rates_sizes_and_parameters() -> None:
    found = properties(scenario())
    assert found["stages"] == "source,sink"
    assert found["sink.rates"] == "0:200,20000000:50"
    assert found["source.bytes"] == "10"
    assert found["slots"] == "8192"


@pytest.mark.parametrize(
    ("change", "place"),
    [
        ({"parallelism": 2}, "stages[1].parallelism"),
        ({"requests": {"in_flight": 2, "latency_ms": 5}, "service_rate": None}, "requests"),
    ],
)
def test_what_no_program_runs_is_refused(change: dict[str, Any], place: str) -> None:
    stages = [
        {"name": "source", "emit_rate": 100, "record_bytes": 10},
        {"name": "sink", "service_rate": 200, **change},
    ]
    stages = [{key: value for key, value in stage.items() if value is not None} for stage in stages]
    with pytest.raises(ScenarioError, match="stages") as refused:
        properties(scenario(stages=stages))
    assert place in str(refused.value)
