"""How numbers are written."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flowcontrol.report.markup import bytes_text, milliseconds, number, percent, rate


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (0, "0"),
        (6000, "6,000"),
        (6000.4, "6,000"),
        (100.4, "100"),
        (99.95, "100.0"),
        (12.5, "12.5"),
        (10, "10"),
        (9.876, "9.88"),
        (0.25, "0.25"),
        (-12.5, "-12.5"),
        (336776, "336,776"),
    ],
)
def test_number(value: float, expected: str) -> None:
    assert number(value) == expected


@pytest.mark.parametrize(
    ("ratio", "expected"),
    [(0, "0 %"), (0.004, "0.4 %"), (0.01, "1 %"), (0.474, "47 %"), (1, "100 %"), (1.25, "125 %")],
)
def test_percent(ratio: float, expected: str) -> None:
    assert percent(ratio) == expected


@pytest.mark.parametrize(
    ("value", "expected"),
    [(0, "0 ms"), (2.3, "2.30 ms"), (999, "999 ms"), (1000, "1 s"), (4507, "4.51 s")],
)
def test_milliseconds(value: float, expected: str) -> None:
    assert milliseconds(value) == expected


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (0, "0 B"),
        (1023, "1,023 B"),
        (1024, "1 KiB"),
        (6000, "5.9 KiB"),
        (90_700, "89 KiB"),
        (2**50, "1,024 TiB"),
    ],
)
def test_bytes(value: float, expected: str) -> None:
    assert bytes_text(value) == expected


def test_rate_carries_its_unit() -> None:
    assert rate(6000) == "6,000 records/s"


@given(st.floats(min_value=0, max_value=1e12))
def test_a_number_keeps_what_matters(value: float) -> None:
    written = float(number(value).replace(",", ""))
    assert abs(written - value) <= max(0.005, value * 0.006)
