"""The command ``flowcontrol``: a table of commands, each also a pipeline; no JVM."""

from __future__ import annotations

import os
import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from deltalake import DeltaTable

from flowcontrol.cli.main import COMMANDS, main, pipeline

ROOT = Path(__file__).resolve().parents[2]
NAMES = [command.name for command in COMMANDS]
PIPELINES = ["emulate", "sweep", "compare", "capacity"]

SMALL = {
    "schema": 1,
    "name": "small",
    "duration_s": 2,
    "round_ms": 20,
    "sample_interval_s": 0.5,
    "stages": [
        {"name": "source", "emit_rate": 100, "record_bytes": 2000},
        {"name": "sink", "service_rate": 50},
    ],
    "edges": [{"from": "source", "to": "sink", "partitioner": "rebalance"}],
}


def helped(words: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    """Return what a command prints of itself."""
    with pytest.raises(SystemExit) as ended:
        main(words)
    assert ended.value.code == 0
    said = capsys.readouterr()
    assert said.err == ""
    return said.out


def test_the_help_lists_all_commands(capsys: pytest.CaptureFixture[str]) -> None:
    text = helped(["--help"], capsys)
    for command in COMMANDS:
        assert re.search(rf"^    {command.name} +{re.escape(command.help)}$", text, re.MULTILINE)


@pytest.mark.parametrize("name", NAMES)
def test_each_command_helps(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    text = helped([name, "--help"], capsys)
    assert text.startswith(f"usage: flowcontrol {name} [-h]")
    assert "options:" in text


@pytest.mark.parametrize("words", [[], ["emulat"], ["--no-such"]])
def test_a_wrong_command_is_refused(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(words)
    assert ended.value.code == 2
    assert "usage: flowcontrol" in capsys.readouterr().err


def test_an_option_before_the_command_is_no_obstacle(capsys: pytest.CaptureFixture[str]) -> None:
    assert helped(["--version"], capsys).startswith("flowcontrol ")
    assert helped(["--help", "emulate"], capsys).startswith("usage: flowcontrol [-h]")


def test_help_loads_no_engine_and_only_the_chosen_command() -> None:
    code = (
        "import sys; from flowcontrol.cli.main import main\n"
        "try: main(['--help'])\n"
        "except SystemExit: pass\n"
        "heavy = {'pyspark', 'numba', 'plotly', 'pandas', 'pyarrow', 'pydantic', 'deltalake'}\n"
        "print(sorted(heavy & set(sys.modules)), file=sys.stderr)\n"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stderr == "[]\n"


@pytest.mark.parametrize("name", PIPELINES)
def test_a_pipeline_is_called_what_was_typed(
    name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", [f"pipelines/{name}.py", "--help"])
    with pytest.raises(SystemExit):
        pipeline(name)
    assert capsys.readouterr().out.startswith(f"usage: pipelines/{name}.py [-h]")
    assert len((ROOT / "pipelines" / f"{name}.py").read_text().splitlines()) <= 12


@pytest.mark.parametrize(
    ("name", "words", "tables"),
    [
        ("emulate", ["--clock", "virtual"], ["stages", "channels", "latency"]),
        ("capacity", ["--stage", "source"], []),
        ("sweep", ["--vary", "stages.sink.service_rate=40,80", "--processes", "1"], ["results"]),
        ("compare", ["--systems", "flink,storm-1", "--processes", "1"], ["results", "rates"]),
    ],
)
def test_both_forms_do_the_same(
    name: str,
    words: list[str],
    tables: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The same lines, the same rows, but for the time that it took."""
    (tmp_path / "small.yaml").write_text(yaml.safe_dump(SMALL))
    monkeypatch.chdir(tmp_path)
    forms = {
        "command": [str(Path(sys.executable).with_name("flowcontrol")), name],
        "module": ["-m", "flowcontrol", name],
        "pipeline": [str(ROOT / "pipelines" / f"{name}.py")],
    }
    said, rows = [], []
    for form, start in forms.items():
        out = [] if name == "capacity" else ["--out", form]
        typed = [*start, "small.yaml", *words, *out, "--quiet"]
        # The quick form starts one of the three as a process of its own.
        if name == "emulate" and (form == "command" or "FLOWCONTROL_LONG" in os.environ):
            run = subprocess.run([sys.executable, *typed], capture_output=True, text=True)
            status, found, wrong = run.returncode, run.stdout, run.stderr
        else:
            status = _run_here(typed, monkeypatch)
            found, wrong = capsys.readouterr()
        assert (status, wrong) == (0, "")
        said.append(found.replace(f"/{form}/", "/*/"))
        rows.append([_rows(tmp_path / form / table) for table in tables])
    assert said[0]
    assert said == [said[0]] * 3
    assert rows == [rows[0]] * 3


def _run_here(typed: list[str], monkeypatch: pytest.MonkeyPatch) -> int:
    """Run what Python would as its main module, without a start of Python and of the kernel."""
    is_module = typed[0] == "-m"
    monkeypatch.setattr(sys, "argv", typed[is_module:])
    with pytest.raises(SystemExit) as ended:
        if is_module:
            runpy.run_module(typed[1], run_name="__main__", alter_sys=True)
        else:
            runpy.run_path(typed[0], run_name="__main__")
    return int(ended.value.code or 0)


def _rows(table: Path) -> list[dict[str, object]]:
    times = {"wall_s", "variant"}
    found = DeltaTable(str(table)).to_pyarrow_table().to_pylist()
    return sorted(
        ({key: value for key, value in row.items() if key not in times} for row in found), key=str
    )


def test_without_java_the_live_clock_says_what_to_do(tmp_path: Path) -> None:
    """In a plain process; nothing is left but what says that a run was begun."""
    (tmp_path / "small.yaml").write_text(yaml.safe_dump(SMALL))
    command = [sys.executable, "-m", "flowcontrol", "emulate", "small.yaml", "--out", "out"]
    run = subprocess.run(
        command, cwd=tmp_path, env={"PATH": "/nowhere"}, capture_output=True, text=True
    )
    assert (run.returncode, run.stdout) == (1, "")
    assert run.stderr.count("\n") == 1
    assert "the run failed: Spark needs Java 17 or newer and none was found" in run.stderr
