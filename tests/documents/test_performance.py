"""docs/performance.md is what bench/all.py makes of what was measured."""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return the module; its neighbours are found beside it."""
    monkeypatch.setattr(sys, "path", [str(ROOT / "bench"), *sys.path])
    return importlib.import_module("all")


def figure(value: float, goal: float | None, is_met: str) -> dict[str, Any]:
    return {
        "what": "a chain",
        "beside": "SimPy",
        "value": value,
        "unit": "times",
        "goal": goal,
        "is_met": is_met,
    }


def test_the_page_is_made_of_what_was_measured(bench: Any) -> None:
    kept = json.loads(bench.KEPT.read_text(encoding="utf-8"))
    assert kept
    assert bench.PAGE.read_text(encoding="utf-8") == bench.page(kept)


def test_every_program_is_there(bench: Any) -> None:
    for program in bench.PROGRAMS:
        text = (ROOT / "bench" / f"{program.name}.py").read_text(encoding="utf-8")
        assert "note(" in text, program.name


@pytest.mark.parametrize(
    ("value", "goal", "side", "is_met"),
    [(100, 100, "at least", True), (99, 100, "at least", False), (1.1, 1.1, "at most", True),
     (1.2, 1.1, "at most", False), (5, None, "at most", True)],
)  # fmt: skip
def test_what_misses_its_goal_says_so(
    bench: Any, value: float, goal: float | None, side: str, is_met: bool
) -> None:
    found = {"figures": [figure(value, goal, side)], "machine": bench.machine()}
    text = bench.section(bench.PROGRAMS[0], {**found, "date": "2026-01-01", "load": 0.0})
    assert ("**missed**" in text) != is_met
    assert f"| a chain | SimPy | {bench.shown(value)} times" in text


def test_notes_are_kept_only_where_they_are_asked_for(
    bench: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    measured = importlib.import_module("measured")
    monkeypatch.delenv(measured.FILE, raising=False)
    measured.note("nothing", 1.0, "s")
    monkeypatch.setenv(measured.FILE, str(tmp_path / "notes"))
    for value in (1.5, 2.5):
        measured.note("a chain", value, "times", beside="SimPy", goal=2.0)
    lines = (tmp_path / "notes").read_text(encoding="utf-8").splitlines()
    assert [json.loads(line) for line in lines] == [figure(v, 2.0, "at least") for v in (1.5, 2.5)]
