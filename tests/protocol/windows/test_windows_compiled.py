"""The rules of windows, compiled: step for step what they are in plain Python."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import numpy as np
import pytest

from flowcontrol.kernel.compiled import _register, is_compiled
from flowcontrol.memory.cells import cells_of, view, views
from flowcontrol.protocol.windows import firing
from flowcontrol.protocol.windows.contents import NO_VALUE
from flowcontrol.spec import window_operator as keeping
from flowcontrol.spec.window_arguments import read_settings
from flowcontrol.state.declared import width
from flowcontrol.state.windows import (
    ColumnValues,
    WindowEntry,
    Windows,
    WindowSettings,
    WindowStore,
)

pytestmark = [pytest.mark.skipif(not is_compiled(), reason="needs numba"), pytest.mark.long]

CAPACITY, BUCKETS = 9, 16
STORE = width(WindowSettings)
ENTRIES = STORE + width(WindowStore)
ROWS = ENTRIES + CAPACITY * width(WindowEntry)
COLUMNS = 2
"""Columns beside the first."""
FURTHER = ROWS + BUCKETS + 2 * (CAPACITY + 1)
TABLE = FURTHER + (CAPACITY + 1) * COLUMNS * width(ColumnValues)
FIELDS = 6
"""Of a step: what, key, time, value, the clock, what it returned."""
ENDS = (-(1 << 63), 1 - (1 << 63), (1 << 63) - 2, (1 << 63) - 1)
"""Times and values at both ends of 64 bits."""
VALUES = [3, NO_VALUE, -7, 5, NO_VALUE, NO_VALUE, *ENDS[1:3], 0, -1]
"""Of five ids in each further column."""
CELLS = TABLE + len(VALUES)
RESULT = 18
"""Cells of a result."""

CASES = [
    (assigner, trigger, lateness, purging, time)
    for assigner in (("tumbling", 10, 0), ("sliding", 10, 4, 1), ("session", 5), ("global",))
    for trigger, time in (
        (("event",), "event"),
        (("processing",), "processing"),
        (("count", 2), "event"),
        (("continuous", 3), "event"),
        (("continuous", 3), "processing"),
        (("timeout", ("count", 3), 5, True, True), "event"),
        (("timeout", ("event",), 5, False, True), "event"),
    )
    for lateness, purging in ((0, False), (6, True))
    if not (assigner[0] == "session" and trigger[0] == "timeout")
]


def run(windows: Any, steps: Any, results: Any) -> int:
    """Do the steps, one behind the other; return how many results there were."""
    own, count = windows.store, 0
    for i in range(0, len(steps), 6):
        what, at = steps[i], steps[i + 2]
        if what == 0:
            key, value, now = steps[i + 1], steps[i + 3], steps[i + 4]
            own.element_id = (value % 5 + now % 5) % 5
            steps[i + 5] = firing.on_element(windows, key, at, value, now)
        elif what == 1:
            steps[i + 5] = firing.on_watermark(windows, at)
        else:
            steps[i + 5] = firing.on_clock(windows, at)
        while firing.next_result(windows) == 1:
            at = 18 * count
            results[at] = own.result_key
            results[at + 1] = own.result_start
            results[at + 2] = own.result_ms
            results[at + 3] = own.result_count
            results[at + 4] = own.result_sum
            results[at + 5] = own.result_min
            results[at + 6] = own.result_max
            results[at + 7] = own.result_wraps
            for c in range(windows.settings.further):
                held = windows.further[c]
                results[at + 5 * c + 8] = held.valued
                results[at + 5 * c + 9] = held.sum
                results[at + 5 * c + 10] = held.min
                results[at + 5 * c + 11] = held.max
                results[at + 5 * c + 12] = held.wraps
            count += 1
    return count


@pytest.fixture(scope="module")
def entry() -> Any:
    """Compile the steps, on one memory of integers."""
    from numba import njit

    from flowcontrol.kernel.lowered_state import ints_type, placed_at, rows_type, state_type

    def settings_at(memory: Any, place: int) -> Any:
        return view(WindowSettings, memory, place)

    def store_at(memory: Any, place: int) -> Any:
        return view(WindowStore, memory, place)

    def entries_at(memory: Any, place: int, count: int) -> Any:
        return views(WindowEntry, memory, place, count)

    def further_at(memory: Any, place: int, count: int) -> Any:
        return views(ColumnValues, memory, place, count)

    def row_at(memory: Any, place: int, count: int) -> Any:
        return memory[place : place + count]

    _register()
    placed_at(settings_at, lambda memory: state_type(WindowSettings))
    placed_at(store_at, lambda memory: state_type(WindowStore))
    placed_at(entries_at, lambda memory: rows_type(WindowEntry))
    placed_at(further_at, lambda memory: rows_type(ColumnValues))
    placed_at(row_at, lambda memory: ints_type)
    compiled = njit(run)
    capacity, count, store, entries, rows = CAPACITY, BUCKETS, STORE, ENTRIES, ROWS
    further, held, table, values = FURTHER, (CAPACITY + 1) * COLUMNS, TABLE, len(VALUES)

    @njit
    def found(cells, steps, results):  # type: ignore[no-untyped-def]
        windows = Windows(
            settings_at(cells, 0),
            store_at(cells, store),
            entries_at(cells, entries, capacity),
            row_at(cells, rows, count),
            row_at(cells, rows + count, capacity + 1),
            row_at(cells, rows + count + capacity + 1, capacity + 1),
            further_at(cells, further, held),
            row_at(cells, table, values),
        )
        return compiled(windows, steps, results)

    return found


def random_steps(rng: random.Random, is_wide: bool) -> list[int]:
    """Return steps: elements about the watermark, and watermarks and times that mostly grow."""
    steps, watermark, now = [], -30, -30
    for _ in range(80):
        what = rng.choices((0, 1, 2), (8, 2, 2))[0]
        if what == 1:
            watermark += rng.randrange(9)
        elif what == 2:
            now += rng.randrange(9)
        at = (watermark + rng.randrange(-12, 14), watermark, now)[what]
        value = rng.randrange(-9, 9)
        if is_wide and what == 0 and rng.random() < 0.05:
            at, value = rng.choice(ENDS), rng.choice(ENDS)
        steps += [what, rng.randrange(3), at, value, now, 0]
    return [*steps, 1, 0, (1 << 63) - 1, 0, 0, 0]


def cells_in(windows: Windows) -> list[int]:
    states = (windows.settings, windows.store, *windows.entries)
    rows = (windows.buckets, windows.event_heap, windows.clock_heap)
    found = [int(one) for part in states for one in cells_of(part)]
    found += [x for row in rows for x in row]
    found += [int(one) for part in windows.further for one in cells_of(part)]
    return [*found, *windows.table]


def test_compiled_rules_do_what_they_do_in_plain_python(entry: Any) -> None:
    rng = random.Random(5)
    met: Counter[str] = Counter()
    for case in CASES * 4:
        settings = read_settings(*case)
        settings.further = COLUMNS
        windows = keeping.new_windows(settings, CAPACITY, VALUES)
        cells = np.array(cells_in(windows), np.int64)
        assert len(cells) == CELLS
        is_wide = case[1][0] != "continuous"  # which fires at each multiple between
        plain = random_steps(rng, is_wide)
        steps, results = np.array(plain), np.zeros(RESULT * 1000, np.int64)
        wanted = [0] * len(results)
        count = run(windows, plain, wanted)
        assert entry(cells, steps, results) == count
        assert steps.tolist() == plain
        assert results.tolist() == wanted
        assert cells.tolist() == cells_in(windows)
        met[case[0][0]] += count
        met[case[1][0]] += count
        answers = Counter(plain[i + 5] for i in range(0, len(plain), FIELDS) if plain[i] == 0)
        met["late"] += answers[firing.LATE]
        met["full"] += answers[firing.FULL]
        met["used again"] += windows.store.used < windows.store.order
        met["without a value"] += sum(
            results[at + 3] > 0 == results[at + 8] for at in range(0, RESULT * count, RESULT)
        )
        met["sum beyond 64 bits"] += np.count_nonzero(results[7 : RESULT * count : RESULT])
    assert len(met) == 4 + 5 + 5
    assert min(met.values()) >= 20, met
