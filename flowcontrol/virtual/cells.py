"""State in one array of 64-bit integers, looked at through views.

:func:`view` gives a state at a place the face of its class. The compiled kernel has addresses
instead of views (:mod:`.lowered_state`): nothing checks a bound there, but a view's array does, so
the interpreted kernel finds a wrong address.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import astuple
from typing import Any, Generic, TypeVar, cast

import numpy as np
import numpy.typing as npt

from flowcontrol.protocol.queues import Queue
from flowcontrol.protocol.state import cell, members, per_class, width
from flowcontrol.protocol.states import Ring

S = TypeVar("S")
Cells = npt.NDArray[np.int64]


@per_class
def dtype(cls: type[Any]) -> np.dtype[Any]:
    """Return the structured type of a state class: each field under its name."""
    inner = members(cls)
    return np.dtype([(name, np.int64 if of is None else dtype(of)) for name, of in inner])


def cells_of(state: Any) -> Cells:
    """Return the integers of a state, in the order of its cells."""
    return np.array(astuple(state), np.int64)


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


class _Whole(_View):
    """The whole memory, interpreted."""

    __slots__ = ()

    def __getitem__(self, place: int | slice) -> Any:
        return self.cells[place]

    def __setitem__(self, place: int | slice, value: Any) -> None:
        self.cells[place] = value


def view(cls: type[S], cells: Any, at: int = 0) -> S:
    """Return the state of a class that stands at a place; it changes what stands there.

    Parameters
    ----------
    cls : type
        The class.
    cells : array of int64, or a view
        Where: the place counts from the first cell of a view.
    at : int, default 0
        The place.
    """
    if isinstance(cells, _View):
        cells, at = cells.cells, cells.at + at
    made: S = _view_class(cls)(cells, at)
    return made


def views(cls: type[S], cells: Cells, at: int, count: int) -> Sequence[S]:
    """Return states of a class that stand one behind the other from a place on."""
    return cast("Sequence[S]", _Rows(cls, cells, at, count))


def queue_view(cls: type[S], cells: Cells, at: int, most: int) -> Queue[S]:
    """Return the queue that stands at a place: its ends, and as many states of a class."""
    return Queue(view(Ring, cells, at), views(cls, cells, at + width(Ring), most))


class QueueRows(Generic[S]):
    """Queues in cells, one behind the other, interpreted."""

    def __init__(self, cls: type[S], cells: Cells, at: int, count: int, most: int) -> None:
        self._cls, self._cells, self._at, self._count, self._most = cls, cells, at, count, most

    def __getitem__(self, index: int) -> Queue[S]:
        if not 0 <= index < self._count:
            raise IndexError(f"queue {index} of {self._count}")
        cells = width(Ring) + width(self._cls) * self._most
        return queue_view(self._cls, self._cells, self._at + index * cells, self._most)

    def __len__(self) -> int:
        return self._count


def rows_in(block: Any, cls: type[S]) -> Sequence[S]:
    """Return the states of a structured array; they change what stands there."""
    return views(cls, block.view(np.int64), 0, len(block))


def whole_view(cls: type[S], cells: Cells) -> S:
    """Return memory that has a state at its head: its fields by name, any cell by its place."""
    made: S = _whole_class(cls)(cells, 0)
    return made


@per_class
def _view_class(cls: type[Any]) -> type[Any]:
    return _made(cls, _View)


@per_class
def _whole_class(cls: type[Any]) -> type[Any]:
    return _made(cls, _Whole)


def _made(cls: type[Any], base: type[_View]) -> type[Any]:
    found = {name: _member(cell(cls, name), inner) for name, inner in members(cls)}
    return type(f"{cls.__name__}View", (base,), {"__slots__": (), **found})


def _member(at: int, inner: type[Any] | None) -> property:
    def state(self: _View) -> Any:
        return view(cast(type[Any], inner), self.cells, self.at + at)

    def value(self: _View) -> int:
        return int(self.cells[self.at + at])

    def change(self: _View, new: int) -> None:
        self.cells[self.at + at] = new

    return property(state) if inner is not None else property(value, change)
