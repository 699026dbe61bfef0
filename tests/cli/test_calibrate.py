"""``flowcontrol calibrate``, from a real Flink's dump to a folder."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from flowcontrol.cli.main import main
from flowcontrol.scenario import load_scenario
from modules import ROOT

DUMP = ROOT / "bench" / "real_flink" / "dumps" / "skewed-hash.json.gz"


def test_a_dump_becomes_a_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out"
    words = ["calibrate", "--flink", str(DUMP), "--out", str(out), "--quiet"]
    assert main(words) == 0
    said = capsys.readouterr().out
    assert "The bottleneck is workers, in the input and in the run." in said
    assert "cluster.network_latency_ms: 0 (no metric holds it" in said
    text = (out / "scenario.yaml").read_text()
    scenario = load_scenario(out / "scenario.yaml")
    assert scenario.stage("workers").parallelism == 3
    # Each measured or assumed key has its comment beside it.
    assert "channel_weights" in text
    assert "# read: ship_strategy HASH of the plan" in text
    assert "# cluster.network_latency_ms: assumed: no metric holds it" in text
    kept = json.loads((out / "calibration.json").read_text())
    assert set(kept["bottleneck"].values()) == {"workers"}
    keys = {one["figure"] for one in kept["figures"]}
    assert {"stages.workers.service_rate", "edges.source->workers.channel_weights"} <= keys
    assert all(set(one) == {"figure", "value", "origin", "error"} for one in kept["assumptions"])
    assert len(kept["compared"]) > 30
    assert kept["contradictions"] == []
    assert (out / "run" / "report.html").exists()
    summary = json.loads((out / "run" / "summary.json").read_text())
    assert summary["bottleneck"] == "workers"
    assert yaml.safe_load(text)["name"] == scenario.name
    assert main(words) == 2
    assert "holds a calibration already" in capsys.readouterr().err


def test_a_narrow_terminal_has_every_place_and_figure(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    progress = ROOT / "bench" / "spark_progress" / "files.jsonl"
    out = str(tmp_path / "out")
    assert main(["calibrate", "--spark", str(progress), "--out", out, "--quiet"]) == 0
    said = capsys.readouterr().out
    table = [line.split() for line in said.partition("Spark's progress")[0].splitlines()]
    assert ["figure", "observed", "predicted"] in table
    assert ["query:"] in table
    assert [line[0] for line in table if len(line) == 3][1:] == ["batch_ms", "rows", "rows_per_s"]
    text = (tmp_path / "out" / "scenario.yaml").read_text()
    assert "4 figures are measured, 1 is assumed: look at it, and change" in text
