"""The command line of advise, and the advice on the page of a run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from flowcontrol.cli.main import main as flowcontrol

SMALL: dict[str, Any] = {
    "schema": 1,
    "name": "small",
    "duration_s": 8,
    "round_ms": 20,
    "stages": [
        {"name": "source", "emit_rate": 1000, "record_bytes": 200},
        {"name": "sink", "service_rate": 300},
    ],
    "edges": [{"from": "source", "to": "sink", "partitioner": "rebalance"}],
}


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A current folder with the file of a small scenario."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "small.yaml").write_text(yaml.safe_dump(SMALL))
    return tmp_path


def test_it_prints_what_helps_and_where_the_rest_is(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert flowcontrol(["advise", "small.yaml", "--out", "found", "--quiet"]) == 0
    text = capsys.readouterr().out
    assert "subtasks of sink instead of 1" in " ".join(text.split())
    assert "report: " in text
    assert json.loads((here / "found" / "advice.json").read_text())["goal"] == "throughput"


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["small.yaml", "--for", "fun"], "--for: 'fun' is not a goal"),
        (["small.yaml", "--set", "stages.sink.service_rate=-3"], "stages[1].service_rate: -3"),
        (["none.yaml"], "none.yaml"),
    ],
)
def test_what_is_refused(
    arguments: list[str], text: str, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert flowcontrol(["advise", *arguments]) == 2
    assert text in capsys.readouterr().err
    assert sorted(path.name for path in here.iterdir()) == ["small.yaml"]


@pytest.mark.parametrize("flags", [[], ["--no-advice"]])
def test_a_virtual_run_has_it_on_its_page(
    flags: list[str], here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["emulate", "small.yaml", "--clock", "virtual", "--out", "run", "--quiet", *flags]
    assert flowcontrol(command) == 0
    summary = json.loads((here / "run" / "summary.json").read_text())
    page = (here / "run" / "report.html").read_text()
    out = " ".join(capsys.readouterr().out.split())
    assert ("advice" in summary) is not bool(flags)
    assert ("What would help" in page) is not bool(flags)
    assert ("What helps most for its cost" in out) is not bool(flags)
