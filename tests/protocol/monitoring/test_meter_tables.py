"""Meters and gauges of time by hand: what each update makes of them (reference 5.2, section 9)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flowcontrol.protocol.monitoring import MeterView, TimerGaugeView

# Counter at 5, 10 ... s and the rate that a meter of 60 s shows: 2,000/s for 70 s, then 500/s.
METER = [
    (10_000, 10_000 / 60), (20_000, 20_000 / 60), (30_000, 500.0), (40_000, 40_000 / 60),
    (50_000, 50_000 / 60), (60_000, 1000.0), (70_000, 70_000 / 60), (80_000, 80_000 / 60),
    (90_000, 1500.0), (100_000, 100_000 / 60), (110_000, 110_000 / 60), (120_000, 2000.0),
    (130_000, 2000.0), (140_000, 2000.0),
    (142_500, 1875.0), (145_000, 1750.0), (147_500, 1625.0), (150_000, 1500.0),
    (152_500, 1375.0), (155_000, 1250.0), (157_500, 1125.0), (160_000, 1000.0),
    (162_500, 875.0), (165_000, 750.0), (167_500, 625.0), (170_000, 500.0), (172_500, 500.0),
]  # fmt: skip

# Blocked so far at 5, 10 ... s, ms, and the gauge: 500 ms/s for 60 s, all of the time for 30, none.
GAUGE = [
    (2_500, 500), (5_000, 500), (7_500, 500), (10_000, 500), (12_500, 500), (15_000, 500),
    (17_500, 500), (20_000, 500), (22_500, 500), (25_000, 500), (27_500, 500), (30_000, 500),
    (35_000, 541), (40_000, 583), (45_000, 625), (50_000, 666), (55_000, 708), (60_000, 750),
    (60_000, 708), (60_000, 666), (60_000, 625), (60_000, 583), (60_000, 541), (60_000, 500),
]  # fmt: skip


def test_a_meter_by_hand() -> None:
    meter = MeterView(span_s=60)
    assert len(METER) >= 20
    assert meter.rate == 0.0
    for count, rate in METER:
        meter.update(count)
        assert meter.rate == rate


def test_a_gauge_of_time_by_hand() -> None:
    gauge = TimerGaugeView()
    assert len(GAUGE) >= 20
    assert gauge.value == 0
    for total_ms, value in GAUGE:
        gauge.update(total_ms)
        assert gauge.value == value


@pytest.mark.parametrize(("span_s", "rates"), [(5, [10.0, 20.0]), (3, [10.0, 20.0]), (14, [5, 15])])
def test_a_span_is_whole_updates(span_s: int, rates: list[float]) -> None:
    meter, found = MeterView(span_s), []
    for count in (50, 150):
        meter.update(count)
        found.append(meter.rate)
    assert found == rates


def test_a_gauge_stays_within_a_second() -> None:
    gauge = TimerGaugeView(5)
    gauge.update(6000)
    assert gauge.value == 1000
    gauge.update(5000)
    assert gauge.value == 0


@pytest.mark.parametrize("view", [MeterView, TimerGaugeView])
@pytest.mark.parametrize("span_s", [0, -5])
def test_a_span_is_positive(view: type[MeterView | TimerGaugeView], span_s: int) -> None:
    with pytest.raises(ValueError, match=f"above 0 s, not {span_s}"):
        view(span_s)


@given(st.lists(st.integers(0, 10**9), min_size=1, max_size=40), st.integers(1, 24))
def test_a_meter_is_a_difference_over_its_span(steps: list[int], updates: int) -> None:
    meter, count, seen = MeterView(5 * updates), 0, [0] * updates
    for step in steps:
        count += step
        meter.update(count)
        seen.append(count)
        assert meter.rate == (seen[-1] - seen[-1 - updates]) / (5 * updates)
