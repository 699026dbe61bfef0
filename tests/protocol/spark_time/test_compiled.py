"""The rules of Spark's event time, compiled: step for step what they are in plain Python."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import numpy as np
import pytest

from flowcontrol.protocol.spark_time import assignment as a
from flowcontrol.protocol.spark_time import watermarks as w
from flowcontrol.protocol.state import width
from flowcontrol.protocol.windows.assigners import start_of
from flowcontrol.virtual.cells import cells_of, view, views
from flowcontrol.virtual.compiled import RULES, _register, is_compiled

pytestmark = pytest.mark.skipif(not is_compiled(), reason="needs numba")

OPERATORS = 3
SIZE, SLIDE, OFFSET = 10, 4, -3
FIELDS = 4
"""Of a step: what, operator or mode, time, what it returned."""
CELLS = width(w.QueryWatermark) + OPERATORS * width(w.WatermarkOperator)


def run(query: Any, operators: Any, steps: Any) -> None:
    """Do the steps, one behind the other."""
    for i in range(0, len(steps), 4):
        what, which, time = steps[i], steps[i + 1], steps[i + 2]
        done = 0
        if what == 0:
            w.observe(operators[which], time)
        elif what == 1:
            w.end_batch(query, operators)
            done = query.current
        elif what == 2:
            w.restart(query, operators)
        elif what == 3:
            late = w.late_watermark(query, which % 2)
            done = w.is_over(time, late) * w.drops_late(which, which % 2)
        elif what == 4:
            done = w.needs_no_data_batch(query, which)
        else:
            last = start_of(time, OFFSET, SLIDE)
            count = a.window_count(time, last, SIZE, SLIDE)
            done = 100 * count + last + a.touches(last, query.current)
        steps[i + 3] = done


@pytest.fixture(scope="module")
def entry() -> Any:
    """Compile the steps, on one memory of integers."""
    from numba import njit

    from flowcontrol.virtual.lowered_state import placed_at, rows_type, state_type

    def query_at(memory: Any, place: int) -> Any:
        return view(w.QueryWatermark, memory, place)

    def operators_at(memory: Any, place: int, count: int) -> Any:
        return views(w.WatermarkOperator, memory, place, count)

    with pytest.MonkeyPatch.context() as patch:
        # Nothing of the kernel calls them yet.
        patch.setitem(RULES, "protocol.spark_time", "watermarks assignment")
        _register()
    placed_at(query_at, lambda memory: state_type(w.QueryWatermark))
    placed_at(operators_at, lambda memory: rows_type(w.WatermarkOperator))
    compiled, second, count = njit(run), width(w.QueryWatermark), OPERATORS

    @njit
    def found(cells, steps):  # type: ignore[no-untyped-def]
        compiled(query_at(cells, 0), operators_at(cells, second, count), steps)

    return found


def test_compiled_rules_do_what_they_do_in_plain_python(entry: Any) -> None:
    rng = random.Random(1)
    met: Counter[tuple[int, bool]] = Counter()
    for case in range(100):
        query = w.QueryWatermark(case % 2)
        operators = [w.WatermarkOperator(rng.choice((0, 5, 30))) for _ in range(OPERATORS)]
        cells = np.concatenate([cells_of(state) for state in (query, *operators)])
        assert len(cells) == CELLS
        plain, now = list[int](), -20
        for _ in range(60):
            now += rng.choice((0, 0, 3, 10))
            time = now - rng.choice((0, 0, 5, 40))
            plain += [rng.choice((0, 0, 0, 1, 1, 2, 3, 4, 5)), rng.randrange(OPERATORS), time, 0]
        steps = np.array(plain)
        entry(cells, steps)
        run(query, operators, plain)
        assert steps.tolist() == plain
        assert cells.tolist() == np.concatenate([cells_of(s) for s in (query, *operators)]).tolist()
        met.update((plain[i], plain[i + 3] != 0) for i in range(0, len(plain), FIELDS))
    assert all(met[what, True] and met[what, False] for what in (1, 3, 4))
