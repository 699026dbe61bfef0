"""State in one array: seen through views, as a table, and compiled."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

from flowcontrol.kernel.compiled import is_compiled
from flowcontrol.memory import cells as c
from flowcontrol.memory.cells import dtype, rows_in, view, views, whole_view
from flowcontrol.state.declared import assign


@dataclass(slots=True)
class Channel:
    """A state."""

    credit: int = 0
    backlog: int = 0
    sent: int = 0


BEFORE = 13
"""Cells before the first state, which belong to others."""


def rule(channels, waiting, times):
    """Read and write fields and a row of integers."""
    total = 0
    for number in range(times):
        for i in range(len(channels)):
            channel = channels[i]
            channel.credit += i
            channel.sent -= channel.credit
            total += channel.sent + channel.backlog
        waiting[number % len(waiting)] += total % 7
    return total


@dataclass(slots=True)
class Gate:
    """A state with others in it."""

    number: int = 0
    first: Channel = field(default_factory=Channel)
    second: Channel = field(default_factory=Channel)
    last: int = 0


def touch(gate: Any) -> int:
    """Read and write what is in a state's midst."""
    gate.second.sent += gate.first.credit
    gate.second.backlog = gate.number
    return gate.second.sent + gate.last  # type: ignore[no-any-return]


def made() -> list[Channel]:
    return [Channel(credit=i, backlog=2 * i) for i in range(4)]


def cells_of(channels: list[Channel]) -> np.ndarray:
    return np.concatenate([[-1] * BEFORE, *map(c.cells_of, channels), [-1]])


def test_objects_and_views_run_a_rule_alike() -> None:
    objects, cells = made(), cells_of(made())
    one, other = [0] * 5, [0] * 5
    found = rule(views(Channel, cells, BEFORE, 4), other, 9)
    assert found == rule(objects, one, 9)
    assert one == other != [0] * 5
    assert cells.tolist() == cells_of(objects).tolist() != cells_of(made()).tolist()


@pytest.mark.skipif(not is_compiled(), reason="needs numba")
def test_a_rule_is_compiled_as_it_stands() -> None:
    from numba import njit

    from flowcontrol.kernel.lowered_state import placed_at, rows_type

    def at(memory: Any, place: int, count: int) -> Any:
        return views(Channel, memory, place, count)

    placed_at(at, lambda memory: rows_type(Channel))
    compiled = njit(rule)

    @njit
    def entry(cells, place, waiting, times):  # type: ignore[no-untyped-def]
        return compiled(at(cells, place, 4), waiting, times)

    objects, cells = made(), cells_of(made())
    one, other = [0] * 5, np.zeros(5, np.int64)
    assert entry(cells, BEFORE, other, 9) == rule(objects, one, 9)
    assert other.tolist() == one
    assert cells.tolist() == cells_of(objects).tolist()


def test_a_view_checks_its_bounds() -> None:
    cells = cells_of(made())
    with pytest.raises(IndexError, match="Channel 4 of 4"):
        views(Channel, cells, BEFORE, 4)[4]
    with pytest.raises(IndexError):
        view(Channel, cells, len(cells) - 1).backlog  # noqa: B018  (it is the read that fails)


def test_a_view_and_an_object_take_each_others_integers() -> None:
    cells = cells_of(made())
    seen, taken = view(Channel, cells, BEFORE + 3), Channel()
    assign(taken, seen)
    assert taken == Channel(1, 2, 0)
    assign(seen, Channel(7, 8, 9))
    assert cells[BEFORE + 3 : BEFORE + 6].tolist() == [7, 8, 9]


def test_a_state_is_its_integers() -> None:
    assert c.cells_of(Channel(7, 8, 9)).tolist() == [7, 8, 9]
    assert c.cells_of(Channel()).dtype == np.int64


def test_states_one_behind_the_other_are_a_table() -> None:
    cells = cells_of(made())
    table = cells[BEFORE:-1].view(dtype(Channel))
    assert table["backlog"].tolist() == [0, 2, 4, 6]
    table["sent"][1:] = 9
    assert [channel.sent for channel in views(Channel, cells, BEFORE, 4)] == [0, 9, 9, 9]


@pytest.mark.parametrize("way", ["view", "compiled", "table"])
def test_a_state_in_the_midst_of_another_stands_there(way: str) -> None:
    cells = np.array([-1, 7, 1, 2, 3, 4, 5, 6, 8, -1], np.int64)
    if way == "view":
        assert touch(view(Gate, cells, 1)) == 15
    elif way == "table":
        table = cells[1:-1].view(dtype(Gate))
        table["second"]["sent"] += table["first"]["credit"]
        rows_in(table, Gate)[0].second.backlog = 7
    elif not is_compiled():
        pytest.skip("needs numba")
    else:
        from numba import njit

        from flowcontrol.kernel.lowered_state import placed_at, state_type

        def at(memory: Any, place: int) -> Any:
            return view(Gate, memory, place)

        placed_at(at, lambda memory: state_type(Gate))
        compiled = njit(touch)
        assert njit(lambda cells: compiled(at(cells, 1)))(cells) == 15
    assert cells.tolist() == [-1, 7, 1, 2, 3, 4, 7, 7, 8, -1]


def test_memory_shows_its_head_by_name_and_its_cells_by_place() -> None:
    memory: Any = whole_view(Gate, np.arange(10, dtype=np.int64))
    assert (memory.second.sent, memory[6], memory.last) == (6, 6, 7)
    memory[9] = memory.number = 5
    assert memory.cells.tolist() == [5, 1, 2, 3, 4, 5, 6, 7, 8, 5]
