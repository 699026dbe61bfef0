"""Bracketing and bisection on a yes that becomes a no at a known place."""

from __future__ import annotations

from fractions import Fraction

import pytest

from flowcontrol.experiments.capacity.probe import HIGHEST, LOWEST, rounded, search


def ask(limit: float) -> tuple[list[Fraction], object]:
    asked: list[Fraction] = []

    def holds(rate: Fraction) -> bool:
        asked.append(rate)
        return rate <= limit

    return asked, holds


@pytest.mark.parametrize("width", [0.1, 0.005, 0.0001])
@pytest.mark.parametrize("limit", [0.0123, 1, 999.5, 3000, 123456.789])
@pytest.mark.parametrize("start", [1, 2999, 10**6])
def test_the_limit_lies_between_the_two_and_they_are_close(
    width: float, limit: float, start: int
) -> None:
    asked, holds = ask(limit)
    below, above = search(holds, Fraction(start), width)  # type: ignore[arg-type]
    assert below is not None
    assert above is not None
    assert below <= limit < above
    assert above <= below * (1 + Fraction(width) * Fraction(5, 4))
    assert len(asked) == len(set(asked))
    assert {below, above} <= set(asked)


def test_every_rate_holds() -> None:
    asked, holds = ask(float("inf"))
    below, above = search(holds, Fraction(1000), 0.01)  # type: ignore[arg-type]
    assert above is None
    assert below == max(asked)
    assert HIGHEST / 2 < below <= HIGHEST


def test_no_rate_holds() -> None:
    asked, holds = ask(0)
    below, above = search(holds, Fraction(1000), 0.01)  # type: ignore[arg-type]
    assert below is None
    assert above == min(asked)
    assert LOWEST <= above < 4 * LOWEST


@pytest.mark.parametrize(
    ("rate", "width", "result"),
    [
        ("3141.5926", 0.01, "3142"),
        ("3141.5926", 0.001, "3141.6"),
        ("31415926", 0.01, "31420000"),
        ("0.0314159", 0.1, "0.0314"),
        ("7", 0.5, "7"),
    ],
)
def test_rates_have_few_digits(rate: str, width: float, result: str) -> None:
    assert rounded(Fraction(rate), width) == Fraction(result)


@pytest.mark.parametrize("width", [0.5, 0.01, 0.0001])
def test_rounding_is_small_against_the_width(width: float) -> None:
    for power in range(-3, 9):
        rate = Fraction(10) ** power * Fraction(98765, 10**5)
        assert abs(rounded(rate, width) / rate - 1) <= width / 8
