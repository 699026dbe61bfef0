"""What a wrong command line is told, alike for all commands, and what a closed pipe changes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from flowcontrol.cli.main import COMMANDS, main, pipeline

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


@pytest.fixture
def small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "small.yaml").write_text(yaml.safe_dump(SMALL))
    return "small.yaml"


def refused(words: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    """Return what a refused command says behind its usage; it always begins alike."""
    with pytest.raises(SystemExit) as ended:
        sys.exit(main(words))
    assert ended.value.code == 2
    said = capsys.readouterr()
    assert said.out == ""
    usage, found, behind = said.err.partition("flowcontrol: ")
    assert found
    assert usage == "" or usage.startswith("usage: ")
    return found + behind


@pytest.mark.parametrize(
    ("words", "text"),
    [
        ("compre", "unknown command 'compre'; did you mean 'compare'?"),
        ("emulat", "unknown command 'emulat'; did you mean 'emulate'?"),
        ("emulate s.yaml --clok virtual", "unknown option '--clok'; did you mean '--clock'?"),
        ("emulate s.yaml --clok=virtual", "unknown option '--clok'; did you mean '--clock'?"),
        ("compare s.yaml -systems a", "unknown option '-systems'; did you mean '--systems'?"),
        (
            "emulate s.yaml --clock virtuel",
            "--clock: unknown value 'virtuel'; did you mean 'virtual'?",
        ),
        ("link shw x", "unknown action 'shw'; did you mean 'show'?"),
        ("link show x --jsn", "unknown option '--jsn'; did you mean '--json'?"),
        ("emulate s.yaml t.yaml", "'t.yaml' is one argument too many: leave it out"),
    ],
)
def test_the_nearest_word_is_named(words, text, capsys):
    assert refused(words.split(), capsys).startswith(f"flowcontrol: {text}")


def test_a_pipeline_names_it_too(capsys):
    with pytest.raises(SystemExit) as ended:
        pipeline("compare", ["s.yaml", "--sytems", "flink"])
    assert ended.value.code == 2
    assert "unknown option '--sytems'; did you mean '--systems'?" in capsys.readouterr().err


WRONG = {
    "new": ["--name", "a b"],
    "schema": ["x"],
    "sweep": ["SCENARIO", "--vary", "x"],
    "tune": ["SCENARIO", "--vary", "sink.service_rate=1,2"],
    "step": ["SCENARIO", "--from", "5", "--to", "1"],
    "calibrate": [],
    "scale": ["SCENARIO", "--policy", "nix"],
    "capacity": ["SCENARIO", "--stage", "nix"],
    "advise": ["SCENARIO", "--for", "nix"],
    "systems": ["nix"],
    "link": ["show", "nix"],
    "watch": ["nix"],
}
"""A wrong command line of each command; of the others a scenario that is not there."""


@pytest.mark.parametrize("name", [command.name for command in COMMANDS])
def test_refusals_of_all_commands_begin_alike(name, small, capsys, tmp_path):
    words = [small if word == "SCENARIO" else word for word in WRONG.get(name, ["nix.yaml"])]
    refused([name, *words], capsys)
    assert sorted(path.name for path in tmp_path.iterdir()) == [small]


def closed_pipe(command: list[str], stream: str) -> subprocess.CompletedProcess[str]:
    """Run a command whose standard output, or error, nobody reads."""
    reader, writer = os.pipe()
    os.close(reader)
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, stream: writer}
    try:
        words = [sys.executable, "-m", "flowcontrol", *command]
        return subprocess.run(words, text=True, **streams)
    finally:
        os.close(writer)


@pytest.mark.parametrize("stream", ["stdout", "stderr"])
def test_a_run_that_nobody_reads_ends_with_0(small, stream, tmp_path):
    quiet = ["--quiet"] if stream == "stdout" else []  # on standard error is how far it has come
    done = closed_pipe(["emulate", small, "--clock", "virtual", "--out", "out", *quiet], stream)
    assert (done.returncode, done.stderr or "") == (0, "")
    assert (tmp_path / "out" / "report.html").exists()


@pytest.mark.parametrize(
    ("words", "status"), [(["systems"], 0), (["schema"], 0), (["systems", "nix"], 2)]
)
def test_the_status_is_that_of_the_work_whoever_reads(words, status):
    for stream in ("stdout", "stderr"):
        assert closed_pipe(words, stream).returncode == status


def test_a_stream_that_is_closed_or_lacks_a_character_is_no_failure(small, tmp_path):
    words = f"{sys.executable} -m flowcontrol emulate {small} --clock virtual --quiet --no-advice"
    words += " --set duration_s=40 --set sink.service_rate=20"
    ascii = {**os.environ, "PYTHONIOENCODING": "ascii"}
    done = subprocess.run(words.split(), env=ascii, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    assert "Bottleneck: sink ? it was busy" in done.stdout  # a dash
    done = subprocess.run(f"{words} >&-", shell=True, stderr=subprocess.PIPE, text=True)
    assert (done.returncode, done.stderr) == (0, "")


def test_what_a_link_is_told_is_done_though_nobody_reads_that_it_begins(tmp_path):
    """It says a line, acts, and says another."""
    place = str(tmp_path / "link")
    assert main(["link", "create", place, "--set", "channels=2"]) == 0
    code = (
        "import sys\n"
        "from flowcontrol.cli import link as command\n"
        "def slow(options):\n"
        "    yield 'begins'\n"
        "    open(options.path + '.done', 'w').close()\n"
        "command._remove_sender = slow\n"
        "from flowcontrol.cli.main import main\n"
        "sys.exit(main(sys.argv[1:]))\n"
    )
    reader, writer = os.pipe()
    os.close(reader)
    words = [sys.executable, "-c", code, "link", "remove-sender", place, "old", "--finish"]
    done = subprocess.run(words, stdout=writer, stderr=subprocess.PIPE, text=True)
    os.close(writer)
    assert (done.returncode, done.stderr) == (0, "")
    assert Path(place + ".done").exists()


def test_a_setting_of_a_link_is_set_once(tmp_path, capsys):
    words = ["link", "create", str(tmp_path / "link"), "--set", "channels=2", "--set", "channels=3"]
    assert "channels is set twice" in refused(words, capsys)
    assert list(tmp_path.iterdir()) == []
