"""The command line of capacity.py: refusals, what is passed on, what is printed."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from flowcontrol.cli import capacity as capacity_cli
from flowcontrol.cli.main import main as flowcontrol
from flowcontrol.errors import RunError

ROOT = Path(__file__).resolve().parents[2]


def main(words: list[str]) -> int:
    """Run the command."""
    return flowcontrol(["capacity", *words])


SMALL: dict[str, Any] = {
    "schema": 1,
    "name": "small",
    "duration_s": 16,
    "round_ms": 2,
    "stages": [
        {"name": "source", "emit_rate": 1000, "record_bytes": 1000},
        {"name": "sink", "service_rate": 2000},
    ],
    "edges": [{"from": "source", "to": "sink", "partitioner": "rebalance"}],
}


@pytest.fixture
def scenario(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The file of a small scenario, alone in the current folder."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "small.yaml").write_text(yaml.safe_dump(SMALL))
    return "small.yaml"


REFUSED = [
    (["--stage", "sink"], "--stage: 'sink' is not a source"),
    (["--stage", "source", "--set", "duration_s=-1"], "duration_s: -1"),
    (["--stage", "source", "--tolerance", "0"], "--tolerance: '0' is out of range"),
    (["--stage", "source", "--tolerance", "much"], "--tolerance: 'much' is out of range"),
    (["--stage", "source", "--tolerance", "nan"], "at least 0.0001 and at most 0.5"),
]


@pytest.mark.parametrize(("arguments", "text"), REFUSED)
def test_what_is_refused(
    scenario: str, arguments: list[str], text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([scenario, *arguments]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert "is refused (1 problem)" in said.err
    assert text in said.err
    assert [path.name for path in Path().iterdir()] == [scenario]


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["small.yaml"], "the following arguments are required: --stage"),
        (["--stage", "source"], "the following arguments are required: scenario"),
        (["small.yaml", "--stage", "source", "--tol", "1"], "unknown option '--tol'"),
    ],
)
def test_a_wrong_command_is_refused(
    arguments: list[str], text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(arguments)
    assert stopped.value.code == 2
    assert text in capsys.readouterr().err


def test_what_is_passed_on(scenario: str, monkeypatch: pytest.MonkeyPatch) -> None:
    given: dict[str, Any] = {}

    def find(changed: Any, stage: str, **options: Any) -> Any:
        given.update(options, scenario=changed, stage=stage)
        raise KeyboardInterrupt

    monkeypatch.setattr(capacity_cli, "capacity", find)
    arguments = ["--stage", "source", "--tolerance", "0.1", "--set", "duration_s=3"]
    assert main([scenario, *arguments]) == 130
    assert (given["stage"], given["tolerance"]) == ("source", 0.1)
    assert (str(given["scenario"]), given["overrides"]) == (scenario, ["duration_s=3"])


def test_a_search_that_fails(
    scenario: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(*_: object, **__: object) -> Any:
        raise RunError("its input ended")

    monkeypatch.setattr(capacity_cli, "capacity", fail)
    assert main([scenario, "--stage", "source"]) == 1
    assert "the search failed: its input ended" in capsys.readouterr().err


def test_the_result_is_printed_and_each_run_beside_it(
    scenario: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([scenario, "--stage", "source"]) == 0
    said = capsys.readouterr()
    found = re.match(r"source can sustain ([\d,.]+) records/s per subtask", said.out)
    assert found is not None
    assert float(found[1].replace(",", "")) == pytest.approx(2000, rel=0.01)
    assert "limited by sink, whose rate in force is 2,000 records/s" in said.out
    assert "1,000 records/s: sustained\n" in said.err
    assert [path.name for path in Path().iterdir()] == [scenario]


def test_the_pipeline_starts_without_spark(scenario: str) -> None:
    pipeline = ROOT / "pipelines" / "capacity.py"
    assert "\n# needs no Java\n" in pipeline.read_text()
    run = subprocess.run(
        [sys.executable, str(pipeline), scenario, "--stage", "sink"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (run.returncode, run.stdout) == (2, "")
    assert "--stage: 'sink' is not a source" in run.stderr
