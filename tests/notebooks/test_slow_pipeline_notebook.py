"""The notebook on a slow pipeline runs on a real Spark, and its answer holds."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent


@pytest.mark.spark
@pytest.mark.long  # what a micro-batch takes beside other programs is theirs as well
def test_what_is_predicted_is_what_comes_of_it(spark, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(ROOT)
    monkeypatch.setenv("FLOWCONTROL_OUT", str(tmp_path / "runs"))
    left = runpy.run_path(str(ROOT / "notebooks" / "05_slow_pipeline.py"))
    # A request takes 0.8 s whatever its rows, and Spark its own part beside.
    assert 800 <= left["overhead_ms"] < 3000
    assert left["larger"].helps
    answer = left["answer"]
    gain = answer.observed.iloc[1] / answer.observed.iloc[0]
    assert gain > 1.3
    # Alone on the machine it is off by 3 %; other programs have the processors too.
    assert abs(answer["off by, %"]).max() < 25
    assert "batches of at most" in capsys.readouterr().out
