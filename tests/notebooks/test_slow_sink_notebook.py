"""The notebook on slow sinks runs as plain Python, without Spark."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent


@pytest.fixture(scope="module")
def left(tmp_path_factory):
    """Run the notebook; return what it leaves behind."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(ROOT)
        patch.setenv("FLOWCONTROL_OUT", str(tmp_path_factory.mktemp("runs")))
        return runpy.run_path(str(ROOT / "notebooks" / "06_slow_sink.py"))


def test_the_destination_decides_the_rate_and_the_knobs_what_is_sent_in_vain(left):
    knobs = left["knobs"]
    rates = [2000, 2000, 1250, 2000, 2000]
    assert list(knobs.acknowledged_per_s) == pytest.approx(rates, rel=0.01)
    assert list(knobs.sent_in_vain) == pytest.approx([0.17, 0.02, 0, 0.97, 0], abs=0.02)
    assert list(knobs.limit) == ["destination"] * 2 + ["in_flight", "destination", "bucket"]
    assert {path.name for path in left["out"].glob("*.html")} == {"window.html"}


def test_a_short_interval_shows_rows_sooner_until_commits_pile_up(left):
    choices = left["choices"]
    assert list(choices.index) == [1, 2, 5, 20]
    assert list(choices.committing) == pytest.approx([0.99, 0.79, 0.31, 0.07], abs=0.02)
    assert choices.files_per_h.is_monotonic_decreasing
    assert choices.visible_after_p50_s.iloc[1:].is_monotonic_increasing
    assert choices.visible_after_p50_s[1] > choices.visible_after_p50_s[20]
