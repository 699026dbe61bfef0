"""Numbers in few letters: at each change of unit, and never too wide for their column."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flowcontrol.link.monitoring.figures import count, duration, size


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0"),
        (0.4, "0.4"),
        (7, "7"),
        (9.96, "10.0"),
        (950.4, "950"),
        (999.4, "999"),
        (999.6, "1k"),
        (1000, "1k"),
        (1234, "1.23k"),
        (12_345, "12.3k"),
        (9_999, "10.0k"),
        (999_499, "999k"),
        (999_500, "1.00M"),
        (1_250_000, "1.25M"),
        (3e15, "3000T"),
    ],
)
def test_count(value, text):
    assert count(value) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0"),
        (1, "1 B"),
        (999, "999 B"),
        (1024, "1 KiB"),
        (1_300_000, "1.2 MiB"),
        (13_000_000, "12 MiB"),
        (1 << 30, "1 GiB"),
    ],
)
def test_size(value, text):
    assert size(value) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "?"),
        (0, "0 s"),
        (0.0004, "0 ms"),
        (0.25, "250 ms"),
        (0.9994, "999 ms"),
        (0.9996, "1.00 s"),
        (9.601, "9.60 s"),
        (12.34, "12.3 s"),
        (89.9, "89.9 s"),
        (90, "1.5 min"),
        (600, "10 min"),
        (5399, "90 min"),
        (5400, "1.5 h"),
        (86_400, "24 h"),
        (129_600, "1.5 d"),
    ],
)
def test_duration(value, text):
    assert duration(value) == text


@given(st.floats(0, 1e14))
def test_every_number_fits_its_column(value):
    assert len(count(value)) <= 5
    assert len(size(value)) <= 8
    assert len(duration(min(value, 8e7))) <= 7
