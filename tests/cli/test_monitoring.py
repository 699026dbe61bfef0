"""A run that is watched: its tables, figures, line on the terminal, part of the page."""

from __future__ import annotations

import json
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from flowcontrol.cli.main import main
from flowcontrol.records import METRICS, SAMPLES
from flowcontrol.virtual import run_job

run_emulate = import_module("flowcontrol.run.emulate")
"""The module; the package has the function of that name."""
run_monitoring = import_module("flowcontrol.topics.monitoring")

TEXT = """\
schema: 1
name: watched
duration_s: 12
round_ms: 20
sample_interval_s: 0.5
monitoring: {sampling: {samples: 20, delay_ms: 50, refresh_s: 9}}
stages:
- {name: source, emit_rate: 100, record_bytes: 2000, placement: [0]}
- name: sink
  service_rate: [{at_s: 0, rate: 200}, {at_s: 3, rate: 20}, {at_s: 7, rate: 500}]
  placement: [1]
edges:
- {from: source, to: sink}
options: {taskmanager.network.memory.floating-buffers-per-gate: 1}
"""


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The scenario, in an empty current folder."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "watched.yaml").write_text(TEXT)
    return tmp_path / "watched.yaml"


def test_a_virtual_run_writes_and_shows_it(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["emulate", str(file), "--clock", "virtual", "--out", "out"]) == 0
    found = {
        table.name: DeltaTable(str(Path("out") / table.name)).to_pyarrow_table()
        for table in (SAMPLES, METRICS)
    }
    for table in (SAMPLES, METRICS):
        assert found[table.name].schema.equals(table.arrow_schema())
    assert found["samples"]["t_s"].to_pylist() == [0.95, 0.95, 10.9, 10.9]
    assert set(found["samples"]["level"].to_pylist()) == {"OK"}
    assert set(found["metrics"]["t_s"].to_pylist()) == {5.0, 10.0, 12.0}
    sampling = json.loads((Path("out") / "summary.json").read_text())["sampling"]
    assert (sampling["requests"], sampling["answers"]) == (4, 4)
    (burst,) = [one for one in sampling["stages"]["source"]["unseen"] if one["level"] == "HIGH"]
    assert (burst["shown"], burst["from_s"] >= 3, burst["until_s"] <= 8) == ("OK", True, True)
    said, page = " ".join(capsys.readouterr().out.split()), Path("out/report.html").read_text()
    text = "2 sets of 20 samples, 4 requests to task managers and as many answers"
    assert text in said
    assert text in page
    assert "its page said OK, the timers say HIGH" in said
    assert '<section id="sampling">' in page
    assert 'id="sampling-chart"' in page


def test_both_clocks_write_the_same(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without Spark: the kernel in place of the queries."""
    monkeypatch.setitem(
        run_emulate._CLOCKS, "live", lambda job, spark, rows: lambda folder, watch: run_job(job)
    )
    live = run_emulate.emulate(file, out="live", clock="live", quiet=True)
    virtual = run_emulate.emulate(file, out="virtual", clock="virtual", quiet=True)
    for name in ("samples", "metrics"):
        assert live.tables[name].equals(virtual.tables[name])
    assert live.summary["sampling"] == virtual.summary["sampling"]


def run(file: Path, monitoring: Any) -> Any:
    changes = {"monitoring": monitoring}
    return run_emulate.emulate(file, overrides=changes, out="out", clock="virtual", quiet=True)


def test_without_the_key_there_are_metrics_only(file: Path) -> None:
    found = run(file, None)
    assert "samples" not in found.tables
    assert found.tables["metrics"].num_rows > 100
    assert "sampling" not in found.summary
    assert 'id="sampling' not in (Path("out") / "report.html").read_text()


def test_metrics_are_left_out_on_request(file: Path) -> None:
    assert "metrics" not in run(file, {"metrics": False}).tables
    assert not (Path("out") / "metrics").exists()


@pytest.mark.parametrize(("monitoring", "is_there"), [(None, False), ({"metrics": True}, True)])
def test_too_many_are_left_out_with_a_word_unless_they_are_asked_for(
    file: Path, monkeypatch: pytest.MonkeyPatch, monitoring: Any, is_there: bool
) -> None:
    said: list[str] = []
    monkeypatch.setattr(run_monitoring, "MOST_ROWS", 10)
    monkeypatch.setattr(run_monitoring.notices, "warn", said.append)
    assert ("metrics" in run(file, monitoring).tables) is is_there
    texts = [text for text in said if "the table metrics is left out" in text]
    assert len(texts) == (0 if is_there else 1)
    assert is_there or "metrics: true" in texts[0]
