"""``--out`` and commands that are started at once: refusals with words, and one owner."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from deltalake import DeltaTable

from flowcontrol.cli.main import main

ROOT = Path(__file__).resolve().parents[2]
SCENARIO = {
    "schema": 1,
    "name": "small",
    "duration_s": 1,
    "round_ms": 100,
    "stages": [
        {"name": "source", "emit_rate": 100, "record_bytes": 200},
        {"name": "sink", "service_rate": 50},
    ],
    "edges": [{"from": "source", "to": "sink", "partitioner": "rebalance"}],
}

COMMANDS = {
    "emulate": ["--clock", "virtual"],
    "sweep": ["--vary", "duration_s=1,2", "--processes", "1"],
    "compare": ["--systems", "flink,storm-1", "--clock", "virtual"],
}


@pytest.fixture
def scenario(tmp_path: Path) -> Path:
    path = tmp_path / "small.yaml"
    path.write_text(yaml.safe_dump(SCENARIO))
    return path


@pytest.mark.parametrize("overwrite", [False, True])
@pytest.mark.parametrize(
    "out", ["file", "file/x", "/proc/nothing/x", "s3://bucket/x", "~nobody-/x"]
)
@pytest.mark.parametrize("name", COMMANDS)
def test_a_place_where_nothing_can_be_made_is_refused(
    name: str,
    out: str,
    overwrite: bool,
    scenario: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").write_text("mine")
    words = [name, str(scenario), *COMMANDS[name], "--out", out]
    assert main([*words, *["--overwrite"][: int(overwrite)]]) == 2
    said = capsys.readouterr().err
    assert "--out: " in said
    assert out.partition("/")[0] in said
    assert (tmp_path / "file").read_text() == "mine"
    assert {path.name for path in tmp_path.iterdir()} == {"file", "small.yaml"}


def start(scenario: Path, out: Path) -> subprocess.Popen[str]:
    command = [sys.executable, str(ROOT / "pipelines" / "emulate.py"), str(scenario)]
    return subprocess.Popen(
        [*command, "--clock", "virtual", "--out", str(out), "--overwrite"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )


def test_of_two_commands_at_once_each_ends_with_a_whole_run_or_a_refusal(
    scenario: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    for _ in range(2):
        commands = [start(scenario, out) for _ in range(2)]
        ends = []
        for command in commands:
            _, said = command.communicate()
            ends.append(command.returncode)
            assert "Traceback" not in said
            if command.returncode == 2:
                assert "another process runs in this folder" in said
        assert 0 in ends
        assert set(ends) <= {0, 2}
        assert json.loads((out / "run.json").read_text())["finished"]
        assert json.loads((out / "summary.json").read_text())["rounds"] == 10
        for name in ("stages", "channels", "latency"):
            table = DeltaTable(str(out / name))
            assert table.version() == 0  # nothing of the run before is left
            assert table.to_pyarrow_table().num_rows > 0
