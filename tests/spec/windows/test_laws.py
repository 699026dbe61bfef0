"""What holds of windows for any elements and watermarks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from copy import deepcopy
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flowcontrol.protocol.windows import firing
from flowcontrol.spec import WindowOperator
from flowcontrol.spec import window_operator as keeping
from flowcontrol.spec.window_arguments import read_settings
from flowcontrol.state.windows import Windows

PANES = [("tumbling", 10, 0), ("sliding", 10, 4, 0), ("sliding", 9, 3, 1)]
SESSIONS = [("session", 6)]
ELEMENTS = st.lists(st.tuples(st.sampled_from("abc"), st.integers(-8, 12)), max_size=8)
ROUNDS = st.lists(st.tuples(ELEMENTS, st.integers(0, 12)), min_size=2, max_size=8)
"""Elements, key and time after the last watermark, and by how much the next one is larger."""

FEW = max(8, settings.default.max_examples // 3)


def run(
    assigner: tuple[Any, ...], rounds: Any, **arguments: Any
) -> tuple[WindowOperator, list[Any]]:
    """Each element's value is a bit of its own, so a sum says which elements are in a window."""
    operator, found, number, watermark = WindowOperator(assigner, **arguments), [], 0, 0
    operator.watermark(watermark)
    for elements, step in rounds:
        for key, ahead in elements:
            found += operator.element(0, key, 1 << number, watermark + ahead)
            number += 1
            number %= 62
        watermark += step
        found += operator.watermark(watermark)
    return operator, found + operator.watermark((1 << 63) - 1)


@settings(max_examples=FEW)
@given(assigner=st.sampled_from(PANES + SESSIONS), rounds=ROUNDS)
def test_a_window_fires_once_and_each_element_is_in_its_windows_or_late(
    assigner: tuple[Any, ...], rounds: Any
) -> None:
    rounds = rounds[:7]
    operator, found = run(assigner, rounds)
    windows = [(key, start, end) for key, _, start, end, _ in found]
    assert len(set(windows)) == len(windows)
    late = {value for _, value, _ in operator.late}
    number, watermark = 0, 0
    for elements, step in rounds:
        for key, ahead in elements:
            bit, at = 1 << number, watermark + ahead
            inside = [w for own, value, *w in found if value & bit and own == key]
            assert len(inside) == sum(value & bit > 0 for _, value, *_ in found)
            assert all(start <= at < end for start, end, _ in inside)
            assert (bit in late) != bool(inside)
            if assigner[0] != "session" and bit not in late:
                kept = [w for w in own_windows(assigner, at) if w[1] - 1 > watermark]
                assert sorted((start, end) for start, end, _ in inside) == sorted(kept)
            assert bit not in late or at <= watermark
            number += 1
        watermark += step
    assert operator.state_bytes == 0


def own_windows(assigner: tuple[Any, ...], at: int) -> list[tuple[int, int]]:
    size, slide = assigner[1], assigner[2] if assigner[0] == "sliding" else assigner[1]
    return [(s, s + size) for s in range(at - size + 1, at + 1) if (s - assigner[-1]) % slide == 0]


@settings(max_examples=FEW)
@given(assigner=st.sampled_from(PANES + SESSIONS), rounds=ROUNDS, data=st.data())
def test_the_order_of_elements_between_two_watermarks_does_not_count(
    assigner: tuple[Any, ...], rounds: Any, data: st.DataObject
) -> None:
    """Of late ones neither, but of sessions, which may keep one of two late elements or both."""
    if assigner in SESSIONS:
        rounds = [([(key, abs(ahead) + 1) for key, ahead in el], step) for el, step in rounds]
    elements = [[(key, ahead, 1 << i) for i, (key, ahead) in enumerate(el)] for el, _ in rounds]
    answers = []
    for orders in (elements, [data.draw(st.permutations(one)) for one in elements]):
        operator, found, watermark = WindowOperator(assigner), [], 0
        operator.watermark(watermark)
        for order, (_, step) in zip(orders, rounds, strict=True):
            for key, ahead, value in order:
                assert operator.element(0, key, value, watermark + ahead) == []
            watermark += step
            found.append(sorted(operator.watermark(watermark)))
        answers.append((found, sorted(operator.late), operator.state_bytes))
    assert answers[0] == answers[1]


@settings(max_examples=FEW)
@given(assigner=st.sampled_from(PANES + SESSIONS), rounds=ROUNDS)
def test_nothing_is_late_if_the_watermark_waits_for_all(
    assigner: tuple[Any, ...], rounds: Any
) -> None:
    elements = [element for one, _ in rounds for element in one]
    operator = WindowOperator(assigner, aggregate="count")
    assert all(operator.element(0, key, None, at) == [] for key, at in elements)
    found = operator.watermark((1 << 63) - 1)
    own = [1 if assigner in SESSIONS else len(own_windows(assigner, at)) for _, at in elements]
    assert sum(count for _, count, *_ in found) == sum(own)
    assert operator.dropped == 0


STATES = {
    "tumbling": (("tumbling", 10, 0), ("event",)),
    "sliding": (("sliding", 12, 3, 0), ("event",)),
    "session": (("session", 5), ("event",)),
    "continuous": (("sliding", 12, 4, 0), ("continuous", 3)),
    "count": (("sliding", 12, 3, 0), ("count", 2)),
}


def results(windows: Windows, is_moved: bool) -> tuple[Windows, list[tuple[int, ...]]]:
    """Return what is due; between any two results all may go on from a copy of the state."""
    found = []
    windows = deepcopy(windows) if is_moved else windows
    while firing.next_result(windows) == 1:
        own = windows.store
        found.append((own.result_key, own.result_sum, own.result_start, own.result_ms))
        windows = deepcopy(windows) if is_moved else windows
    return windows, found


@pytest.mark.parametrize("kind", STATES)
def test_firing_goes_on_from_its_state_after_any_result(
    kind: str, draw_until: Callable[..., None]
) -> None:
    met: Counter[str] = Counter()
    steps = st.lists(
        st.tuples(st.integers(0, 2), st.integers(0, 4), st.integers(-12, 9)),
        min_size=10,
        max_size=25,
    )

    @settings(max_examples=3)
    @given(steps=steps)
    def look(steps: list[tuple[int, int, int]]) -> None:
        own = read_settings(*STATES[kind], 6, False, "event")
        one, other = keeping.new_windows(own, 50), keeping.new_windows(own, 50)
        watermark = 0
        for what, key, ahead in steps:
            if what < 2:
                asked = key, watermark + ahead, ahead + 20, 0
                assert firing.on_element(one, *asked) == firing.on_element(other, *asked)
            else:
                watermark += ahead + 12
                firing.on_watermark(one, watermark), firing.on_watermark(other, watermark)
            one, found = results(one, is_moved=False)
            other, wanted = results(other, is_moved=True)
            assert found == wanted
            assert one == other
            met["several at once" if what < 2 else "several"] += len(found) > 1

    names = {"count": ["several at once"], "sliding": ["several", "several at once"]}
    wanted = names.get(kind, ["several"])
    draw_until(look, lambda: all(met[name] for name in wanted), 20)
    assert all(met[name] for name in wanted), met


class Counting(list):  # type: ignore[type-arg]
    """Entries that count how often one is looked at."""

    looks = 0

    def __getitem__(self, index: Any) -> Any:
        self.looks += 1
        return super().__getitem__(index)


def test_a_watermark_that_fires_nothing_looks_at_one_window() -> None:
    own = read_settings(("tumbling", 10, 0), ("event",), 0, False, "event")
    windows = keeping.new_windows(own, 2000)
    for key in range(2000):
        assert firing.on_element(windows, key, key % 7, 1, 0) == firing.TAKEN
        assert firing.next_result(windows) == 0
    counted = windows._replace(entries=Counting(windows.entries))
    assert firing.on_watermark(counted, 8) == 0
    assert firing.next_result(counted) == 0
    assert counted.entries.looks == 1  # type: ignore[attr-defined]
    assert firing.on_watermark(counted, 9) == 1
    keys = []
    while firing.next_result(counted) == 1:
        keys.append(counted.store.result_key)
    assert keys == list(range(2000))  # in the order in which they began
    assert counted.store.open == 0


def test_an_element_that_finds_no_room_changes_nothing() -> None:
    own = read_settings(("sliding", 10, 5, 0), ("event",), 0, False, "event")
    windows = keeping.new_windows(own, 3)
    assert firing.on_element(windows, 1, 7, 1, 0) == firing.TAKEN
    assert firing.next_result(windows) == 0
    before = deepcopy(windows)
    assert firing.on_element(windows, 2, 7, 1, 0) == firing.FULL
    assert windows == before
    keeping.grow(windows, 4)
    assert firing.on_element(windows, 2, 7, 1, 0) == firing.TAKEN
    assert firing.next_result(windows) == 0
    assert windows.store.open == 4
    firing.on_watermark(windows, 100)
    assert [row[0] for row in results(windows, is_moved=False)[1]] == [1, 2, 1, 2]
    assert windows.store.open == 0
    assert firing.on_element(windows, 3, 117, 1, 0) == firing.TAKEN  # the entries are free again
    assert firing.next_result(windows) == 0
    assert windows.store.used == 4
