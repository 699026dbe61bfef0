"""State in one array of 64-bit integers: put there from objects, and looked at through views.

:func:`pack` lays a state out with all that it holds; :func:`view` gives a state at a place the face
of its class. The compiled kernel has addresses instead of views (:mod:`.lowered_state`): nothing
checks a bound there, but a view's array does, so the interpreted kernel finds a wrong address.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeVar, cast

import numpy as np
import numpy.typing as npt

from flowcontrol.protocol.state import Column, Kind, Rows, columns, paths, per_class, width

__all__ = ["Cells", "dtype", "load", "pack", "view", "views"]

S = TypeVar("S")
Cells = npt.NDArray[np.int64]


@per_class
def dtype(cls: type[Any]) -> np.dtype[Any]:
    """Return the structured type of a state class: each integer under its name."""
    names = dict(paths(cls))
    layout: Any = {
        "names": list(names),
        "formats": [np.int64] * len(names),
        "offsets": [8 * at for at in names.values()],
        "itemsize": 8 * width(cls),
    }
    return np.dtype(layout)


# ---------------------------------------------------------------------- objects to cells


class _Packing:
    """Places for states and all that they hold, and what stands there."""

    def __init__(self) -> None:
        self.at: dict[int, int] = {}
        self.length = 0
        self.written: list[tuple[int, int]] = []
        self.references: list[tuple[int, int, Any]] = []
        self.blocks: list[tuple[int, Any]] = []

    def take(self, count: int) -> int:
        self.length += count
        return self.length - count

    def state(self, state: Any, at: int) -> None:
        """Put a state at a place that was taken for it."""
        self.at[id(state)] = at
        for column in columns(type(state)).values():
            value, place = getattr(state, column.name), at + column.at
            if column.kind is Kind.INT:
                if value:
                    self.written.append((place, int(value)))
            elif column.kind is Kind.PART:
                self.state(value, place)
            elif column.kind is Kind.REF:
                self.references.append((place, at, value))
            else:
                first = self._rows(column, value)
                self.written += [(place, first - at), (place + 1, len(value))]

    def _rows(self, column: Column, values: Any) -> int:
        if column.kind is Kind.INTS:
            first = self.take(len(values))
            self.blocks.append((first, values))
            return first
        assert column.state is not None
        each = width(column.state)
        first = self.take(each * len(values))
        for i, value in enumerate(values):
            if type(value) is not column.state:
                text = f"{column.name}[{i}] is {type(value).__name__}, not {column.state.__name__}"
                raise TypeError(text)
            self.state(value, first + each * i)
        return first


def pack(state: Any) -> Cells:
    """Return a state, and all that it holds, in one array; it stands at the beginning.

    Raises
    ------
    TypeError
        If rows are of another class than declared.
    ValueError
        If a reference is to nothing that the state holds.
    """
    packing = _Packing()
    packing.state(state, packing.take(width(type(state))))
    cells = np.zeros(packing.length, np.int64)
    for first, values in packing.blocks:
        cells[first : first + len(values)] = values
    if packing.written:
        places, values = zip(*packing.written, strict=True)
        cells[list(places)] = values
    for place, at, target in packing.references:
        if target is None:
            continue
        if id(target) not in packing.at:
            raise ValueError(f"a reference is to a {type(target).__name__} that is nowhere")
        cells[place] = packing.at[id(target)] - at
    return cells


def load(state: Any, cells: Cells, at: int = 0) -> None:
    """Give a state, and all that it holds, the values that stand at a place."""
    for column in columns(type(state)).values():
        place = at + column.at
        if column.kind is Kind.INT:
            setattr(state, column.name, int(cells[place]))
        elif column.kind is Kind.PART:
            load(getattr(state, column.name), cells, place)
        elif column.kind is Kind.INTS:
            own, first = getattr(state, column.name), at + int(cells[place])
            own[:] = cells[first : first + len(own)].tolist()
        elif column.kind is Kind.ROWS and column.state is not None:
            first = at + int(cells[place])
            for i, each in enumerate(getattr(state, column.name)):
                load(each, cells, first + i * width(column.state))


# ---------------------------------------------------------------------- views


class _Rows:
    """Rows in cells, interpreted."""

    def __init__(self, cls: type[Any], cells: Cells, at: int, count: int) -> None:
        self._cls, self._cells, self._at, self._count = cls, cells, at, count

    def __getitem__(self, index: int | slice) -> Any:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(self._count))]
        if not 0 <= index < self._count:
            raise IndexError(f"{self._cls.__name__} {index} of {self._count}")
        return view(self._cls, self._cells, self._at + index * width(self._cls))

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[Any]:
        return (self[i] for i in range(self._count))


class _View:
    """A state in cells, interpreted: the base of the classes that :func:`_view_class` makes."""

    __slots__ = ("at", "cells")

    def __init__(self, cells: Cells, at: int) -> None:
        self.cells, self.at = cells, at


def view(cls: type[S], cells: Cells, at: int = 0) -> S:
    """Return the state of a class that stands at a place; it changes what stands there."""
    made: S = _view_class(cls)(cells, at)
    return made


def views(cls: type[S], cells: Cells, at: int, count: int) -> Rows[S]:
    """Return states of a class that stand one behind the other from a place on."""
    return cast("Rows[S]", _Rows(cls, cells, at, count))


@per_class
def _view_class(cls: type[Any]) -> type[Any]:
    members = {name: _member(column) for name, column in columns(cls).items()}
    return type(f"{cls.__name__}View", (_View,), {"__slots__": (), **members})


def _member(column: Column) -> property:
    at, state = column.at, column.state

    def value(self: _View) -> int:
        return int(self.cells[self.at + at])

    def change(self: _View, new: int) -> None:
        self.cells[self.at + at] = new

    def inner(self: _View) -> Any:
        assert state is not None
        return view(state, self.cells, self.at + at)

    def other(self: _View) -> Any:
        assert state is not None
        return view(state, self.cells, self.at + int(self.cells[self.at + at]))

    def ints(self: _View) -> Cells:
        first = self.at + int(self.cells[self.at + at])
        return self.cells[first : first + int(self.cells[self.at + at + 1])]

    def rows(self: _View) -> _Rows:
        assert state is not None
        first, count = self.at + int(self.cells[self.at + at]), int(self.cells[self.at + at + 1])
        return _Rows(state, self.cells, first, count)

    if column.kind is Kind.INT:
        return property(value, change)
    return property({Kind.PART: inner, Kind.REF: other, Kind.INTS: ints}.get(column.kind, rows))
