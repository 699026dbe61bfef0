"""A window that fires into full outputs holds up barriers, and the run says so."""

from __future__ import annotations

from typing import Any

import pytest

from flowcontrol.analysis.checkpoints import checkpoint_summary
from flowcontrol.analysis.firing_windows import firing_window
from flowcontrol.run.remedies import checkpoint_remedies
from flowcontrol.virtual import simulate
from modules import load

small = load("tests/job/small_windows.py")

ON, INTERRUPTED, burst = small.UNALIGNED, small.INTERRUPTED, small.burst


def start_delays(given: Any) -> list[float]:
    rows = simulate(given).tables["checkpoint_tasks"].to_pandas().query("stage == 'count'")
    return list(rows.start_delay_ms)


def test_unaligned_barriers_wait_for_a_burst_and_pass_between_interruptible_timers() -> None:
    """A result takes 20 ms at the sink, so a buffer is free by then; messages take rounds."""
    assert max(start_delays(burst(ON))) > 5_000
    assert max(start_delays(burst(INTERRUPTED))) <= 110


def test_interruptible_timers_do_nothing_for_aligned_barriers() -> None:
    alone = {key: value for key, value in INTERRUPTED.items() if key not in ON}
    assert start_delays(burst(alone)) == start_delays(burst({}))


@pytest.mark.parametrize("options", [{}, ON])
def test_the_firing_window_is_named_and_unaligned_barriers_are_no_advice(options: Any) -> None:
    given = burst(options)
    tables = simulate(given).tables
    found = checkpoint_summary(tables, given, 10)
    assert found["cause"]["firing"] == "count"
    [text] = [one for one in found["sentences"] if one.startswith("count was firing")]
    assert "unaligned ones too, wait" in text
    assert "interruptible-timers.enabled" in text


def test_no_window_is_named_where_results_find_room_or_timers_are_interrupted() -> None:
    for given in (burst({}, drain=5000, record_bytes=40), burst(INTERRUPTED)):
        assert firing_window(simulate(given).tables, given, "sink", [(3.0, 6.0)]) is None


def test_the_change_that_helps_is_tried() -> None:
    names = [one["name"] for one in checkpoint_remedies(burst({}))]
    assert "unaligned checkpoints and interruptible timers" in names
