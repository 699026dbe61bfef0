"""Watermarks against the closed forms of the model, at rounds of a millisecond."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest

from flowcontrol.scenario import parse_scenario
from flowcontrol.virtual import simulate

NAMES = ("source", "one", "two", "sink")
RATES = (4000, 2500, 1500, 1000)
"""Records/s: all queues are full, and the sink drains a record a round, wherever it waits."""
HOPS = len(NAMES) - 1
BUFFER = 10
"""Records of 400 bytes in a segment of 4 KiB."""
DELAY_MS = 300


def tables(
    rates: tuple[int, ...] = RATES, interval_ms: int = 200, **source: Any
) -> dict[str, list[dict[str, Any]]]:
    """Run four stages in a row, each on a task manager of its own, for 8 s."""
    rows = [
        {"name": name, "service_rate" if i else "emit_rate": rate, "placement": [i]}
        for i, (name, rate) in enumerate(zip(NAMES, rates, strict=True))
    ]
    rows[0] |= {"event_time": {}, "watermark": {"delay_s": DELAY_MS / 1000}, **source}
    scenario = {
        "schema": 1,
        "name": "laws",
        "duration_s": 8,
        "round_ms": 1,
        "sample_interval_s": 0.013,
        "cluster": {"task_managers": 4},
        "options": {
            "taskmanager.memory.segment-size": "4kb",
            "pipeline.auto-watermark-interval": f"{interval_ms}ms",
        },
        "stages": [{"record_bytes": 400, **row} for row in rows],
        "edges": [{"from": a, "to": b, "partitioner": "forward"} for a, b in pairwise(NAMES)],
    }
    found = simulate(parse_scenario(scenario)).tables
    return {name: table.to_pylist() for name, table in found.items()}


def lags(found: dict[str, Any], stage: str, from_s: float = 4) -> list[float]:
    """The lags of a stage in the steady part of a run, ms."""
    rows = [row for row in found["time"] if row["stage"] == stage and row["t_s"] >= from_s]
    assert len(rows) > 100
    return [row["watermark_lag_ms"] for row in rows]


def in_flight(found: dict[str, Any]) -> tuple[int, int]:
    """The fewest and the most records between source and sink in the steady part."""
    sums: dict[float, int] = {}
    for row in found["channels"]:
        if row["t_s"] >= 2:
            sums[row["t_s"]] = sums.get(row["t_s"], 0) + row["in_flight_records"]
    return min(sums.values()), max(sums.values())


@pytest.mark.parametrize("interval_ms", [50, 200])
def test_backpressure_delays_a_watermark_by_what_is_ahead_of_it(interval_ms: int) -> None:
    """Lag = delay + 1 ms + records ahead over the drain rate, and up to an interval more.

    Within a round a hop, and what the source waits for a buffer before its last record.
    """
    found = tables(interval_ms=interval_ms)
    fewest, most = in_flight(found)
    assert fewest > 300
    found_ms = lags(found, "sink")
    ahead_ms = DELAY_MS + 1
    assert min(found_ms) >= ahead_ms + fewest - HOPS
    assert max(found_ms) <= ahead_ms + most + interval_ms + BUFFER + HOPS + 1
    assert max(found_ms) - min(found_ms) >= interval_ms - 13 - BUFFER


def test_without_backpressure_it_is_the_delay_and_the_interval() -> None:
    """A hop takes a round, and a buffer that is not full waits for the flusher, 100 ms."""
    found = tables(rates=(500, 4000, 4000, 4000))
    for number, stage in enumerate(NAMES):
        found_ms = lags(found, stage)
        assert min(found_ms) >= DELAY_MS + 1
        assert max(found_ms) <= DELAY_MS + 1 + 200 + 2 + number * (100 + 2)
    assert max(lags(found, "source")) - min(lags(found, "source")) >= 200 - 13


def test_records_that_lie_behind_leave_the_watermark_behind() -> None:
    """Of 500 records/s that lie up to 300 ms behind the latest lies about 35 ms behind.

    A record is later than all if none of those behind it, half a one each ms, lies less behind: it
    is sqrt(2 x 300 / 0.5) ms, and hardly ever three times that.
    """
    times = {"event_time": {"out_of_orderness_s": 0.3, "offset_s": -2}}
    found = tables(rates=(500, 4000, 4000, 4000), **times)
    found_ms = lags(found, "source")
    assert min(found_ms) >= 2000 + DELAY_MS + 1
    assert max(found_ms) <= 2000 + DELAY_MS + 1 + 200 + 2 + 3 * 35


def test_a_source_that_falls_silent_keeps_its_watermark() -> None:
    """Its lag grows as time goes; with idleness nobody waits for it, and it is said so."""
    rate = [{"at_s": 0, "rate": 500}, {"at_s": 3, "rate": 0}, {"at_s": 90, "rate": 1}]
    marks = {"delay_s": DELAY_MS / 1000, "idle_after_s": 1}
    found = tables(rates=(500, 4000, 4000, 4000), emit_rate=rate, watermark=marks)
    last = [row for row in found["time"] if row["t_s"] == 8]
    assert [row["is_idle"] for row in last] == [True] * 4
    assert [row["watermark_s"] for row in last] == pytest.approx([3 - 0.302] * 4, abs=0.002)
    assert [row["watermark_lag_ms"] for row in last] == pytest.approx([5302] * 4, abs=2)
    began = min(row["t_s"] for row in found["time"] if row["is_idle"])
    assert 3 + 1 + 0.2 <= began <= 3 + 1 + 3 * 0.2 + 0.013  # (T + P, T + 3P] after the last record
