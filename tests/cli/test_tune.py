"""The command line of tune: what it refuses, what it prints, and a small real search."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from flowcontrol.cli import tune as tune_cli
from flowcontrol.cli.main import main as flowcontrol
from flowcontrol.errors import RunError

pytest.importorskip("optuna", reason="the extra tune is not installed")

ROOT = Path(__file__).resolve().parents[2]
EXCLUSIVE = "taskmanager.network.memory.buffers-per-channel"
FLOATING = "taskmanager.network.memory.floating-buffers-per-gate"
LEAST = ["--minimise", "memory"]
VARY = ["--vary", f"options.{EXCLUSIVE}=1,2"]


def main(words):
    """Run the command."""
    return flowcontrol(["tune", *words])


SMALL = {
    "schema": 1,
    "name": "small",
    "duration_s": 2,
    "round_ms": 20,
    "sample_interval_s": 1,
    "stages": [
        {"name": "source", "emit_rate": 100, "record_bytes": 20_000},
        {"name": "sink", "service_rate": 80},
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
    ([*VARY], ["--minimise", "nothing to search for", "--minimise memory"]),
    ([*LEAST, "--vary", f"options.{EXCLUSIVE}=2"], ["one value is nothing to choose from"]),
    ([*LEAST, "--vary", f"options.{EXCLUSIVE}=3:3:2"], ["both ends are 3"]),
    ([*LEAST, "--vary", f"options.{EXCLUSIVE}"], ["not of the form KEY=VALUES"]),
    ([*LEAST, "--vary", "stages.sink.service_rate=9,-9"], ["service_rate=-9", "at least 0"]),
    (["--minimise", "memori", *VARY], ["--minimise memori", "did you mean 'memory'"]),
    (["--maximise", "sink.rate", *VARY], ["--maximise sink.rate", "unknown column 'rate'"]),
    ([*LEAST, "--subject-to", "sink.rate_in>5", *VARY], ["> is not an operator", "FIGURE>=LIMIT"]),
    ([*LEAST, "--subject-to", "sink.rate_in>=5mb", *VARY], ["not in 'mb'", "records/s"]),
    ([*LEAST, *LEAST, *VARY], ["named twice"]),
    ([*LEAST, *VARY, "--runs", "0"], ["--runs: 0: state at least 1"]),
    ([*LEAST, *VARY, "--processes", "0"], ["--processes"]),
    ([*LEAST, *VARY, "--seed", "-1"], ["--seed: -1: state at least 0 and at most 4,294,967,295"]),
    ([*LEAST, *VARY, "--seed", "4294967296"], ["--seed: 4,294,967,296"]),
]


@pytest.mark.parametrize(("words", "texts"), REFUSED, ids=lambda value: str(value[-1])[:40])
def test_what_is_refused_writes_nothing_and_exits_with_2(file, tmp_path, capsys, words, texts):
    assert main([str(file), "--processes", "1", *words, "--out", "results"]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    for text in texts:
        assert text in said.err
    assert below(tmp_path) == {"small.yaml"}


def test_arguments_reach_the_search(file, monkeypatch):
    seen = {}

    def fake(scenario, vary, **more):
        seen.update(more, scenario=scenario, vary=vary)
        raise RunError("enough")

    monkeypatch.setattr(tune_cli, "tune", fake)
    words = ["--vary", "duration_s=1,2", "--maximise", "sink.rate_in", *LEAST, "--runs", "7"]
    words += ["--subject-to", "slots<=2", "--subject-to", "memory<=1mb", "--batch", "3"]
    words += ["--seed", "6", "--set", "x=y", "--out", "o", "--overwrite", "--processes", "2"]
    assert main([str(file), *words]) == 1
    assert seen["vary"] == ["duration_s=1,2"]
    assert seen["objectives"] == [("maximise", "sink.rate_in"), ("minimise", "memory")]
    assert seen["subject_to"] == ["slots<=2", "memory<=1mb"]
    assert (seen["runs"], seen["batch"], seen["seed"]) == (7, 3, 6)
    assert (seen["overrides"], seen["out"], seen["overwrite"]) == (["x=y"], "o", True)


def test_without_optuna_it_says_how_to_install_it(file, monkeypatch, capsys):
    monkeypatch.setattr("flowcontrol.experiments.tune.search.find_spec", lambda name: None)
    assert main([str(file), *LEAST, *VARY]) == 1
    said = capsys.readouterr().err
    assert "a search needs Optuna: pip install" in said
    assert "[tune]" in said


@pytest.mark.slow
def test_a_real_search_finds_the_least_memory_of_the_grid(file, tmp_path, capsys):
    """Against every point of the grid, run by a sweep."""
    from deltalake import DeltaTable

    from flowcontrol import sweep
    from flowcontrol.layout.plan import network_memory

    vary = {f"options.{EXCLUSIVE}": [1, 2, 3, 4], f"options.{FLOATING}": [1, 2, 4]}
    swept = sweep(file, vary, out="grid", processes=1, quiet=True)
    rates = swept.table.to_pandas().query("stage == 'sink'")
    fair = rates[rates["rate_in_second_half"] >= 75]
    assert 0 < len(fair) < 12
    least = min(
        network_memory(swept.plan.scenario(point))
        for point in swept.plan.points()
        if ((fair["buffers_per_channel"] == point[0])
            & (fair["floating_buffers_per_gate"] == point[1])).any()
    )  # fmt: skip
    words = [str(file), *LEAST, "--subject-to", "sink.rate_in_second_half>=75", "--runs", "10"]
    words += [f"--vary=options.{EXCLUSIVE}=1:4:4", f"--vary=options.{FLOATING}=1,2,4"]
    words += ["--out", "out", "--processes", "1", "--batch", "3"]
    assert main(words) == 0
    said = capsys.readouterr()
    frame = DeltaTable(str(tmp_path / "out" / "tuning")).to_pandas()
    assert frame[frame["is_best"]]["memory"].tolist() == [least]
    assert "Best: memory" in said.out
    assert "less than as given" in said.out
    assert f"best:   {tmp_path / 'out' / 'best.yaml'}" in said.out
    # Nothing satisfies it: status 1, the nearest is shown, and there is no best scenario.
    impossible = [*words[:4], "sink.rate_in_second_half>=99", *words[5:]]
    assert main([*impossible, "--overwrite"]) == 1
    said = capsys.readouterr().out
    assert "No point that was run satisfies the constraints" in said
    assert "nearest" in said
    assert not (tmp_path / "out" / "best.yaml").exists()


def test_the_pipeline_is_this_command():
    found = subprocess.run(
        [sys.executable, ROOT / "pipelines" / "tune.py", "no.yaml", *LEAST, *VARY],
        capture_output=True,
        text=True,
        cwd=ROOT,
    )
    assert found.returncode == 2
    assert "no.yaml is refused" in found.stderr
