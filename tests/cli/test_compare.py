"""The command line of compare.py: what it refuses, what it prints, and a small real comparison."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from flowcontrol.cli import compare as compare_cli
from flowcontrol.cli.main import main as flowcontrol
from flowcontrol.errors import RunError
from flowcontrol.spark.session import LAUNCHERS

ROOT = Path(__file__).resolve().parents[2]


def main(words):
    """Run the command."""
    return flowcontrol(["compare", *words])


SMALL = {
    "schema": 1,
    "name": "small",
    "duration_s": 10,
    "round_ms": 20,
    "sample_interval_s": 0.5,
    "stages": [
        {"name": "source", "emit_rate": 100, "record_bytes": 2000},
        {"name": "sink", "service_rate": [{"at_s": 0, "rate": 200}, {"at_s": 5, "rate": 50}]},
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


REFUSED = [
    (["--systems", "flnk"], ["--systems", "'flnk'", "did you mean 'flink'"]),
    (["--systems", ","], ["names no system"]),
    (["--processes", "0"], ["--processes", "at least 1"]),
    (["--clock", "live", "--processes", "2"], ["--processes", "leave it out"]),
    (["--set", "stages.sink.service_rate=-1"], ["stages[1].service_rate", "at least 0"]),
    (["--set", "stages.x.y=1"], ["'x'"]),
]


@pytest.mark.parametrize(("words", "texts"), REFUSED, ids=lambda value: str(value[-1])[:40])
def test_what_is_refused_writes_nothing_and_exits_with_2(file, tmp_path, capsys, words, texts):
    assert main([str(file), *words, "--out", "results"]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    for text in texts:
        assert text in said.err
    assert [path.name for path in tmp_path.iterdir()] == ["small.yaml"]


def test_arguments_reach_the_comparison(file, monkeypatch):
    seen = {}

    def fake(scenario, **more):
        seen.update(more, scenario=scenario)
        raise RunError("enough")

    monkeypatch.setattr(compare_cli, "compare", fake)
    words = ["--systems", "flink, storm", "--set", "x=y", "--out", "o", "--overwrite"]
    assert main([str(file), *words]) == 1
    assert (seen["systems"], seen["overrides"]) == ("flink, storm", ["x=y"])
    assert (seen["clock"], seen["out"], seen["overwrite"]) == ("virtual", "o", True)
    assert seen["scenario"] == file


@pytest.mark.parametrize(
    ("words", "clock", "processes"),
    [
        ([], "virtual", os.cpu_count()),
        (["--processes", "3"], "virtual", 3),
        (["--clock", "virtual"], "virtual", os.cpu_count()),
        (["--clock", "virtual", "--processes", "1"], "virtual", 1),
        (["--clock", "live"], "live", None),
    ],
)
def test_where_it_runs_does_not_depend_on_a_default_that_is_stated(
    file, monkeypatch, words, clock, processes
):
    seen = {}
    for name in LAUNCHERS:
        monkeypatch.delenv(name, raising=False)

    def fake(_, **more):
        seen.update(more)
        raise RunError("enough")

    monkeypatch.setattr(compare_cli, "compare", fake)
    assert main([str(file), *words]) == 1
    assert (seen["clock"], seen["processes"], seen["systems"]) == (clock, processes, None)
    monkeypatch.setenv("PYSPARK_SUBMIT_ARGS", "pyspark-shell")
    assert main([str(file), *words]) == 1
    assert seen["processes"] == (processes if "--processes" in words else None)


def test_a_failed_comparison_exits_with_1_and_a_stopped_one_with_130(file, monkeypatch, capsys):
    def failing(*_, **__):
        raise RunError("the disk is full")

    def stopped(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(compare_cli, "compare", failing)
    assert main([str(file)]) == 1
    assert "the comparison failed: the disk is full" in capsys.readouterr().err
    monkeypatch.setattr(compare_cli, "compare", stopped)
    assert main([str(file)]) == 130
    assert "same command again to continue" in capsys.readouterr().err


def test_a_system_that_fails_exits_with_1_and_the_page_is_there(file, monkeypatch, capsys):
    def broken(_):
        raise ArithmeticError("a planted fault")

    real = compare_cli.compare
    monkeypatch.setattr(compare_cli, "compare", lambda *a, **k: real(*a, runner=broken, **k))
    assert main([str(file), "--systems", "flink", "--processes", "1", "--out", "x"]) == 1
    said = capsys.readouterr()
    assert "failed: flink" in said.err
    assert "flink failed: ArithmeticError: a planted fault" in said.out
    assert Path("x/report.html").exists()


@pytest.mark.slow
def test_a_real_comparison_on_the_virtual_clock(file, capsys):
    assert main([str(file), "--systems", "flink", "--processes", "1", "--out", "x"]) == 0
    said = capsys.readouterr()
    assert "1 of 1 systems" in said.err
    assert "report: x/report.html" in said.out.replace(f"{file.parent}/", "")
    row = next(line for line in said.out.splitlines() if line.startswith("flink "))
    assert "%" in row


@pytest.mark.spark
@pytest.mark.long
@pytest.mark.slow
def test_a_real_comparison_on_spark(spark, file):
    """The same figures as in this process."""
    from flowcontrol.experiments.compare import compare

    on_spark = compare(file, systems=["flink"], out="a", spark=spark)
    here = compare(file, systems=["flink"], out="b", processes=1)
    assert on_spark.outcomes[0].state == "ran"
    assert on_spark.outcomes[0].figures == here.outcomes[0].figures
    assert on_spark.outcomes[0].lines == here.outcomes[0].lines


def test_the_pipeline_is_this_command():
    found = subprocess.run(
        [sys.executable, ROOT / "pipelines" / "compare.py", "no.yaml", "--processes", "1"],
        capture_output=True,
        text=True,
        cwd=ROOT,
    )
    assert found.returncode == 2
    assert "no.yaml is refused" in found.stderr
