"""The rules of Spark's event time, compiled: step for step what they are in plain Python."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import numpy as np
import pytest

from flowcontrol.kernel.compiled import _register, is_compiled
from flowcontrol.memory.cells import cells_of, view, views
from flowcontrol.protocol.windows import firing, spark_batches
from flowcontrol.protocol.windows import spark_batches as w
from flowcontrol.spec import window_operator as keeping
from flowcontrol.spec.spark_aggregation import settings_of
from flowcontrol.state.declared import width
from flowcontrol.state.tasks import TaskBatch
from flowcontrol.state.windows import (
    ColumnValues,
    WindowEntry,
    Windows,
    WindowSettings,
    WindowStore,
)

pytestmark = [pytest.mark.skipif(not is_compiled(), reason="needs numba"), pytest.mark.long]

CAPACITY, BUCKETS, INPUTS = 24, 32, 2
STORE = width(WindowSettings)
BATCH = STORE + width(WindowStore)
QUERY = BATCH + width(TaskBatch)
OPERATORS = QUERY + width(w.QueryWatermark)
ENTRIES = OPERATORS + INPUTS * width(w.WatermarkOperator)
ROWS = ENTRIES + CAPACITY * width(WindowEntry)
FURTHER = ROWS + BUCKETS + 2 * (CAPACITY + 1)
TABLE = FURTHER + (CAPACITY + 1) * width(ColumnValues)
VALUES = [7, -3, 11]
"""Of three ids in the one further column: an id is a key."""
CELLS = TABLE + len(VALUES)
RESULT = 7
"""Cells of a result."""

FORMS = [
    (window, mode)
    for window in (("tumbling", 10), ("sliding", 10, 4, 1), ("session", 5))
    for mode in (w.APPEND, w.UPDATE, w.COMPLETE)
    if not (window[0] == "session" and mode == w.UPDATE)
]


def run(windows: Any, batch: Any, query: Any, operators: Any, steps: Any, results: Any) -> int:
    """Do the steps, one behind the other; return how many groups went out.

    A step is a row of four: its input, key and time, and what it returned; or, of an input below
    0, the end of a batch.
    """
    own, count = windows.store, 0
    for i in range(0, len(steps), 4):
        if steps[i] >= 0:
            key, ms = steps[i + 1], steps[i + 2]
            own.element_id = key
            steps[i + 3] = spark_batches.take_row(
                windows, batch, operators, steps[i], key, ms, key + 2
            )
        else:
            spark_batches.begin_answer(windows.store, batch, query.current)
            while spark_batches.next_answer(windows, batch) == 1:
                results[7 * count] = own.result_key
                results[7 * count + 1] = own.result_start
                results[7 * count + 2] = own.result_ms
                results[7 * count + 3] = own.result_count
                results[7 * count + 4] = own.result_sum
                results[7 * count + 5] = windows.further[0].sum
                results[7 * count + 6] = windows.further[0].valued
                count += 1
            w.end_batch(query, operators)
            steps[i + 3] = w.needs_no_data_batch(query, batch.mode)
    return count


@pytest.fixture(scope="module")
def entry() -> Any:
    """Compile the steps, on one memory of integers."""
    from numba import njit

    from flowcontrol.kernel.lowered_state import ints_type, placed_at, rows_type, state_type

    def state_at(cls: type[Any]) -> Any:
        def found(memory: Any, place: int) -> Any:
            return view(cls, memory, place)

        placed_at(found, lambda memory: state_type(cls))
        return found

    def rows_at(cls: type[Any]) -> Any:
        def found(memory: Any, place: int, count: int) -> Any:
            return views(cls, memory, place, count)

        placed_at(found, lambda memory: rows_type(cls))
        return found

    def row_at(memory: Any, place: int, count: int) -> Any:
        return memory[place : place + count]

    _register()
    placed_at(row_at, lambda memory: ints_type)
    settings_at, store_at, batch_at, query_at = map(
        state_at, (WindowSettings, WindowStore, TaskBatch, w.QueryWatermark)
    )
    operators_at, entries_at = rows_at(w.WatermarkOperator), rows_at(WindowEntry)
    further_at = rows_at(ColumnValues)
    compiled = njit(run)
    capacity, count, inputs = CAPACITY, BUCKETS, INPUTS
    store, batch, query, operators = STORE, BATCH, QUERY, OPERATORS
    entries, rows, further, table, values = ENTRIES, ROWS, FURTHER, TABLE, len(VALUES)

    @njit
    def found(cells, steps, results):  # type: ignore[no-untyped-def]
        windows = Windows(
            settings_at(cells, 0),
            store_at(cells, store),
            entries_at(cells, entries, capacity),
            row_at(cells, rows, count),
            row_at(cells, rows + count, capacity + 1),
            row_at(cells, rows + count + capacity + 1, capacity + 1),
            further_at(cells, further, capacity + 1),
            row_at(cells, table, values),
        )
        own, all_operators = batch_at(cells, batch), operators_at(cells, operators, inputs)
        return compiled(windows, own, query_at(cells, query), all_operators, steps, results)

    return found


def random_steps(rng: random.Random) -> list[int]:
    """Return steps: rows about a time that moves on, and ends of batches."""
    steps, now = list[int](), -15
    for _ in range(90):
        what = rng.choices((0, 1, -1), (6, 6, 3))[0]
        now += rng.choice((0, 0, 1, 4))
        steps += [what, rng.randrange(3), now - rng.choice((0, 0, 2, 20)), 0]
    return steps


def cells_in(windows: Windows, states: tuple[Any, ...]) -> list[int]:
    rows = (windows.buckets, windows.event_heap, windows.clock_heap)
    cells = [int(one) for part in (*states, *windows.entries) for one in cells_of(part)]
    cells += [one for row in rows for one in row]
    cells += [int(one) for part in windows.further for one in cells_of(part)]
    return [*cells, *windows.table]


def test_compiled_rules_do_what_they_do_in_plain_python(entry: Any) -> None:
    rng = random.Random(5)
    met: Counter[str] = Counter()
    for window, mode in FORMS * 12:
        settings = settings_of(window)
        settings.gap, settings.further = 5, 1
        windows = keeping.new_windows(settings, CAPACITY, VALUES)
        batch, query = TaskBatch(1, mode, 1), w.QueryWatermark(rng.randrange(2))
        operators = [w.WatermarkOperator(rng.choice((0, 5, 30))) for _ in range(INPUTS)]
        states = windows.settings, windows.store, batch, query, *operators
        cells = np.array(cells_in(windows, states), np.int64)
        assert len(cells) == CELLS
        plain = random_steps(rng)
        steps, results = np.array(plain), np.zeros(RESULT * 4000, np.int64)
        wanted = [0] * len(results)
        count = run(windows, batch, query, operators, plain, wanted)
        assert entry(cells, steps, results) == count
        assert steps.tolist() == plain
        assert results.tolist() == wanted
        assert cells.tolist() == cells_in(windows, states)
        for at in range(0, RESULT * count, RESULT):
            key, counted, total, valued = wanted[at], wanted[at + 3], *wanted[at + 5 : at + 7]
            assert (total, valued) == (VALUES[key] * counted, counted)
        met[f"{window[0]} {mode}"] += count
        met["late"] += windows.store.late
        met["full"] += plain[3::4].count(firing.FULL)
        met["used again"] += windows.store.used < windows.store.order
    assert len(met) == len(FORMS) + 3
    assert min(met.values()) >= 10, met
