"""The notebook on event time runs as plain Python, without Spark."""

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
        return runpy.run_path(str(ROOT / "notebooks" / "04_event_time.py"))


def test_a_slow_sink_delays_answers_and_changes_none(left):
    lags = left["lags"]
    assert list(lags.index) == ["2000/s", "100/s", "50/s"]
    assert list(lags.lag_at_sink_s) == pytest.approx([2.4, 7.1, 20.0], abs=0.1)
    assert list(lags.last_result_s) == pytest.approx([2.5, 2.6, 12.5], abs=0.1)
    assert set(lags.late_records) == {0}
    assert lags.results.nunique() == lags.records_counted.nunique() == 1
    assert {path.name for path in left["out"].glob("*.html")} == {"lag.html"}


def test_flink_and_spark_answer_side_by_side(left):
    found = {
        way: [(batch, start, rows) for batch, start, rows, _ in results]
        for way, (results, _) in left["WAYS"].items()
    }
    assert found["Flink"] == [(2, 0, 5), (4, 10, 2)]
    assert found["Flink, lateness 5 s"] == [(2, 0, 5), (2, 0, 6), (4, 10, 2)]
    assert found["Spark, append"] == [(3, 0, 6), (5, 10, 2)]
    assert found["Spark, update"] == [
        (0, 0, 3), (1, 0, 5), (1, 10, 1), (2, 0, 6), (2, 10, 2), (3, 20, 1), (4, 20, 2)
    ]  # fmt: skip
    assert (5, 0, 7) in found["Spark, complete"]
    assert list(left["dropped"].values()) == [2, 1, 1, 1, 0]


def test_the_same_job_under_both(left):
    both = left["both"]
    assert list(both.index) == ["flink", "spark", "structured-streaming"]
    assert both.first_after_s["flink"] == pytest.approx(4.3, abs=0.2)
    assert both.first_after_s["spark"] >= both.first_after_s["flink"] + 2
    assert both.too_late["spark"] < both.too_late["flink"] / 4
    more = both.records_of_10_to_15_s
    assert more["spark"] > more["structured-streaming"] > more["flink"]
