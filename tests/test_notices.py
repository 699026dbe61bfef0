"""What takes long is announced: one line on standard error, and three ways to silence it."""

from __future__ import annotations

import logging
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from flowcontrol.kernel.loop import prepare
from flowcontrol.memory.parts import EVERYTHING
from flowcontrol.notices import LOGGER, QUIET, announce_step, quiet

SMALL = {
    "schema": 1,
    "name": "small",
    "duration_s": 1,
    "round_ms": 100,
    "stages": [{"name": "source", "emit_rate": 100}, {"name": "sink", "service_rate": 50}],
    "edges": [{"from": "source", "to": "sink"}],
}


def test_a_slow_step_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    announce_step("starting Spark", "4 to 10 s")
    said = capsys.readouterr()
    assert (said.out, said.err) == ("", "starting Spark, usually 4 to 10 s\n")


def test_a_block_can_be_quiet(capsys: pytest.CaptureFixture[str]) -> None:
    with quiet():
        announce_step("in it", "a year")
        with quiet(False):
            announce_step("in it still", "a year")
    with quiet(False):
        announce_step("out of it", "a year")
    assert capsys.readouterr().err == "out of it, usually a year\n"


def test_a_variable_silences_a_process(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(QUIET, "1")
    announce_step("anything", "a year")
    assert capsys.readouterr().err == ""


def test_the_level_of_the_logger_holds(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(logging.getLogger(LOGGER), "level", logging.WARNING)
    logging.getLogger(LOGGER).manager._clear_cache()  # type: ignore[attr-defined]
    announce_step("anything", "a year")
    logging.getLogger(LOGGER).manager._clear_cache()  # type: ignore[attr-defined]
    assert capsys.readouterr().err == ""


def test_compiling_is_said_before_it_begins_and_only_then(tmp_path: Path) -> None:
    """In a library call, in a process of its own: a kernel that is there already says nothing."""
    pytest.importorskip("numba")
    (tmp_path / "small.yaml").write_text(yaml.safe_dump(SMALL))
    command = [sys.executable, "-c", "import flowcontrol; list(flowcontrol.rounds('small.yaml'))"]
    empty = tmp_path / "cache"
    env = {"FLOWCONTROL_CACHE": str(empty), "PATH": "/usr/bin:/bin"}
    with subprocess.Popen(
        command, cwd=tmp_path, env=env, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stderr is not None
        said = process.stderr.readline()
        process.kill()  # it would take 15 s
    assert said == "compiling the virtual clock, usually 10 to 25 s, once\n"
    assert process.returncode == -signal.SIGKILL
    assert not list(empty.rglob("*.nbc"))

    prepare(EVERYTHING)
    other = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert other.stderr == ""
