"""A planted cause of large checkpoints: a watermark that lags, and windows that stay open."""

from __future__ import annotations

from typing import Any

import pytest

from flowcontrol.analysis.checkpoints import checkpoint_summary
from flowcontrol.virtual import simulate
from modules import load

small = load("tests/job/small_windows.py")


def summary(delay_s: float, state_bytes: int = 0) -> dict[str, Any]:
    """The checkpoints of windows of 500 ms whose watermark is so far behind."""
    given = small.mapping(
        {**small.TUMBLING, "keys": 10, "bytes_per_key": 100},
        source={"arrival_rate": 400, "watermark": {"delay_s": delay_s}},
        count={"state": {"bytes": state_bytes}},
        duration_s=12,
        sample_interval_s=0.1,
        round_ms=50,
    )
    given["options"]["execution.checkpointing.interval"] = "1s"
    scenario = small.checked(given)
    return checkpoint_summary(simulate(scenario).tables, scenario, 50.0)


def test_a_watermark_that_lags_is_named() -> None:
    """Nine windows a key in the place of one; the first seconds have fewer."""
    found = summary(4.0)
    windows = found["windows"]
    assert windows["stage"] == "count"
    assert windows["lag_ms"] == pytest.approx(4100, abs=150)
    assert windows["kept_ms"] == 500
    assert windows["window_bytes"] == pytest.approx(found["state_bytes"], rel=0.1)
    assert windows["without_bytes"] == pytest.approx(1000, abs=300), "a window of each key"
    [text] = [one for one in found["sentences"] if "watermark" in one]
    for part in ("watermark at count lags", "% of their state", "500 ms", "lag of 4.1"):
        assert part in text, text


@pytest.mark.parametrize(("delay_s", "state_bytes"), [(0.3, 0), (4.0, 100_000)])
def test_it_is_not_where_it_is_not_the_cause(delay_s: float, state_bytes: int) -> None:
    """The lag is shorter than a window; the windows are less than the state."""
    found = summary(delay_s, state_bytes)
    assert found["windows"] is None
    assert not any("watermark" in one for one in found["sentences"])
