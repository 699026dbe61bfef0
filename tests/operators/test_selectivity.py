"""Selectivity by hand, and as a law: every output has one parent, in order, and none is lost."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flowcontrol.protocol.service import MOST
from flowcontrol.protocol.tasks.operators import Selectivity, of_ratio
from flowcontrol.protocol.tasks.operators import on_selected as on_records

EXAMPLES = 12 * settings.default.max_examples
LIMIT = 1 << 63
DOUBLES = st.floats(0, 1e15, exclude_min=True) | st.floats(1e-6, 1e6) | st.floats(1, 1.001)


def made(ratio: float | str) -> Selectivity:
    found = of_ratio(Fraction(str(ratio)))
    assert found is not None
    return found


# Output n is due when the records so far times the ratio reach n.
@pytest.mark.parametrize(
    ("ratio", "outputs"),
    [
        (2, [2, 2, 2]),
        (1.5, [1, 2, 1, 2]),
        (0.5, [0, 1, 0, 1, 0]),
        (0.3, [0, 0, 0, 1, 0, 0, 1, 0, 0, 1]),
        (0.3333333333333333, [0, 0, 1, 0, 0, 1]),
        (0, [0, 0, 0]),
    ],
)
def test_what_each_record_yields(ratio: float, outputs: list[int]) -> None:
    state = made(ratio)
    assert [on_records(state, 1) for _ in outputs] == outputs
    assert on_records(made(ratio), len(outputs)) == sum(outputs)


def test_what_passes_every_record_on_needs_no_operator() -> None:
    assert of_ratio(Fraction(1)) is None
    assert of_ratio(Fraction("1.00000000001")) is None  # rules cannot tell it from 1
    assert of_ratio(Fraction("1.000001")) is not None


@pytest.mark.parametrize(("ratio", "most"), [(0, 1), (0.3, 1), (1.5, 2), (2, 2), (2.1, 3)])
def test_the_most_that_one_record_yields(ratio: float, most: int) -> None:
    state = made(ratio)
    assert state.most_outputs == most
    assert max(on_records(state, 1) for _ in range(50)) == (most if ratio > 0 else 0)


def test_sums_fit_and_are_exact(narrow: type[int], draw_until: Any) -> None:
    """However many records come at once, n of them have yielded floor(n x ratio)."""
    hard: Counter[str] = Counter()

    @settings(max_examples=EXAMPLES)
    @given(DOUBLES, st.lists(st.integers(0, MOST) | st.integers(0, 9), min_size=1, max_size=6))
    def look(stated: float, counts: list[int]) -> None:
        state = of_ratio(Fraction(repr(stated))) or Selectivity()
        ratio, records, outputs = state.ratio, 0, 0
        state.numerator, state.denominator = narrow(state.numerator), narrow(state.denominator)
        state.remainder = narrow(0)
        for count in counts:
            count = min(count, int(MOST / max(ratio, 1)) // len(counts))
            hard["would wrap"] += count * ratio.numerator >= LIMIT
            hard["large denominator"] += ratio.denominator > 2**30
            hard["left over"] += state.remainder > 0
            records += count
            outputs += on_records(state, narrow(count))
            assert outputs == records * ratio.numerator // ratio.denominator

    kinds = ("would wrap", "large denominator", "left over")
    draw_until(look, lambda: min(hard[kind] for kind in kinds) > EXAMPLES // 20, 5)
    assert min(hard[kind] for kind in kinds) > EXAMPLES // 20, hard


def test_every_output_has_one_parent_in_order(draw_until: Any) -> None:
    """The parent is the first record by which so many outputs are due; see it by the inverse."""
    met: Counter[str] = Counter()

    @settings(max_examples=EXAMPLES)
    @given(st.fractions(0, 5, max_denominator=40), st.integers(0, 60))
    def look(ratio: Fraction, records: int) -> None:
        state = of_ratio(ratio) or Selectivity()
        parents = [n for n in range(records) for _ in range(on_records(state, 1))]
        assert len(parents) == int(records * ratio)
        assert parents == [
            -(-number * ratio.denominator // ratio.numerator) - 1
            for number in range(1, len(parents) + 1)
        ]
        most = max(Counter(parents).values(), default=0)
        assert most <= state.most_outputs
        met["several of one record"] += most > 1
        met["records without any"] += len(set(parents)) < records
        met["both"] += most > 1 and ratio.denominator > 1

    kinds = ("several of one record", "records without any", "both")
    draw_until(look, lambda: all(met[kind] for kind in kinds), 5)
    assert all(met[kind] for kind in kinds), met
