"""The notebook on checkpoints runs as plain Python, without Spark."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent


@pytest.mark.slow
@pytest.mark.long  # docs/howto/checkpoints.md has the same runs and figures in the quick form
def test_the_notebook_runs_and_shows_what_it_says(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(ROOT)
    out = tmp_path / "runs"
    monkeypatch.setenv("FLOWCONTROL_OUT", str(out))
    left = runpy.run_path(str(ROOT / "notebooks" / "03_checkpoints.py"))
    ways = left["ways"]
    assert list(ways.index) == ["aligned", "debloating", "aligned for 2 s", "unaligned"]
    assert (ways.completed == 4).all()
    assert list(ways.e2e_s) == pytest.approx([5.15, 1.5, 2.3, 0.5], abs=0.01)
    assert list(ways.persisted_kib[:2]) == [0, 0]
    assert 0 < ways.persisted_kib["aligned for 2 s"] < ways.persisted_kib["unaligned"]
    assert list(ways.sinks) == pytest.approx([200] * 4, rel=0.03)
    aligned = left["parts"][left["parts"].way == "aligned"]
    assert aligned.start_delay_ms.sum() > 0.9 * aligned.e2e_ms.sum()
    printed = capsys.readouterr().out
    assert "All 4 that expired waited for sink" in printed
    assert "1,198 records were processed again" in printed
    ages = left["ages"]
    assert list(ages.records_reprocessed) == pytest.approx([300, 1200, 2100], rel=0.01)
    assert list(ages.catch_up_s) == pytest.approx(list(ages.expected_catch_up_s), rel=0.02)
    seen = left["seen"]
    assert list(seen.index) == ["at-most-once", "at-least-once", "exactly-once"]
    assert list(seen.twice > 0) == [False, True, False]
    assert list(seen.lost > 0) == [True, False, False]
    assert list(seen.visibility_p50_ms > 1000) == [False, False, True]
    names = {"parts.html", "recovery.html", "guarantees.html"}
    assert {path.name for path in out.glob("*.html")} == names
