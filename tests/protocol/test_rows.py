"""First-in-first-out rows: order, wrap-around, limits."""

from __future__ import annotations

from collections import deque

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flowcontrol.protocol import rules


def fifo(capacity: int) -> list[int]:
    return [0] * (rules.FIFO_SLOTS + capacity)


def contents(row: list[int]) -> list[int]:
    copy = list(row)
    values = []
    while (value := rules.fifo_pop(copy)) != -1:
        values.append(value)
    return values


@pytest.mark.parametrize("capacity", [1, 2, 3])
def test_a_full_row_refuses_and_changes_nothing(capacity):
    row = fifo(capacity)
    assert [rules.fifo_push(row, i) for i in range(capacity)] == [1] * capacity
    before = list(row)
    assert rules.fifo_push(row, 99) == 0
    assert row == before


def test_an_empty_row_gives_minus_one_and_changes_nothing():
    row = fifo(2)
    assert rules.fifo_pop(row) == -1
    assert rules.fifo_remove(row, 0) == 0
    assert row == fifo(2)


def test_only_the_oldest_occurrence_is_removed():
    row = fifo(4)
    for value in (7, 8, 7, 9):
        rules.fifo_push(row, value)
    assert rules.fifo_remove(row, 7) == 1
    assert contents(row) == [8, 7, 9]


@given(
    st.integers(1, 4),
    st.lists(st.tuples(st.sampled_from(["push", "pop", "remove"]), st.integers(0, 3))),
)
def test_a_row_behaves_as_a_bounded_deque(capacity, steps):
    row, model = fifo(capacity), deque()
    for action, value in steps:
        if action == "push":
            assert rules.fifo_push(row, value) == (len(model) < capacity)
            if len(model) < capacity:
                model.append(value)
        elif action == "pop":
            assert rules.fifo_pop(row) == (model.popleft() if model else -1)
        else:
            assert rules.fifo_remove(row, value) == (value in model)
            if value in model:
                model.remove(value)
        assert contents(row) == list(model)
        assert row[rules.FIFO_COUNT] == len(model)
