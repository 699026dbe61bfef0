"""State in one array of 64-bit integers, looked at through views.

:func:`view` gives a state at a place the face of its class. The compiled kernel has addresses
instead of views (:mod:`.lowered_state`), for a view of an array counts references, which costs more
than the rule that uses it. Nothing checks a bound there, so a state never outlives the call of the
kernel that holds the memory; a view's array does, so the interpreted kernel finds a wrong address.
"""

from collections.abc import Callable, Sequence
from ctypes import Structure, c_int64, sizeof
from dataclasses import astuple
from typing import Any, TypeVar, cast

import numpy as np

from flowcontrol.protocol.queues import Queue
from flowcontrol.protocol.rings import FIRST_SPAN, Slots
from flowcontrol.protocol.state import members, per_class, width
from flowcontrol.protocol.states import Ring
from flowcontrol.virtual.allocation import Cells
from flowcontrol.virtual.fields import KernelRing
from flowcontrol.virtual.registry import placed

S = TypeVar("S")


@per_class
def dtype(cls: type[Any]) -> np.dtype[Any]:
    """Return the structured type of a state class: each field under its name."""
    inner = members(cls)
    return np.dtype([(name, np.int64 if of is None else dtype(of)) for name, of in inner])


def cells_of(state: Any) -> Cells:
    """Return the integers of a state, in the order of its cells."""
    return np.array([astuple(state)], dtype(type(state))).view(np.int64)


class _Rows(Sequence[S]):
    """Things one behind the other, interpreted: what one is, and how to find it by its number."""

    def __init__(self, what: str, count: int, find: Callable[[int], S]) -> None:
        self._what, self._count, self._find = what, count, find

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(self._count))]
        if not 0 <= index < self._count:
            raise IndexError(f"{self._what} {index} of {self._count}")
        return self._find(index)

    def __len__(self) -> int:
        return self._count


def slot_cells(cls: type[Any]) -> int:
    """Return how many cells a slot of a ring takes: a line, or a part of one."""
    return 1 << (width(cls) - 1).bit_length()


class _RingSlots(_Rows[S], Slots[S]):
    """The slots of a ring of a channel, interpreted."""

    def __init__(self, cls: type[S], ring: Any, cells: Any, at: int, most: int) -> None:
        self._ring, self._each = ring, slot_cells(cls)
        super().__init__(
            cls.__name__, most, lambda i: view(cls, cells, at + ring.place + i * self._each)
        )

    def give_room(self, count: int) -> None:
        """Have them stand where there is room for so many."""
        ring = self._ring
        if count > FIRST_SPAN and ring.place != ring.room:
            used, old, new = ring.span * self._each, ring.at + ring.place, ring.at + ring.room
            ring.cells[new : new + used] = ring.cells[old : old + used]
            ring.place = ring.room


class _View(Structure):
    """A state in cells, interpreted: the base of the classes that :func:`_view_class` makes.

    It reads and changes the very memory of the array. One that stands within another has no place.
    """

    cells: Cells
    at: int

    __hash__ = object.__hash__


class _Whole(_View):
    """The whole memory, interpreted."""

    plain: memoryview
    found: dict[Any, Any]
    """What was found in it: views, and what ``registry.found_once`` has."""
    moves: list[Any] | None
    """What the tasks do with records (:mod:`.journal`), if somebody wants to know."""

    def __getitem__(self, place: int | slice) -> Any:
        return self.plain[place]

    def __setitem__(self, place: int, value: int) -> None:
        self.plain[place] = value


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
    if isinstance(cells, _Whole):  # what stands at a place of it never moves
        key = cls, at
        found = cells.found.get(key)
        if found is None:
            found = cells.found[key] = _placed(_view_class(cls), cells.cells, at)
        return cast(S, found)
    if isinstance(cells, _View):
        cells, at = cells.cells, cells.at + at
    return cast(S, _placed(_view_class(cls), cells, at))


def views(cls: type[S], cells: Cells, at: int, count: int) -> Sequence[S]:
    """Return states of a class that stand one behind the other from a place on."""
    return _Rows(cls.__name__, count, lambda i: view(cls, cells, at + i * width(cls)))


def queue_view(cls: type[S], cells: Cells, at: int, most: int) -> Queue[S]:
    """Return the queue that stands at a place: its ends, and as many states of a class."""
    return Queue(view(Ring, cells, at), views(cls, cells, at + width(Ring), most))


def ring_view(cls: type[S], cells: Any, at: int, most: int) -> Queue[S]:
    """Return the queue whose ring stands at a place: its ends, and as many states of a class."""
    ring: Any = view(KernelRing, cells, at)
    return Queue(ring, _RingSlots(cls, ring, cells, at, most))


def ring_views(
    cls: type[S], owner: type[Any], cells: Any, at: int, count: int, most: int
) -> Sequence[Queue[S]]:
    """Return queues whose rings stand in rows of a class, from the first of these rings on."""
    each = width(owner)
    return _Rows("queue", count, lambda i: ring_view(cls, cells, at + i * each, most))


def row(memory: Any, at: int, length: int) -> Any:
    """Return so many integers of the memory from a place on."""
    return memory[at : at + length]


def rows(memory: Any, at: int, count: int, width: int) -> Any:
    """Return so many rows from a place on, each of so many integers."""
    return _Rows("row", count, lambda i: row(memory, at + i * width, width))


def lowest_bit(word: int) -> int:
    """Return the number of the lowest bit that is set; the word is not 0."""
    return (int(word) & -int(word)).bit_length() - 1


def state_of(cls: type[S]) -> Callable[[Any, int], S]:
    """Return a function that gives the state of a class at a place, also when compiled."""
    return placed(lambda memory, at: view(cls, memory, at), "state", cls)


def rows_of(cls: type[S]) -> Callable[[Any, int, int], Sequence[S]]:
    """Return one that gives so many states, one behind the other from a place on."""
    return placed(lambda memory, at, count: views(cls, memory, at, count), "rows", cls)


def queue_of(cls: type[S]) -> Callable[[Any, int, int], Queue[S]]:
    """Return one that gives the queue at a place, of so many slots."""
    return placed(lambda memory, at, most: queue_view(cls, memory, at, most), "queue", cls)


def ring_of(cls: type[S]) -> Callable[[Any, int, int], Queue[S]]:
    """Return one that gives the queue of a channel whose ring is at a place, of so many slots."""
    return placed(lambda memory, at, most: ring_view(cls, memory, at, most), "ring", cls)


def rings_of(cls: type[S], owner: type[Any]) -> Callable[[Any, int, int, int], Any]:
    """Return one that gives the queues of so many channels, whose rings stand in their rows."""
    return placed(
        lambda memory, at, count, most: ring_views(cls, owner, memory, at, count, most),
        "rings",
        cls,
        owner,
    )


def rows_in(block: Any, cls: type[S]) -> Sequence[S]:
    """Return the states of a structured array; they change what stands there."""
    return views(cls, block.view(np.int64), 0, len(block))


def whole_view(cls: type[S], cells: Cells) -> S:
    """Return memory that has a state at its head: its fields by name, any cell by its place."""
    made = _placed(_whole_class(cls), cells, 0)
    made.plain, made.found, made.moves = memoryview(cast(Any, cells)), {}, None
    return cast(S, made)


def _placed(cls: type[Any], cells: Cells, at: int) -> Any:
    at = int(at)
    if not 0 <= at <= len(cells) - sizeof(cls) // 8:
        raise IndexError(f"{cls.__name__} at {at} of {len(cells)} cells")
    made = cls.from_buffer(cells, 8 * at)
    made.cells, made.at = cells, at
    return made


@per_class
def _view_class(cls: type[Any]) -> type[Any]:
    return _made(cls, _View)


@per_class
def _whole_class(cls: type[Any]) -> type[Any]:
    return _made(cls, _Whole)


def _made(cls: type[Any], base: type[_View]) -> type[Any]:
    fields = [
        (name, c_int64 if inner is None else _view_class(inner)) for name, inner in members(cls)
    ]
    return type(f"{cls.__name__}View", (base,), {"_fields_": fields, "viewed": cls})
