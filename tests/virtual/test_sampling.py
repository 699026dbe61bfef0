"""Samples of backpressure on the virtual clock: the live clock's, and what the timers say."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from flowcontrol.layout.job import Job
from flowcontrol.layout.physical_graph import build_physical_graph
from flowcontrol.records import SAMPLES
from flowcontrol.scenario import load_scenario, parse_scenario
from flowcontrol.virtual.clock import run_job

CONF = Path(__file__).resolve().parents[2] / "conf"
SETS = {"samples": 20, "delay_ms": 20, "refresh_s": 1}


def loaded(name: str, *overrides: str, sampling: Any = None, round_us: int | None = None) -> Job:
    scenario = load_scenario(CONF / f"{name}.yaml", overrides=overrides)
    if sampling is not None:
        changed = scenario.canonical() | {"monitoring": {"sampling": sampling}}
        scenario = parse_scenario(changed)
    return build_physical_graph(scenario, round_us=round_us)


@pytest.mark.parametrize(
    ("name", "overrides", "round_us"),
    [
        ("skew", ("duration_s=4", "stages.workers.service_rate=[400,40,400,400]"), None),
        ("three-stages", ("duration_s=4", "stages.sink.service_rate=150"), 7000),
    ],
)
def test_both_clocks_take_the_same_samples(
    name: str, overrides: tuple[str, ...], round_us: int | None, references: ModuleType
) -> None:
    job = loaded(name, *overrides, sampling=SETS, round_us=round_us)
    found = run_job(job).tables["samples"]
    assert found.schema.equals(SAMPLES.arrow_schema())
    assert found.equals(references.live_tables(job)["samples"])
    ratios = found["ratio"].to_pylist()
    assert max(ratios) > 0.5
    assert min(ratios) < 0.1
    assert len(set(found["t_s"].to_pylist())) == 3


def test_sampling_changes_nothing_else() -> None:
    """The kernel stops around each sample, which must not show."""
    plain = run_job(loaded("skew", "duration_s=6"))
    watched = run_job(loaded("skew", "duration_s=6", sampling=SETS))
    assert watched.tables.keys() - plain.tables.keys() == {"samples"}
    assert watched.transfers == plain.transfers
    for name, table in plain.tables.items():
        assert table.equals(watched.tables[name]), name


def test_a_set_is_right_within_its_error() -> None:
    """In a steady state, against the timers: four times the standard error of 100 samples."""
    job = loaded("experiment", "duration_s=20", sampling={}, round_us=1000)
    tables = run_job(job).tables
    sampled = {row["stage"]: row["ratio"] for row in tables["samples"].to_pylist()}
    own = [row for row in tables["stages"].to_pylist() if row["t_s"] <= 4.95]
    for stage, ratio in sampled.items():
        shares = [row["backpressured_ms_per_s"] for row in own if row["stage"] == stage]
        share = sum(shares) / len(shares) / 1000
        assert abs(ratio - share) <= 4 * (share * (1 - share) / 100) ** 0.5 + 0.01, stage


def test_a_burst_between_two_sets_is_not_seen() -> None:
    """Timers say it; sampling, once a minute for five seconds, does not."""
    rates = "stages.consumer.service_rate=[{at_s: 0, rate: 20000}, {at_s: 20, rate: 100}, " + (
        "{at_s: 40, rate: 20000}]"
    )
    job = loaded("experiment", "duration_s=75", rates, sampling={}, round_us=10_000)
    tables = run_job(job).tables
    assert set(tables["samples"]["level"].to_pylist()) == {"OK"}
    assert sorted(set(tables["samples"]["t_s"].to_pylist())) == [4.95, 69.9]
    assert max(tables["stages"]["backpressured_ms_per_s"].to_pylist()) > 800
