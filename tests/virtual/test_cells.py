"""State in one array: packed, seen through views, loaded back, and compiled."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pytest

from flowcontrol.protocol.state import Ints, Ref, Rows, part, to_json
from flowcontrol.virtual.cells import dtype, load, pack, view, views
from flowcontrol.virtual.compiled import is_compiled


@dataclass(slots=True)
class Pool:
    """A part."""

    size: int = 0
    free: int = 0


@dataclass(slots=True)
class Channel:
    """A row that refers to another."""

    credit: int = 0
    sent: int = 0
    other: Ref[Channel] = None  # type: ignore[assignment]


@dataclass(slots=True)
class Gate:
    """A state with all kinds of fields."""

    number: int = 0
    pool: Pool = part(Pool)
    channels: Rows[Channel] = field(default_factory=list)
    waiting: Ints = field(default_factory=list)


@dataclass(slots=True)
class Run:
    """What holds all."""

    round: int = 0
    gates: Rows[Gate] = field(default_factory=list)


def rule(gate: Gate, times: int) -> int:
    """Use every kind of field, in plain integers."""
    total = 0
    for number in range(times):
        for i in range(len(gate.channels)):
            channel = gate.channels[i]
            channel.credit += gate.pool.size
            channel.other.sent += 1
            total += channel.credit - channel.sent
        gate.waiting[number % len(gate.waiting)] += total % 7
        gate.pool.free = total
    return total


def made() -> Run:
    gates = []
    for number in range(3):
        channels = [Channel(credit=i) for i in range(4)]
        for i, channel in enumerate(channels):
            channel.other = channels[(i + 1) % 4]
        gates.append(Gate(number, Pool(number + 1), channels, [0] * 5))
    return Run(gates=gates)


def stored(run: Run) -> object:
    return to_json(run)


def test_objects_and_views_run_a_rule_alike() -> None:
    one, cells = made(), pack(made())
    seen = view(Run, cells)
    for i in range(3):
        assert rule(one.gates[i], 9) == rule(seen.gates[i], 9)
    loaded = made()
    load(loaded, cells)
    assert stored(loaded) == stored(one)
    assert stored(loaded) != stored(made())


@pytest.mark.skipif(not is_compiled(), reason="needs numba")
def test_a_rule_is_compiled_as_it_stands() -> None:
    from numba import njit

    from flowcontrol.virtual.lowered_state import state_at

    at, compiled = state_at(Gate), njit(rule)

    @njit
    def entry(cells, place, times):  # type: ignore[no-untyped-def]
        return compiled(at(cells, place), times)

    one, cells = made(), pack(made())
    places = [seen.at for seen in view(Run, cells).gates]  # type: ignore[attr-defined]
    for i, place in enumerate(places):
        assert entry(cells, place, 9) == rule(one.gates[i], 9)
    loaded = made()
    load(loaded, cells)
    assert stored(loaded) == stored(one)


def test_memory_may_move() -> None:
    """Places count from the state that has the field."""
    cells = pack(made())
    moved = np.concatenate([np.full(13, -1), cells])
    assert rule(view(Run, moved, 13).gates[2], 5) == rule(made().gates[2], 5)
    assert (moved[:13] == -1).all()


def test_a_view_checks_its_bounds() -> None:
    seen = view(Run, pack(made()))
    with pytest.raises(IndexError, match="Gate 3 of 3"):
        seen.gates[3]
    with pytest.raises(IndexError):
        seen.gates[0].waiting[5]


def test_states_one_behind_the_other_are_a_table() -> None:
    cells = pack(Run(gates=[Gate(number, Pool(number, 2 * number)) for number in range(4)]))
    first = view(Run, cells).gates[0].at  # type: ignore[attr-defined]
    size = dtype(Gate).itemsize // 8
    table = cells[first : first + 4 * size].view(dtype(Gate))
    assert table["number"].tolist() == [0, 1, 2, 3]
    assert table["pool.free"].tolist() == [0, 2, 4, 6]
    table["pool.size"][1:] = 9
    assert [gate.pool.size for gate in views(Gate, cells, first, 4)] == [0, 9, 9, 9]


def test_rows_of_another_class_and_references_to_nothing_are_refused() -> None:
    run = made()
    run.gates[1].channels[2].other = Channel()
    with pytest.raises(ValueError, match="a reference is to a Channel that is nowhere"):
        pack(run)
    with pytest.raises(TypeError, match=r"gates\[0\] is Pool, not Gate"):
        pack(Run(gates=[Pool()]))  # type: ignore[list-item]
