"""The scenarios of event time in conf/: the figures that their first lines state."""

from functools import cache
from math import exp
from pathlib import Path

import pandas as pd
import pytest

from flowcontrol.scenario import load_scenario
from flowcontrol.virtual import simulate

CONF = Path(__file__).resolve().parents[2] / "conf"
Frames = dict[str, pd.DataFrame]


@cache
def frames_of(name: str, *changes: str) -> Frames:
    """Return the tables of a run on the virtual clock as frames."""
    run = simulate(load_scenario(CONF / f"{name}.yaml", overrides=changes))
    return {name: table.to_pandas() for name, table in run.tables.items()}


def lag_s(frames: Frames, stage: str, start: float, end: float) -> "pd.Series[float]":
    """Return how far a stage's watermark lags at each sample after ``start`` up to ``end``, s."""
    own = frames["time"][frames["time"].stage == stage].set_index("t_s")
    return own.watermark_lag_ms[(own.index > start) & (own.index <= end)] / 1000


def behind_end_s(frames: Frames, window_end: float) -> "pd.Series[float]":
    """Return how long after the end of a window each result came out, s."""
    own = frames["output/count"]
    own = own[own.window_end == window_end]
    return own.emitted_s - own.window_end


def blocked_from_s(frames: Frames, stage: str) -> float:
    """Return the first sample at which a stage was blocked for more than half of the time, s."""
    own = frames["stages"]
    return float(own[(own.stage == stage) & (own.backpressured_ms_per_s > 500)].t_s.min())


def test_watermark_lag() -> None:
    frames = frames_of("watermark-lag")
    assert lag_s(frames, "sink", 5, 30).mean() == pytest.approx(2.3, abs=0.1)
    assert lag_s(frames, "sink", 30, 60).max() == pytest.approx(20, abs=0.1)
    assert lag_s(frames, "sink", 62, 90).mean() == pytest.approx(2.3, abs=0.15)
    assert blocked_from_s(frames, "count") == 38
    assert behind_end_s(frames, 45).max() == pytest.approx(12.5, abs=0.1)
    orders = frames["stages"][frames["stages"].stage == "orders"]
    assert orders.lag_s.max() == pytest.approx(8.3, abs=0.1)


def test_watermark_lag_makes_nothing_late() -> None:
    """Every window has the 3,000 records that were written to the log in its 5 s, or nearly so."""
    frames = frames_of("watermark-lag")
    assert frames["time"].late_records.max() == 0
    counts = frames["output/count"].groupby("window_end").n.sum().loc[5:]
    assert len(counts) == 17
    assert (counts / 3000).tolist() == pytest.approx([1] * 17, abs=0.02)
    fast = frames_of("watermark-lag", "sink.total_rate=2000")
    columns = ["window_end", "key", "n"]
    slow, even = (
        found["output/count"].sort_values(columns)[columns].reset_index(drop=True)
        for found in (frames, fast)
    )
    pd.testing.assert_frame_equal(slow, even)


def test_twice_the_buffers_block_later_and_delay_as_much() -> None:
    frames = frames_of("watermark-lag", "options.taskmanager.memory.segment-size=16kb")
    assert blocked_from_s(frames, "count") == 53
    assert lag_s(frames, "sink", 30, 60).max() == pytest.approx(20, abs=0.1)


def test_an_idle_source_is_not_waited_for() -> None:
    frames = frames_of("idle-source")
    for end in range(5, 60, 5):
        most = 5.6 if end == 20 else 1.6
        assert behind_end_s(frames, end).max() == pytest.approx(most, abs=0.21)
    time = frames["time"].set_index("t_s")
    silent = time[(time.stage == "sensors") & (time.subtask == 1) & time.is_idle]
    assert silent.index.tolist() == list(range(26, 46))
    assert time.late_records.max() == 0


def test_without_idleness_the_windows_of_all_wait() -> None:
    frames = frames_of("idle-source", "sensors.watermark.idle_after_s=null")
    output = frames["output/count"]
    waited = output[(output.window_end >= 20) & (output.window_end <= 40)]
    assert waited.emitted_s.unique().tolist() == pytest.approx([45.4])
    assert frames["time"].open_windows.max() == 6 * 20
    assert lag_s(frames, "count", 30, 45).diff().dropna().mean() == pytest.approx(1)


def expected_late(delay_s: float, lateness_s: float) -> float:
    """Return the share of records that lie too far behind, of windows of 5 s, 2 s in the mean."""
    return exp(-(delay_s + lateness_s) / 2) * (1 - exp(-5 / 2)) * 2 / 5


@pytest.mark.parametrize(("lateness", "share"), [(5, 0.0038), (0, 0.045)])
def test_late_data(lateness: int, share: float) -> None:
    """The watermark is up to a probe and a round behind, which saves a few."""
    frames = frames_of("late-data", f"count.window.allowed_lateness_s={lateness}")
    late = frames["time"].late_records.max() / 119_807
    assert late == pytest.approx(share, rel=0.02)
    assert expected_late(4.3, lateness) < late < expected_late(4.1, lateness)


def test_a_late_record_corrects_its_window() -> None:
    output = frames_of("late-data")["output/count"]
    counts = output[(output.window_end >= 10) & (output.window_end <= 100)]
    firings = counts.groupby("window_end").size()
    assert firings.min() > 200
    assert firings.max() < 260
    grow = counts.groupby(["window_end", "key"]).n.diff().dropna()
    assert set(grow) == {1}


def test_a_slow_stage_makes_nobody_later() -> None:
    late = frames_of("late-data", "count.total_rate=500")["time"].late_records.max()
    assert late / 59_931 == pytest.approx(0.0038, rel=0.1)


def test_window_burst() -> None:
    frames = frames_of("window-burst")
    for end in (20, 40, 60):
        waits = behind_end_s(frames, end)
        assert len(waits) == pytest.approx(100_000 * (1 - exp(-1)), rel=0.01)
        assert waits.min() == pytest.approx(1.4, abs=0.01)
        assert waits.max() == pytest.approx(7.6, abs=0.11)
    stages = frames["stages"].set_index("t_s")
    sink, clicks = (stages[stages.stage == name] for name in ("sink", "clicks"))
    assert sink.idle_ms_per_s.mean() / 1000 == pytest.approx(0.73, abs=0.02)
    assert clicks.lag_s.max() == pytest.approx(5.2, abs=0.1)
    assert clicks.lag_records.max() == pytest.approx(26_000, rel=0.01)


def test_sessions_end_one_by_one() -> None:
    window = ("kind=session", "gap_s=20", "size_s=null")
    frames = frames_of("window-burst", *(f"count.window.{change}" for change in window))
    stages = frames["stages"]
    assert stages.backpressured_ms_per_s.max() == 0
    assert frames["time"].fired.max() == pytest.approx(90_000, rel=0.01)
