"""A column beside the first is what it would be as the first one of windows of its own."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator
from copy import deepcopy
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flowcontrol.protocol.windows import firing, spark_batches
from flowcontrol.protocol.windows import spark_batches as w
from flowcontrol.protocol.windows.contents import NO_VALUE
from flowcontrol.protocol.windows.firing import further_of
from flowcontrol.spec import window_operator as keeping
from flowcontrol.spec.spark_aggregation import settings_of
from flowcontrol.spec.window_arguments import read_settings
from flowcontrol.state.declared import values_of
from flowcontrol.state.tasks import TaskBatch
from flowcontrol.state.windows import NONE, Windows, WindowSettings

IDS = 5
ROWS = [(4, None, 1), (None, -3, None), (0, 9, 1 << 62), (None, None, 1 << 62), (-7, 2, None)]
"""Of each id its value in three columns; sums of the last one leave 64 bits."""
COLUMNS = len(ROWS[0])
CASES = {
    "tumbling": (("tumbling", 10, 0), ("event",), 6, False),
    "purged": (("tumbling", 10, 0), ("count", 2), 0, True),
    "sliding": (("sliding", 12, 5, 0), ("event",), 0, False),
    "session": (("session", 5), ("event",), 6, False),
    "global": (("global",), ("count", 3), 0, True),
}
STEPS = st.lists(
    st.tuples(st.integers(0, 2), st.integers(0, 2), st.integers(-12, 9), st.integers(0, IDS - 1)),
    min_size=10,
    max_size=30,
)
Result = tuple[int, ...]


def of_all(own: WindowSettings, capacity: int = 2) -> Windows:
    """Windows that aggregate all columns."""
    known = [[NO_VALUE if one is None else one for one in row[1:]] for row in ROWS]
    table = [one for row in known for one in row]
    return keeping.new_windows(_with(own, COLUMNS - 1), capacity, table)


def of_each(own: WindowSettings, capacity: int = 2) -> list[Windows]:
    """Windows of each column alone."""
    return [keeping.new_windows(_with(own, 0), capacity) for _ in range(COLUMNS)]


def _with(own: WindowSettings, further: int) -> WindowSettings:
    found = deepcopy(own)
    found.further = further
    return found


def take(windows: Windows, column: int, key: int, ms: int, number: int) -> int:
    """Take an element as the clocks do."""
    value = ROWS[number][column]
    windows.store.element_id = number
    given = key, ms, 77 if value is None else value, 0
    while (done := firing.on_element(windows, *given)) == firing.FULL:
        keeping.grow(windows, 2 * len(windows.entries) + windows.settings.overlap)
    if value is None:
        windows.store.element_has_value = 0
    return done


def results(windows: Windows) -> Iterator[tuple[Result, list[Result]]]:
    """Yield what is due: whose it is, and what there is of each column."""
    while firing.next_result(windows) == 1:
        yield newest(windows)


def newest(windows: Windows) -> tuple[Result, list[Result]]:
    own = windows.store
    whose = own.result_key, own.result_start, own.result_end, own.result_count
    first = own.result_valued, own.result_sum, own.result_min, own.result_max
    first = *first, own.result_wraps
    return whose, [first, *map(values_of, further_of(windows, NONE))]


def restored(windows: Windows) -> Windows:
    """The same, from what a checkpoint has."""
    text = json.dumps(keeping.kept_state(windows))
    return keeping.windows_of(windows.settings, json.loads(text), 2, windows.table)


@pytest.mark.parametrize("go_on", [lambda own: own, restored])
@pytest.mark.parametrize("kind", CASES)
def test_each_column_is_that_of_windows_of_its_own(
    kind: str, go_on: Callable[[Windows], Windows], draw_until: Callable[..., None]
) -> None:
    met: Counter[str] = Counter()

    @settings(max_examples=5)
    @given(steps=STEPS)
    def look(steps: list[tuple[int, int, int, int]]) -> None:
        own = read_settings(*CASES[kind], "event")
        one, others, watermark = of_all(own), of_each(own), 0
        for what, key, ahead, number in [*steps, (2, 0, 1000, 0)]:
            if what < 2:
                done = take(one, 0, key, watermark + ahead, number)
                for column, other in enumerate(others):
                    assert take(other, column, key, watermark + ahead, number) == done
                met["late"] += done == firing.LATE
            else:
                watermark += ahead + 12
                for other in (one, *others):
                    firing.on_watermark(other, watermark)
            found = list(results(one))
            each = [list(results(other)) for other in others]
            for at, (whose, held) in enumerate(found):
                assert [other[at] for other in each] == [(whose, [row]) for row in held]
                met["several values"] += whose[-1] > 1 and held[0] != held[1] != held[2]
                met["none of a column"] += whose[-1] > 0 == held[1][0]
            one = go_on(one)
        assert one.store.open == 0 or kind == "global"

    wanted = {"several values", "none of a column"} - ({"late"} if kind == "global" else set())
    draw_until(look, lambda: all(met[name] for name in wanted), 20)
    assert all(met[name] for name in wanted), met


FORMS = [
    (window, mode)
    for window in (("tumbling", 10), ("sliding", 10, 4, 1), ("session", 5))
    for mode in (w.APPEND, w.UPDATE, w.COMPLETE)
    if not (window[0] == "session" and mode == w.UPDATE)
]


@pytest.mark.parametrize(("window", "mode"), FORMS)
def test_so_it_is_of_windows_of_spark(
    window: tuple[Any, ...], mode: int, draw_until: Callable[..., None]
) -> None:
    met: Counter[str] = Counter()

    @settings(max_examples=5)
    @given(steps=STEPS)
    def look(steps: list[tuple[int, int, int, int]]) -> None:
        own = settings_of(window)
        own.gap = 5
        everyone = [of_all(own, 200), *of_each(own, 200)]
        batches = [TaskBatch(1, mode, 1) for _ in everyone]
        operators = [[w.WatermarkOperator(5)] for _ in everyone]
        query, now = w.QueryWatermark(), 0
        for what, key, ahead, number in [*steps, (2, 0, 0, 0), (2, 0, 0, 0)]:
            if what < 2:
                for at, windows in enumerate(everyone):
                    value = ROWS[number][max(0, at - 1)]
                    windows.store.element_id = number
                    row = 0, key, now + ahead, NO_VALUE if value is None else value
                    done = spark_batches.take_row(windows, batches[at], operators[at], *row)
                    assert done == firing.TAKEN
                now += 2
                continue
            answers = [
                answer(windows, batch, query.current)
                for windows, batch in zip(everyone, batches, strict=True)
            ]
            for number, (whose, held) in enumerate(answers[0]):
                assert [each[number] for each in answers[1:]] == [(whose, [row]) for row in held]
                met["several values"] += whose[-1] > 1 and held[0] != held[1]
            w.end_batch(query, operators[0])

    draw_until(look, lambda: met["several values"] > 0, 20)
    assert met["several values"] > 0


def answer(windows: Windows, batch: TaskBatch, watermark: int) -> list[tuple[Result, list[Result]]]:
    """End a batch; return what goes out."""
    spark_batches.begin_answer(windows.store, batch, watermark)
    found = []
    while spark_batches.next_answer(windows, batch) == 1:
        found.append(newest(windows))
    return found


def test_a_window_that_is_gone_leaves_nothing() -> None:
    """Its place is that of the next one, and is as new."""
    windows = of_all(read_settings(("tumbling", 10, 0), ("event",), 0, False, "event"))
    for start, number in ((0, 2), (10, 4)):
        take(windows, 0, 0, start, number)
        assert list(results(windows)) == []
        assert len(windows.further) == (COLUMNS - 1) * (len(windows.entries) + 1)
        firing.on_watermark(windows, start + 9)
        _, [_, second, _] = next(results(windows))
        assert second == (1, *[ROWS[number][1]] * 3, 0)
        assert list(results(windows)) == []
        assert all(values_of(own) == (0,) * 5 for own in windows.further[COLUMNS - 1 :])
    assert windows.store.used == 1
