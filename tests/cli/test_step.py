"""The command line of step: what it refuses, what it prints, and a small page."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from flowcontrol.cli.main import main as flowcontrol
from flowcontrol.stepview.step import step
from modules import load

jobs = load("tests/stepview/jobs.py")


def main(words):
    """Run the command."""
    return flowcontrol(["step", *words])


@pytest.fixture
def file(tmp_path, monkeypatch):
    """The file of a small scenario, in an empty current folder."""
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "lanes.yaml"
    path.write_text(yaml.safe_dump({**jobs.FORWARD, "round_ms": 5}))
    return path


REFUSED = [
    (["--from", "x", "--to", "2"], ["--from: 'x' is not a number", "at most the run's 6"]),
    (["--from", "1", "--to", "60"], ["--to: '60' is out of range"]),
    (["--from", "2", "--to", "2"], ["--to: 2 is not after --from 2: choose a later time, up to 6"]),
    (["--from", "1", "--to", "2", "--systems", "flnk"], ["--systems", "did you mean 'flink'"]),
    (["--from", "1", "--to", "2", "--systems", "flink,flink"], ["--systems", "repeated"]),
    (
        ["--from", "1", "--to", "2", "--systems", ","],
        ["names no system: name one, or leave it out\n"],
    ),
    (["--from", "1", "--to", "2", "--out", "lanes.yaml"], ["--out", "not a page of steps"]),
    (["--from", "1", "--to", "2", "--out", "."], ["--out"]),
    (
        ["--from", "0", "--to", "6", "--set", "round_ms=0.1"],
        ["rounds of 0.1 ms", "10,000 of a page: show at most 1 s"],
    ),
    (["--from", "1", "--to", "2", "--set", "stages.B.service_rate=-1"], ["service_rate"]),
]


@pytest.mark.parametrize(("words", "texts"), REFUSED, ids=lambda value: str(value[-1])[:40])
def test_what_is_refused_writes_nothing_and_exits_with_2(file, capsys, words, texts):
    before = file.read_text()
    assert main([str(file), *words]) == 2
    said = capsys.readouterr()
    for text in texts:
        assert text in said.err
    assert "Traceback" not in said.err
    assert said.out == ""
    assert sorted(path.name for path in file.parent.iterdir()) == ["lanes.yaml"]
    assert file.read_text() == before


def test_a_page_is_written_and_replaced(file, capsys):
    words = [str(file), "--from", "1", "--to", "1.1", "--quiet"]
    assert main(words) == 0
    page = Path("out/lanes-steps.html")
    assert capsys.readouterr().out == (
        f"21 rounds of 5 ms, 1 to 1.1 s, under flink; 3 events to jump to.\npage: {page}\n"
    )
    first = page.read_text()
    assert "http" not in first.replace("http-equiv", "").replace("http://www.w3.org/2000/svg", "")
    assert main(words) == 0
    assert page.read_text() == first


def test_one_round_is_one(file, capsys):
    assert main([str(file), "--from", "1", "--to", "1.001", "--quiet"]) == 0
    assert capsys.readouterr().out.startswith("1 round of 5 ms, 1 to 1 s, under flink;")


def test_two_systems_stand_beside_each_other(file):
    """The question of head-of-line.yaml: B[0] starves without credits, and not with them."""
    found = step(file, 3, 3.2, systems=["flink-1.4", "flink"], out="pages/both.html", quiet=True)
    old, new = found.films
    assert found.page == Path("pages/both.html")
    assert (old.system, new.system) == ("flink-1.4", "flink")
    for states, is_starved in ((old.states, True), (new.states, False)):
        taken = sum(state["tasks"]["B[0]"]["taken"] for state in states)
        assert (taken < 100) == is_starved
    assert found.tables["events"].column_names[:3] == ["system", "round", "t_s"]
    assert found.iframe(500).startswith('<iframe style="width:100%;height:500px;border:0"')
    assert found.summary["bytes"] == found.page.stat().st_size
