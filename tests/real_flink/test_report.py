"""docs/explanation/real-flink.md shows what bench/real_flink/measured/scenarios.json holds."""

from __future__ import annotations

import json
from pathlib import Path

import beside
import pytest
from runs import HERE

import report
from flowcontrol.scenario.given import as_base, as_scenario
from flowcontrol.virtual import simulate

CONF = HERE.parents[1] / "conf"
PAGE = Path(__file__).resolve().parents[2] / "docs" / "explanation" / "real-flink.md"


def test_the_page_has_the_table_of_all_that_is_kept() -> None:
    table = "\n".join([report.HEAD, *report.lines(report.read())])
    assert table in PAGE.read_text(encoding="utf-8")


def test_rates_agree_with_flink_within_three_per_cent_where_there_is_enough_to_count() -> None:
    apart = {
        (key, row[0], row[2]): row[5] / row[4] - 1
        for key, rows in report.read().items()
        for row in rows
        if row[3] == "records" and row[4] >= 100 and row[1] - row[0] >= 10
    }
    assert len(apart) >= 90
    assert {place: share for place, share in apart.items() if abs(share) > 0.035} == {}


def test_the_experiment_on_loopback_is_that_of_conf_but_for_its_latency() -> None:
    ours, theirs = (
        dict(as_base(folder / "experiment.yaml").mapping) for folder in (HERE / "jobs", CONF)
    )
    differing = {"round_ms", "cluster", "options"}
    assert ours.keys() == theirs.keys()
    assert {key for key in ours if ours[key] != theirs[key]} <= differing
    assert ours["cluster"] == {
        key: value for key, value in theirs["cluster"].items() if key != "network_latency_ms"
    }
    assert ours["options"].keys() == theirs["options"].keys()


def test_what_is_kept_of_the_experiment_is_what_the_emulation_makes_of_it() -> None:
    stated = dict(as_base(HERE / "jobs" / "experiment.yaml").mapping)
    scenario = as_scenario({key: value for key, value in stated.items() if key != "round_ms"})
    tables = simulate(scenario).tables
    kept = report.read()["experiment 1.20.1"]
    found = {
        (*window, place, figure): value
        for window in beside.windows(scenario)
        for (place, figure, _), value in beside.figures(scenario, tables, window)
    }
    assert {tuple(row[:4]): row[5] for row in kept} == pytest.approx(found, rel=1e-4, abs=1e-4)


def test_a_comparison_replaces_the_one_of_its_scenario_and_version(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(report, "KEPT", tmp_path / "kept.json")
    rows = [
        {"window": [5, 20], "place": place, "figure": figure, "measured": 123456.7, "emulated": 2}
        for place, figure in (
            *(("source", "records"), ("source", "blocked"), ("sink", "records")),
            *(("to map", "in flight"), ("to sink", "in flight"), ("sink", "latency p50")),
        )
    ]
    folder = tmp_path / "three-stages-1.20.1"
    folder.mkdir()
    (folder / "beside.json").write_text(json.dumps(rows), encoding="utf-8")
    report.take([folder])
    report.take([folder])
    kept = report.read()
    assert kept["three-stages 1.20.1"][0] == [5, 20, "source", "records", 123460, 2]
    assert list(report.lines(kept)) == [
        "| three-stages | 1.20.1 | 5-20 | 123,460 / 2.0 | 123,460 / 2.0 | "
        "246,920 / 4.0 | 123,460 / 2.0 |"
    ]
