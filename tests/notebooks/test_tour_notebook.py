"""The tour: its jobs are those of conf/tour, and the notebook runs as plain Python."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

from flowcontrol.scenario import load_scenario, parse_scenario

ROOT = Path(__file__).resolve().parent.parent.parent
NOTEBOOK = ROOT / "notebooks" / "tour.py"
FILES = sorted((ROOT / "conf" / "tour").glob("*.yaml"))
CELL = "\n# COMMAND ----------\n"


def test_its_jobs_are_those_of_conf(tmp_path, monkeypatch):
    """The cells up to the jobs; they need no file."""
    monkeypatch.chdir(tmp_path)
    text = NOTEBOOK.read_text()
    cells = text.split(CELL)
    last = next(number for number, cell in enumerate(cells) if "JOBS = {}" in cell)
    left = {}
    exec(compile(CELL.join(cells[: last + 1]), "tour.py", "exec"), left)
    assert list(left["JOBS"]) == [path.stem for path in FILES]
    for path in FILES:
        assert parse_scenario(left["JOBS"][path.stem]).canonical() == (
            load_scenario(path).canonical()
        )


def test_a_question_and_its_answer_follow_each_stop():
    text = NOTEBOOK.read_text()
    stops = text.split("# MAGIC ## ")[2:]
    assert [stop.split(".")[0] for stop in stops] == [
        "1 to 3", "4 and 5", "6", "7", "8", "9", "10", "11"
    ]  # fmt: skip
    for stop in stops:
        assert stop.count("**Question.**") == stop.count("**Answer.**") == 1
        assert "\nsteps(" in stop
        assert "\nshow(" in stop


def test_the_notebook_runs_and_shows_what_it_says(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    out = tmp_path / "runs"
    monkeypatch.setenv("FLOWCONTROL_OUT", str(out))
    left = runpy.run_path(str(NOTEBOOK))
    three = left["three"]
    assert list(three["records in flight"]) == [0, 174, 379]
    assert list(three["latency s"]) == [0, 0.43, 0.93]
    pairs = left["before_and_after"]
    assert list(pairs["records/s"]) == pytest.approx([200, 200, 1000, 200], rel=0.06)
    assert left["sizes"]["pool of orders"].min() == 8
    assert list(left["parts"].loc["sink"]) == [300, 210, 520]
    kinds = left["kinds"]
    assert list(kinds.e2e_ms) == [520, 40]
    assert list(kinds.persisted_bytes) == [0, 76_200]
    assert list(left["last"].visible_twice) == [98]
    pages = {path.name for path in out.glob("*.html")}
    assert {f"{path.stem}-steps.html" for path in FILES[2:]} <= pages
    assert {"pairs.html", "water-marks.html", "commits.html"} <= pages
