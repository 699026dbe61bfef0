"""A window that fires into full outputs holds up barriers, and the run says so."""

from __future__ import annotations

from typing import Any

import pytest

from flowcontrol.analysis.causes.find import find_causes
from flowcontrol.analysis.checkpoint_causes import advice_on, firing_window
from flowcontrol.analysis.checkpoints import checkpoint_summary
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


def beside(options: dict[str, Any]) -> Any:
    """A join that aligns a second source's barriers with those of a window with a slow sink."""
    given = small.mapping(
        {"kind": "tumbling", "size_s": 2, "keys": 500},
        source={"arrival_rate": [{"at_s": 0, "rate": 500}], "emit_rate": 1000},
        count={"record_bytes": 4000},
        sink={"service_rate": [{"at_s": 0, "rate": 50}]},
        options={small.SEGMENT: "4kb", f"{small.CHECKPOINT}interval": "1s", **options},
        duration_s=20,
        sample_interval_s=0.5,
    )
    near = {"name": "near", "emit_rate": 400, "record_bytes": 400}
    given["stages"] += [near, {"name": "join", "service_rate": 5000}]
    given["edges"] += [{"from": "near", "to": "join"}, {"from": "count", "to": "join"}]
    for edge in given["edges"]:
        edge["partitioner"] = "rebalance"
    return small.checked(given)


def test_barriers_that_are_late_for_a_window_are_no_reason_to_overtake() -> None:
    """Nor is the sink's one channel: it has nothing to align, though it idles beside input once."""
    given = beside({})
    causes = find_causes(simulate(given).tables, given)
    assert [one.stage for one in causes if one.cause == "checkpoint"] == ["join"]
    [cause] = [one for one in causes if one.stage == "join"]
    assert cause.cause == "checkpoint"
    assert cause.advice == advice_on("count")
    assert any(text.startswith("count was firing") for text in cause.evidence)
    assert cause.confidence == 0.6
    assert "how much of the time count would take without them is not known" in cause.reason
