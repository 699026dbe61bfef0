"""Numbers of a scenario as whole numbers: how near they are, and that no product leaves 64 bits."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flowcontrol.protocol.service import MOST, proportion, ratio_of

EXAMPLES = 12 * settings.default.max_examples
LIMIT = 1 << 63
ERROR = 2.0**-30.5

DOUBLES = st.floats(0, 1e15, exclude_min=True) | st.floats(1e-6, 1e6) | st.floats(1, 1.001)


@pytest.mark.parametrize(
    ("stated", "ratio"),
    [
        (0.1, Fraction(1, 10)),
        (0.3333333333333333, Fraction(1, 3)),
        (0.6666666666666666, Fraction(2, 3)),
        (0.14285714285714285, Fraction(1, 7)),
        (2.5, Fraction(5, 2)),
        (1e6, Fraction(10**6)),
        (1183.673469, Fraction(1183673469, 10**6)),
        (0.123456789, Fraction(123456789, 10**9)),
        (1e-12, Fraction(1, 10**12)),
        (5e-324, Fraction(1, MOST)),
        (0.0, Fraction(0)),
    ],
)
def test_by_hand(stated: float, ratio: Fraction) -> None:
    assert ratio_of(Fraction(repr(stated))) == ratio


@settings(max_examples=EXAMPLES)
@given(DOUBLES)
def test_a_ratio_is_near_and_small_enough(stated: float) -> None:
    exact = Fraction(repr(stated))
    found = ratio_of(exact)
    assert found.numerator * found.denominator <= MOST
    if exact >= Fraction(1, MOST):
        assert abs(found / exact - 1) <= ERROR
    assert ratio_of(found) == found


def test_proportions_fit_and_are_exact(narrow: type[int], draw_until: Any) -> None:
    hard = 0

    @settings(max_examples=EXAMPLES)
    @given(
        st.integers(10**11, MOST) | st.integers(0, 10**12),
        st.integers(10**15, MOST) | st.integers(1, 10**15),
        st.floats(0, 1) | st.just(0.7),
    )
    def look(whole: int, total: int, share: float) -> None:
        nonlocal hard
        part = min(total, int(total * share))
        hard += whole * part >= LIMIT
        found = proportion(narrow(whole), narrow(part), narrow(total))
        assert found == whole * part // total

    draw_until(look, lambda: hard > EXAMPLES // 20, 5)
    assert hard > EXAMPLES // 20
