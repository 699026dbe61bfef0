"""Fresh gates and partitions, and first-in-first-out rows as lists."""

from __future__ import annotations

from collections import deque
from types import ModuleType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flowcontrol.state import rows
from flowcontrol.state.rows import fifo, fifo_values, refill
from staged_runs import staged


@given(capacity=st.integers(1, 5), steps=st.lists(st.none() | st.integers(0, 9), max_size=40))
def test_a_row_is_a_queue(capacity: int, steps: list[int | None]) -> None:
    row, queue = fifo(capacity), deque[int]()
    for value in steps:
        if value is None:
            assert rows.fifo_pop(row) == (queue.popleft() if queue else -1)
        else:
            assert rows.fifo_push(row, value) == (len(queue) < capacity)
            queue += [value] if len(queue) < capacity else []
        assert fifo_values(row) == list(queue)
    refilled = fifo(capacity)
    refill(refilled, fifo_values(row))
    assert fifo_values(refilled) == list(queue)


@pytest.mark.parametrize(("asked", "capacity"), [(0, 1), (1, 1), (7, 7)])
def test_a_row_has_room_for_one_at_least(asked: int, capacity: int) -> None:
    row = fifo(asked)
    assert [rows.fifo_push(row, 5) for _ in range(capacity + 1)] == [1] * capacity + [0]


def test_a_fresh_gate(jobs: ModuleType) -> None:
    """One channel local, one remote: initial credit counts as announced."""
    made = jobs.job(
        [jobs.source(0, parallelism=2, placement=[0, 1]), jobs.sink(1, placement=[1])],
        [("source", "sink", "rebalance")],
    )
    [gate] = staged(made).run().task("sink").gates
    rows = [channel.state for channel in gate.channels]
    assert [row.initial for row in rows] == [2, -1]
    assert [row.exclusive for row in rows] == [2, 0]
    assert [row.announced for row in rows] == [2, 0]
    assert (gate.pool.size, gate.pool.free) == (8, 1)
    assert gate.pool.in_use == 0


def test_a_fresh_partition(jobs: ModuleType) -> None:
    made = jobs.job(
        [jobs.source(0, placement=[0]), jobs.sink(1, parallelism=2, placement=[0, 1])],
        [("source", "sink", "rebalance")],
    )
    [part] = staged(made).run().task("source").partitions
    assert [channel.state.announced for channel in part.subpartitions] == [0, 2]
    assert (part.pool.size, part.pool.max_overdraft) == (12, 5)
    assert (part.pool.free, part.pool.in_use) == (1, 0)
    assert (part.segments.total, part.segments.free) == (17, 16)
