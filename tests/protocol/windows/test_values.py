"""Elements without a value: they count, and are in no sum, minimum or maximum."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flowcontrol.protocol.windows.contents import absorb, purge, put_in
from flowcontrol.protocol.windows.firing import TAKEN, next_result, on_element, on_watermark
from flowcontrol.spec.window_operator import kept_state, new_windows, sum_within, windows_of
from flowcontrol.state.tasks import MAX_TIME
from flowcontrol.state.windows import WindowEntry, WindowSettings

VALUES = st.lists(st.none() | st.integers(-100, 100))


def filled(values: list[int | None]) -> WindowEntry:
    entry = WindowEntry()
    for value in values:
        put_in(entry, 77 if value is None else value, int(value is not None))
    return entry


def contents(entry: WindowEntry) -> tuple[int, ...]:
    return entry.count, entry.valued, entry.sum, entry.min, entry.max


def expected(values: list[int | None]) -> tuple[int, ...]:
    known = [value for value in values if value is not None]
    ends = (min(known), max(known)) if known else (0, 0)
    return len(values), len(known), sum(known), *ends


@given(values=VALUES)
def test_what_a_window_holds(values: list[int | None]) -> None:
    assert contents(filled(values)) == expected(values)


@given(values=VALUES, others=VALUES)
def test_windows_that_merge(values: list[int | None], others: list[int | None]) -> None:
    entry = filled(values)
    absorb(entry, filled(others))
    assert contents(entry) == expected([*values, *others])


def test_a_purge_forgets_them() -> None:
    entry = filled([3, None])
    purge(entry)
    assert contents(entry) == (0, 0, 0, 0, 0)


@pytest.mark.parametrize(("value", "end"), [(5, MAX_TIME), (-5, -MAX_TIME - 1)])
def test_sums_stop_at_the_ends_where_they_are_shown(value: int, end: int) -> None:
    entry = filled([end, value, None])
    assert (sum_within(entry.sum, entry.wraps), entry.valued) == (end, 2)
    put_in(entry, -value, 1)
    assert (sum_within(entry.sum, entry.wraps), entry.wraps) == (end, 0)


WIDE = st.lists(st.sampled_from((MAX_TIME, -MAX_TIME, 5, -5)) | st.integers(-MAX_TIME, MAX_TIME))


def test_nothing_of_a_sum_is_lost(draw_until: Callable[..., None]) -> None:
    """In any order, also where windows merge, and no number leaves 64 bits."""
    met: Counter[str] = Counter()

    @given(values=WIDE, others=WIDE)
    def look(values: list[int], others: list[int]) -> None:
        entry, other = filled([*values]), filled([*others])
        absorb(entry, other)
        total = sum(values) + sum(others)
        assert entry.sum + (entry.wraps << 64) == total
        assert -MAX_TIME - 1 <= entry.sum <= MAX_TIME
        met[f"{max(-2, min(entry.wraps, 2))}"] += 1
        met["wraps meet"] += entry.wraps != 0 and other.wraps != 0
        purge(entry)
        assert entry == WindowEntry()

    wanted = {"-2", "-1", "0", "1", "2", "wraps meet"}
    draw_until(look, lambda: all(met[name] for name in wanted), 20)
    assert all(met[name] for name in wanted), met


def taken(windows: Any, value: int | None) -> None:
    """Take an element; one without a value as the clocks do."""
    assert on_element(windows, 0, 5, 77 if value is None else value, 0) == TAKEN
    if value is None:
        windows.store.element_has_value = 0
    assert next_result(windows) == 0


@pytest.mark.parametrize("values", [[None], [4], [4, None], [None, -4], [None, 4, None, 6]])
def test_a_result_says_how_many_have_one(values: list[int | None]) -> None:
    """Also of an operator that goes on from a kept state in the middle."""
    settings = WindowSettings(size=10, slide=10)
    windows = new_windows(settings, 4)
    for value in values:
        taken(windows, value)
        windows = windows_of(settings, kept_state(windows), 4)
    assert on_watermark(windows, 9) == 1
    assert next_result(windows) == 1
    store = windows.store
    found = store.result_count, store.result_valued, store.result_sum
    assert (*found, store.result_min, store.result_max) == expected(values)
