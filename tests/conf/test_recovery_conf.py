"""The scenario of a failure shows what its first lines say, on the virtual clock."""

from __future__ import annotations

from pathlib import Path

import pytest

from flowcontrol.layout.fault_tolerance import restart_rates
from flowcontrol.layout.physical_graph import build_physical_graph
from flowcontrol.scenario import load_scenario
from flowcontrol.topics.restarts import restart_summary
from flowcontrol.virtual import run_job, simulate

PATH = Path(__file__).resolve().parents[2] / "conf" / "recovery.yaml"


def test_a_failure_costs_what_the_age_and_the_rates_say() -> None:
    """4 s and 2 s of 300 records/s wait, and 200/s more than comes works them off: 9 s."""
    run = simulate(load_scenario(PATH))
    (row,) = run.tables["restarts"].to_pylist()
    text = " ".join(line.lstrip("# ") for line in PATH.read_text().splitlines())
    assert "4 s x 300/s = 1,200 records" in text
    assert "1,800 / (500 - 300) = 9 s" in text
    assert row["cause"] == "subtask 0 of map"
    assert row["checkpoint_id"] == 3
    assert row["tasks"] == 5
    assert row["records_reprocessed"] == pytest.approx(1200, rel=0.01)
    assert row["detected_s"] - row["failed_s"] == pytest.approx(0.01)
    assert row["restarted_s"] - row["detected_s"] == pytest.approx(2, abs=0.02)
    assert row["caught_up_s"] - row["running_s"] == pytest.approx(9, rel=0.02)
    checkpoints = run.tables["checkpoints"].to_pandas()
    assert list(checkpoints.triggered_s)[:3] == [10, 20, 30]


def test_the_sentence_has_the_time_by_rates_alone() -> None:
    job = build_physical_graph(load_scenario(PATH), round_us=10_000)
    run = run_job(job)
    found = restart_summary(run.tables["restarts"], 60.0, restart_rates(job))
    (sentence,) = found["sentences"]
    assert "where rates alone give 9 s" in sentence
