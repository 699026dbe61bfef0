"""The notebook on sweeps runs as plain Python."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent


@pytest.mark.spark
@pytest.mark.slow
def test_the_sweep_runs(spark, tmp_path, monkeypatch):
    monkeypatch.chdir(ROOT)
    monkeypatch.setenv("FLOWCONTROL_OUT", str(tmp_path / "sweep"))
    monkeypatch.setenv("FLOWCONTROL_DURATION", "6")
    monkeypatch.setenv("FLOWCONTROL_POINTS", "4")
    left = runpy.run_path(str(ROOT / "notebooks" / "02_sweep.py"), {"spark": spark})
    assert left["result"].table.num_rows == 4 * 4 * 3 * 3
    rows = {
        (row.buffers_per_channel, row.sink_service_rate): row for row in left["taken"].collect()
    }
    assert set(rows) == {
        (buffers, rate) for buffers in (1, 2, 4, 8) for rate in (100, 400, 700, 1000)
    }
    # Eight buffers carry the 500/s that the map makes; the slow sink takes what it can.
    assert rows[8, 1000].rate == pytest.approx(500, rel=0.2)
    assert rows[8, 100].limits == "sink"
    # One does not: the exchange limits, and a faster sink takes no more.
    assert rows[1, 1000].limits == "map->sink"
    assert rows[1, 1000].rate == pytest.approx(rows[1, 700].rate, rel=0.02)
    assert left["carried"].collect()[0].buffers_per_channel == 1
    names = {path.name for path in (tmp_path / "sweep").glob("*.html")}
    assert names == {"rates.html", "report.html"}
