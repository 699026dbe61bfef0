"""The command line of sweep.py: what it refuses, what it prints, and a small real sweep."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from flowcontrol.cli import sweep as sweep_cli
from flowcontrol.cli.main import main as flowcontrol
from flowcontrol.errors import RunError

ROOT = Path(__file__).resolve().parents[2]
EXCLUSIVE = "taskmanager.network.memory.buffers-per-channel"


def main(words):
    """Run the command."""
    return flowcontrol(["sweep", *words])


SMALL = {
    "schema": 1,
    "name": "small",
    "duration_s": 2,
    "round_ms": 20,
    "sample_interval_s": 0.5,
    "options": {"taskmanager.network.memory.floating-buffers-per-gate": 2},
    "stages": [
        {"name": "source", "emit_rate": 100, "record_bytes": 2000},
        {"name": "sink", "service_rate": 50},
    ],
    "edges": [{"from": "source", "to": "sink", "partitioner": "rebalance"}],
}


@pytest.fixture
def file(tmp_path, monkeypatch):
    """The file of a small scenario, in an empty current folder."""
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "small.yaml"
    path.write_text(yaml.safe_dump(SMALL))
    return path


def below(folder):
    return {path.name for path in folder.iterdir()}


REFUSED = [
    (["--vary", "stages.sink.service_rate=10,-1"], ["variant 2 of 2", "stages[1]", "at least 0"]),
    (["--vary", "stages.sink.service_rate"], ["--vary", "not of the form KEY=VALUES"]),
    (["--vary", "stages.sink.service_rate=1:2"], ["START:STOP:COUNT"]),
    (["--vary", "stages.snik.service_rate=1"], ["'snik'", "source, sink"]),
    (["--vary", f"options.{EXCLUSIVE}x=1"], ["did you mean"]),
    (["--vary", "options.taskmanager.network.numberOfBuffers=2"], ["Insufficient number"]),
    (["--vary", "cluster.bandwidth_bytes_per_s=nan"], ["bandwidth_bytes_per_s"]),
    (["--vary", "duration_s=1", "--vary", "duration_s=2"], ["varied twice"]),
    (["--vary", "duration_s=1", "--set", "stages.x.y=1"], ["'x'"]),
    (["--vary", "duration_s=1", "--metric", "sink.rate"], ["--metric sink.rate", "unknown column"]),
    (["--vary", "duration_s=1", "--sample", "2"], ["--sample", "only 1 points"]),
    (["--vary", "duration_s=1", "--replications", "0"], ["--replications"]),
    (["--vary", "duration_s=1", "--processes", "0"], ["--processes"]),
]


@pytest.mark.parametrize(("words", "texts"), REFUSED, ids=lambda value: str(value[-1])[:40])
def test_what_is_refused_writes_nothing_and_exits_with_2(file, tmp_path, capsys, words, texts):
    assert main([str(file), "--processes", "1", *words, "--out", "results"]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    for text in texts:
        assert text in said.err
    assert below(tmp_path) == {"small.yaml"}


def test_a_file_that_is_not_there_is_refused(tmp_path, capsys):
    assert main([str(tmp_path / "no.yaml"), "--vary", "duration_s=1"]) == 2
    assert "no.yaml" in capsys.readouterr().err


def test_the_folder_of_a_run_is_refused(file, tmp_path, capsys):
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "run.json").write_text("{}")
    assert main([str(file), "--vary", "duration_s=1", "--out", "run", "--processes", "1"]) == 2
    assert "not a sweep" in capsys.readouterr().err
    assert below(tmp_path / "run") == {"run.json"}


def test_nothing_to_vary_is_no_sweep(file, capsys):
    with pytest.raises(SystemExit) as caught:
        main([str(file)])
    assert caught.value.code == 2
    assert "--vary" in capsys.readouterr().err


def test_the_help_says_what_a_range_is(capsys):
    with pytest.raises(SystemExit):
        main(["--help"])
    text = " ".join(capsys.readouterr().out.split())
    assert "START:STOP:COUNT" in text
    assert "1000:10000:50 is 50 points" in text
    assert "both ends included" in text


def test_arguments_reach_the_sweep(file, monkeypatch):
    seen = {}

    def fake(scenario, vary, **more):
        seen.update(more, scenario=scenario, vary=vary)
        raise RunError("enough")

    monkeypatch.setattr(sweep_cli, "sweep", fake)
    words = ["--vary", "duration_s=1,2", "--vary", "seed=3", "--replications", "4", "--sample", "5"]
    words += ["--seed", "6", "--metric", "a.b", "--metric", "c.d", "--set", "x=y", "--out", "o"]
    assert main([str(file), *words, "--overwrite", "--processes", "2"]) == 1
    assert seen["vary"] == ["duration_s=1,2", "seed=3"]
    assert (seen["replications"], seen["sample"], seen["seed"]) == (4, 5, 6)
    assert (seen["metrics"], seen["overrides"]) == (["a.b", "c.d"], ["x=y"])
    assert (seen["out"], seen["overwrite"], seen["processes"]) == ("o", True, 2)


def test_a_failed_sweep_exits_with_1_and_a_stopped_one_with_130(file, monkeypatch, capsys):
    def failing(*_, **__):
        raise RunError("the disk is full")

    def stopped(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(sweep_cli, "sweep", failing)
    assert main([str(file), "--vary", "duration_s=1"]) == 1
    assert "the sweep failed: the disk is full" in capsys.readouterr().err
    monkeypatch.setattr(sweep_cli, "sweep", stopped)
    assert main([str(file), "--vary", "duration_s=1"]) == 130
    assert "same command again to continue" in capsys.readouterr().err


@pytest.mark.slow
def test_a_real_sweep_on_the_virtual_clock(file, tmp_path, capsys):
    """Spelled as a shell hands it over: the quotes around the option's key are gone."""
    from deltalake import DeltaTable

    words = ["--vary", f"options.{EXCLUSIVE}=1,2", "--vary", "stages.sink.service_rate=20:80:4"]
    command = [str(file), *words, "--replications", "2", "--out", "out", "--processes", "1"]
    assert main(command) == 0
    said = capsys.readouterr()
    assert "No measurable difference in sink.rate_in over the second half of the run" in said.out
    assert f"table:  {tmp_path / 'out' / 'results'}" in said.out
    assert (tmp_path / "out" / "report.html").exists()
    assert "16 of 16 variants" in said.err
    frame = DeltaTable(str(tmp_path / "out" / "results")).to_pandas()
    sinks = frame[frame["stage"] == "sink"]
    assert len(sinks) == 16
    # Who serves 20 a second takes 20, and who serves 80 of 100 takes 80, but for the start.
    for rate, part in sinks.groupby("sink_service_rate"):
        assert part["rate_in_second_half"].mean() == pytest.approx(rate, rel=0.03)
    assert set(frame["seed"]) == {1, 2}
    # The same command again has nothing to do, and says where things are.
    assert main(command) == 0
    again = capsys.readouterr()
    assert again.err == ""
    assert "No measurable difference in sink.rate_in over the second half of the run" in again.out


def test_the_pipeline_is_this_command():
    found = subprocess.run(
        [sys.executable, ROOT / "pipelines" / "sweep.py", "no.yaml", "--vary", "duration_s=1"],
        capture_output=True,
        text=True,
        cwd=ROOT,
    )
    assert found.returncode == 2
    assert "no.yaml is refused" in found.stderr
