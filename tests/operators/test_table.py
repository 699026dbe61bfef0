"""Every kind of operator has what a task, a clock and a ledger ask of it."""

from __future__ import annotations

from dataclasses import asdict, replace
from fractions import Fraction

import pytest

from flowcontrol.protocol.tasks.operators import (
    OPERATORS,
    WINDOW,
    AnyOperator,
    as_selectivity,
    on_records,
    operators_of,
)
from flowcontrol.state.declared import columns, put_back, width
from flowcontrol.state.tasks import TASK_INPUT, Operator


@pytest.mark.parametrize("kind", OPERATORS)
def test_a_fresh_one_knows_its_kind_and_has_done_nothing(kind: int) -> None:
    state = OPERATORS[kind]()
    assert (state.kind, state.input, state.records_in, state.records_out) == (kind, -1, 0, 0)
    assert columns(OPERATORS[kind])[: width(Operator)] == columns(Operator)


@pytest.mark.parametrize("kind", OPERATORS)
def test_a_ledger_keeps_all_of_it(kind: int) -> None:
    state = OPERATORS[kind]()
    on_records(state, 5)
    again = OPERATORS[kind]()
    put_back(again, asdict(state))
    assert again == state


def test_what_a_stage_says() -> None:
    assert operators_of(Fraction(1)) == []
    [own] = operators_of(Fraction(5, 2))
    assert (own.input, own.ratio, own.most_outputs) == (TASK_INPUT, Fraction(5, 2), 3)


def test_a_window_comes_before_what_the_stage_says_besides() -> None:
    """It counts records in; its results are put out one by one, so none is due at once."""
    first, second = operators_of(Fraction(1, 2), Fraction(1, 10))
    assert (first.kind, first.ratio, first.most_outputs) == (WINDOW, Fraction(1, 10), 1)
    assert second.ratio == Fraction(1, 2)
    assert on_records(first, 5) == 0


def test_rules_are_those_of_the_kind() -> None:
    [own] = operators_of(Fraction(5, 2))
    other: AnyOperator = replace(own)
    assert as_selectivity(own) is own
    assert [on_records(own, 1), on_records(own, 1), on_records(other, 2)] == [2, 3, 5]
    assert own == other
