"""Every figure measured on a real Flink job is met within the tolerance that it was given."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from modules import load

ROOT = Path(__file__).resolve().parents[2]


BENCH = load("bench/against_flink.py")
LONG = "FLOWCONTROL_LONG" in os.environ
END_S = BENCH.A.duration_s if LONG else 42
RUNS = BENCH.RUNS if LONG else (BENCH.A, BENCH.B_SMALL)
"""The quick form: each step up and down once, and other buffers; the slow sink is in the first."""


@pytest.fixture(scope="module")
def found() -> dict[tuple[str, str], Any]:
    """All figures by place and name."""
    from flowcontrol.virtual import simulate

    return {(row.place, row.figure): row for row in BENCH.rows(simulate, RUNS, END_S)}


def expected() -> list[tuple[str, str]]:
    places = [
        (f"{run.name}, {window[0]}-{window[1]} s", figure)
        for run, window, values in BENCH.MEASURED
        for figure, value in zip(BENCH.FIGURES, values, strict=True)
        if value is not None and run in RUNS and window[1] <= END_S
    ]
    steps = [
        (f"{BENCH.A.name}, step at {at_s} s", f"{kind} ms")
        for at_s, kind, _ in BENCH.DELAYS_MS
        if at_s + BENCH.AFTER_S <= END_S
    ]
    return [*places, *steps]


@pytest.mark.holds("credit", "virtual", "figures measured on a real Flink job")
@pytest.mark.parametrize(("place", "figure"), expected())
def test_a_figure_is_met(found: dict[tuple[str, str], Any], place: str, figure: str) -> None:
    row = found[place, figure]
    assert abs(row.model - row.measured) <= row.tolerance, row


def test_every_figure_is_looked_at(found: dict[tuple[str, str], Any]) -> None:
    assert set(found) == set(expected())
    assert len(found) == (5 * 8 + 2 * 7 + 4 if LONG else 2 * 8 + 7 + 2)


@pytest.mark.parametrize(
    ("figure", "measured", "is_light", "limit"),
    [
        ("sink rec/s", 3000, False, 30),
        ("sink rec/s", 6000, True, 60),
        ("in flight rec", 590, False, 11.8),
        ("in flight rec", 20, True, 12),
        ("out used", 9.5, False, 0.3),
        ("floating used", 0.2, True, 0.3),
        ("p50 ms", 196, False, 3.92),
        ("p50 ms", 2.3, True, 1),
        ("blocked ms/s", 474, False, 30),
        ("idle ms/s", 960, True, 30),
    ],
)
def test_the_tolerances(figure: str, measured: float, is_light: bool, limit: float) -> None:
    assert BENCH.tolerance(figure, measured, is_light) == pytest.approx(limit)
