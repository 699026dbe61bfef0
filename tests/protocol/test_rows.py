"""First-in-first-out rows: order, wrap-around, limits."""

from __future__ import annotations

from collections import deque

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flowcontrol.state import rows
from flowcontrol.state.rows import fifo, fifo_values, refill


def contents(row: list[int]) -> list[int]:
    copy = list(row)
    values = []
    while copy[rows.FIFO_COUNT] > 0:
        values.append(rows.fifo_pop(copy))
    assert rows.fifo_pop(copy) == -1
    return values


@pytest.mark.parametrize("capacity", [1, 2, 3])
def test_a_full_row_refuses_and_changes_nothing(capacity):
    row = fifo(capacity)
    assert [rows.fifo_push(row, i) for i in range(capacity)] == [1] * capacity
    before = list(row)
    assert rows.fifo_push(row, 99) == 0
    assert row == before


def test_an_empty_row_gives_minus_one_and_changes_nothing():
    row = fifo(2)
    assert rows.fifo_pop(row) == -1
    assert row == fifo(2)


@given(
    st.integers(1, 4),
    st.lists(st.tuples(st.sampled_from(["push", "pop", "rotate", "refill"]), st.integers(-3, 3))),
)
def test_a_row_behaves_as_a_bounded_deque(capacity, steps):
    row, model = fifo(capacity), deque()
    for action, value in steps:
        if action == "push":
            assert rows.fifo_push(row, value) == (len(model) < capacity)
            if len(model) < capacity:
                model.append(value)
        elif action == "pop":
            assert rows.fifo_first(row) == (model[0] if model else -1)
            assert rows.fifo_pop(row) == (model.popleft() if model else -1)
        elif action == "rotate":
            if model:
                rows.fifo_rotate(row)
                model.rotate(-1)
        else:
            model = deque([value] * min(abs(value), capacity))
            refill(row, model)
        assert contents(row) == fifo_values(row) == list(model)
        assert row[rows.FIFO_COUNT] == len(model)
