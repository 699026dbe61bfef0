"""Watermarks in the queue of calls: windows behind them miss nothing, and markers pass by."""

from __future__ import annotations

from typing import Any

import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flowcontrol.scenario import parse_scenario
from flowcontrol.virtual import simulate

VARYING: dict[str, Any] = {
    "style": "await", "latency_ms": 80, "latency_distribution": "exponential", "in_flight": 200,
}  # fmt: skip
FULL: dict[str, Any] = {**VARYING, "latency_ms": 15, "in_flight": 6}
"""Six elements at a time, fewer than come, so the queue is full."""
LOOKUP: dict[str, Any] = {"style": "lookup", "latency_ms": 2}
RATE, ENDS_S = 400, 6
EXAMPLES = max(4, settings.default.max_examples // 3)


def run(
    requests: dict[str, Any] | None, subtasks: int = 1, rate: Any = None, **top: Any
) -> dict[str, pd.DataFrame]:
    """Run a log that ends, calls, a window of a second behind them, and a sink."""
    options = {
        "execution.buffer-timeout.interval": "1ms", "pipeline.auto-watermark-interval": "20ms",
        **top.pop("options", {}),
    }  # fmt: skip
    written = [{"at_s": 0, "rate": RATE}, {"at_s": ENDS_S, "rate": 0}]
    source = {
        "name": "src", "arrival_rate": rate or written, "emit_rate": 2000, "record_bytes": 100,
        "event_time": {"out_of_orderness_s": 0.3}, "watermark": {"delay_s": 0.3},
        "parallelism": subtasks, **top.pop("source", {}),
    }  # fmt: skip
    calls: dict[str, Any] = {"name": "map", "parallelism": subtasks, **top.pop("calls", {})}
    if requests is not None:
        calls["requests"] = requests
    window = {"name": "win", "parallelism": subtasks, "window": {"kind": "tumbling", "size_s": 1}}
    keys = {"key_distribution": {"kind": "uniform", "keys": 7}}
    scenario = {
        "schema": 1, "name": "timed-calls", "duration_s": 25, "round_ms": 1,
        "sample_interval_s": 0.1, "options": options,
        "stages": [source, calls, window, {"name": "sink"}],
        "edges": [
            {"from": "src", "to": "map", "partitioner": "rebalance"},
            {"from": "map", "to": "win", "partitioner": "hash", **keys},
            {"from": "win", "to": "sink"},
        ],
        **top,
    }  # fmt: skip
    found = simulate(parse_scenario(scenario)).tables
    return {name: one.to_pandas() for name, one in found.items()}


def counted(tables: dict[str, pd.DataFrame]) -> dict[tuple[float, str], int]:
    """Return the records of each window and key, of its last result."""
    rows = tables["output/win"]
    last = rows.groupby(["window_start", "key"]).n.last()
    return {(start, key): int(n) for (start, key), n in last.items()}


def of(tables: dict[str, pd.DataFrame], stage: str, column: str) -> pd.Series[Any]:
    rows = tables["time"]
    return rows[rows.stage == stage].groupby("t_s")[column].min()


@pytest.mark.parametrize("subtasks", [1, 2])
@pytest.mark.parametrize(
    "requests",
    [VARYING, {**VARYING, "ordered": False}, FULL, {**FULL, "ordered": False}, LOOKUP],
    ids=["ordered", "unordered", "full", "full and unordered", "lookup"],
)
def test_windows_behind_calls_count_what_they_do_without(
    requests: dict[str, Any], subtasks: int
) -> None:
    """No watermark overtakes a record before it, so none is late; each comes later."""
    plain, tables = run(None, subtasks), run(requests, subtasks)
    assert counted(tables) == counted(plain)
    assert sum(counted(plain).values()) == subtasks * RATE * ENDS_S
    assert of(tables, "win", "late_records").max() == 0
    before, behind = of(tables, "map", "watermark_s"), of(tables, "win", "watermark_s")
    assert (before - behind).min() >= 0
    if requests is not LOOKUP:
        assert (before - behind).loc[2:5].mean() > 0.005


def test_a_watermark_waits_for_the_records_before_it_in_any_order() -> None:
    """Calls of 300 ms: what leaves the queue is that late, and no record is held back by it."""
    calls = {**VARYING, "latency_ms": 300, "latency_distribution": "constant", "ordered": False}
    tables = run(calls)
    lag = of(tables, "map", "watermark_s") - of(tables, "win", "watermark_s")
    assert lag.loc[2:5].mean() == pytest.approx(0.3, abs=0.03)


def test_a_watermark_takes_a_place_in_the_queue() -> None:
    """One behind each record: half of the places are theirs."""
    source = {"event_time": {}, "watermark": {"delay_s": 0, "punctuated": True}}
    calls = {"style": "await", "latency_ms": 50, "in_flight": 20}
    rows = run(calls, rate=800, source=source, duration_s=5)["requests"]
    assert rows[rows.t_s > 1].in_flight.mean() == pytest.approx(10, rel=0.05)


@pytest.mark.parametrize("ordered", [True, False])
def test_a_checkpoint_holds_watermarks_too(ordered: bool) -> None:
    """After a restart the queue is called again, in its order: no window misses a record."""
    failures = [{"at_s": at, "stage": "map", "subtask": 0} for at in (2.6, 4.9)]
    calls = {**VARYING, "latency_ms": 150, "ordered": ordered}
    options = {"execution.checkpointing.interval": "1s"}
    plain, tables = run(None, 2), run(calls, 2, failures=failures, options=options)
    assert len(tables["restarts"]) == 2
    assert tables["restarts"].records_reprocessed.min() > 0
    assert of(tables, "win", "late_records").max() == 0
    assert counted(tables) == counted(plain)


def test_a_restored_watermark_is_not_sent_again_by_its_source() -> None:
    """The source is silent from 2 s on: what windows hear of then was in the queue at 3 s."""
    calls = {"style": "await", "latency_ms": 1500, "in_flight": 1000}
    failures = [{"at_s": 3.1, "stage": "map", "subtask": 0}]
    written = [{"at_s": 0, "rate": RATE}, {"at_s": 2, "rate": 0}, {"at_s": 10, "rate": RATE}]
    options = {"execution.checkpointing.interval": "300ms"}
    tables = run(calls, rate=written, failures=failures, options=options, duration_s=9)
    assert tables["restarts"].running_s.iloc[0] < 5
    before, behind = of(tables, "map", "watermark_s"), of(tables, "win", "watermark_s")
    assert behind.loc[9] == before.loc[3] > behind.loc[3] + 0.5


def test_an_idle_source_does_not_hold_windows_back() -> None:
    """IDLE passes by the queue once the watermark before it is in it; ACTIVE passes at once."""
    off = [{"at_s": 0, "rate": RATE}, {"at_s": 2, "rate": 0}, {"at_s": 4, "rate": RATE}]
    ends = {"at_s": ENDS_S, "rate": 0}
    source = {
        "watermark": {"delay_s": 0.3, "idle_after_s": 0.5},
        "arrival_rate": [[*off, ends], [{"at_s": 0, "rate": RATE}, ends]],
    }
    plain, tables = (run(one, 2, source=source) for one in (None, VARYING))
    assert of(tables, "win", "is_idle").max() == of(plain, "win", "is_idle").max()
    behind = of(tables, "win", "watermark_s")
    assert behind.loc[3.9] == pytest.approx(of(plain, "win", "watermark_s").loc[3.9], abs=0.6)
    assert behind.loc[3.9] > 3


def test_latency_markers_pass_by_the_queue() -> None:
    calls = {**VARYING, "latency_ms": 200, "latency_distribution": "constant"}
    tables = run(calls, options={"metrics.latency.interval": "50ms"})
    latency = tables["latency"]
    markers = latency[(latency.kind == "marker") & (latency.stage == "win")]
    assert 0 < markers.p99_ms.max() < 30


@settings(max_examples=EXAMPLES, deadline=None)
@given(
    capacity=st.integers(1, 12), latency_ms=st.integers(1, 60), ordered=st.booleans(),
    errors=st.sampled_from([0, 0.2]), subtasks=st.integers(1, 2),
    interval_ms=st.sampled_from([5, 20, 200]), unaligned=st.booleans(),
    fails_s=st.lists(st.floats(0.5, 4), max_size=2, unique=True),
)  # fmt: skip
def test_windows_miss_nothing_whatever_happens(
    capacity: int, latency_ms: int, ordered: bool, errors: float, subtasks: int, interval_ms: int,
    unaligned: bool, fails_s: list[float],
) -> None:  # fmt: skip
    """Queues that are full, failures, barriers that overtake, watermarks close to each other."""
    calls = {
        **VARYING, "latency_ms": latency_ms, "in_flight": capacity, "ordered": ordered,
        "errors": {"request": errors}, "timeout_s": 1, "retry": {"attempts": 2, "delay_ms": 10},
    }  # fmt: skip
    rate = max(1, min(RATE, 200 * capacity // latency_ms))
    written = [{"at_s": 0, "rate": rate}, {"at_s": 3, "rate": 0}]
    options = {"pipeline.auto-watermark-interval": f"{interval_ms}ms"}
    plain = run(None, subtasks, written, options=options)
    options |= {
        "execution.checkpointing.interval": "700ms",
        "execution.checkpointing.unaligned.enabled": unaligned,
    }
    failures = [
        {"at_s": round(at, 3), "stage": "map", "subtask": index % subtasks}
        for index, at in enumerate(sorted(fails_s))
    ]
    tables = run(calls, subtasks, written, options=options, failures=failures, duration_s=60)
    assert counted(tables) == counted(plain)
    assert of(tables, "win", "late_records").max() == 0
