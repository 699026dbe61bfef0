"""State in one array of 64-bit integers, allocated by cache lines and looked at through views.

:func:`view` gives a state at a place the face of its class. The compiled kernel has addresses
instead of views (:mod:`flowcontrol.kernel.lowered_state`), for a view of an array counts
references, which costs more than the rule that uses it. Nothing checks a bound there, so a state
never outlives the call of the kernel that holds the memory; a view's array does, so the interpreted
kernel finds a wrong address.
"""

import mmap
from collections.abc import Callable, Sequence
from contextlib import suppress
from ctypes import Structure, c_int64, sizeof
from functools import wraps
from typing import Any, Final, TypeVar, cast

import numpy as np
from numpy import typing as npt

from flowcontrol.memory.fields import KernelRing
from flowcontrol.state.declared import as_tuple, members, per_class, width
from flowcontrol.state.network import Ring
from flowcontrol.state.queues import FIRST_SPAN, Queue, Slots

# --- What is special about functions of the kernel: parts they belong to, states that they find.
#
# Modules of the kernel register here when they are imported, and flowcontrol.kernel.compiled,
# which compiles all their functions, reads it before. This module imports no numba, so that none
# that registers depends on it.


F = TypeVar("F", bound=Callable[..., Any])

PARTS: Final[dict[Callable[..., Any], int]] = {}
"""The part of each function of the kernel that only some jobs need (:mod:`.parts`)."""

PLACED: Final[dict[Callable[..., Any], tuple[str, type[Any], type[Any] | None]]] = {}
"""Functions that find states of a class in memory: what they return, the class, and the owner."""

ONCE: Final[dict[Callable[..., Any], Callable[..., Any]]] = {}
"""Functions whose results the interpreted kernel remembers: what numba compiles in their place."""


def found_once(function: F) -> F:
    """Mark a function of the memory, and of a number or a row, that finds what has a fixed address.

    The interpreted kernel finds it once: ``found`` of the memory has it. Whoever has a gate or a
    partition use another global pool clears that.
    """

    @wraps(function)
    def find(m: Any, of: Any) -> Any:
        key = function, of
        here = m.found.get(key)
        if here is None:
            here = m.found[key] = function(m, of)
        return here

    ONCE[find] = function
    return cast(F, find)


def part_of(part: int) -> Callable[[F], F]:
    """Mark a function of the kernel that only jobs with a part need (:mod:`.parts`).

    Its first parameter is the memory, or a subtask in it. In a kernel without the part a call of it
    is 0, and nothing that only it calls is compiled; a job that needs the part is refused before
    its first round.
    """

    def mark(function: F) -> F:
        PARTS[function] = part
        return function

    return mark


def needs(part: int, *rules: Callable[..., Any]) -> None:
    """Mark rules likewise that stand in packages below this one."""
    PARTS.update(dict.fromkeys(rules, part))


def placed(function: F, form: str, cls: type[Any], owner: type[Any] | None = None) -> F:
    """Mark a function that finds states of a class in memory; compiled, it is an address.

    ``function``: takes the memory, a place, and how many there are, where the form needs it.
    """
    PLACED[function] = form, cls, owner
    return function


# --- Memory for the kernel: from the beginning of a cache line on, not there until it is touched


Cells = npt.NDArray[np.int64]

LINE = 8
"""Cells of a line of a processor's cache, 64 bytes."""


LARGE_CELLS = 1 << 19
"""From here on memory is the system's own, there page by page when it is touched: 4 MiB."""


def zeros(count: int, dense: int = 0) -> Cells:
    """Return so many cells, all 0, from the beginning of a line on."""
    if count >= LARGE_CELLS and hasattr(mmap, "MADV_HUGEPAGE"):
        kind = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
        with suppress(OSError):  # where no more may be asked for than there is
            found = np.frombuffer(mmap.mmap(-1, 8 * count, flags=kind), np.int64)
            will_touch(found, 0, dense)
            return found
    cells = np.zeros(count + LINE, np.int64)
    first = -(cells.ctypes.data // 8) % LINE
    return cells[first : first + count]


def sparse(cells: Cells, count: int | None = None, *, is_dense: bool = False) -> Cells:
    """Return a copy, of ``count`` cells if more are wanted; what holds nothing takes no memory.

    ``is_dense``: all up to the last one that holds something will be touched.
    """
    filled = np.flatnonzero(cells)
    dense = int(filled[-1]) + 1 if is_dense and len(filled) else 0
    found = zeros(len(cells) if count is None else count, dense)
    found[filled] = cells[filled]
    return found


def will_touch(cells: Cells, first: int, after: int) -> None:
    """Have huge pages for cells that will all be touched, if they are the system's own memory.

    For the others, of which most will not be, a huge page would be filled for one of them.
    """
    memory: Any = cells.base
    while isinstance(memory, np.ndarray):
        memory = memory.base
    memory = getattr(memory, "obj", memory)
    if isinstance(memory, mmap.mmap) and after > first:
        start = 8 * first // mmap.PAGESIZE * mmap.PAGESIZE
        with suppress(OSError):  # of a system without huge pages
            memory.madvise(mmap.MADV_HUGEPAGE, start, 8 * after - start)


# --- State in one array of 64-bit integers, looked at through views.


S = TypeVar("S")


@per_class
def dtype(cls: type[Any]) -> np.dtype[Any]:
    """Return the structured type of a state class: each field under its name."""
    inner = members(cls)
    return np.dtype([(name, np.int64 if of is None else dtype(of)) for name, of in inner])


def cells_of(state: Any) -> Cells:
    """Return the integers of a state, in the order of its cells."""
    return np.array([as_tuple(state)], dtype(type(state))).view(np.int64)


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
    """What was found in it: views, and what :func:`found_once` has."""
    moves: list[Any] | None
    """What tasks do with records (:mod:`flowcontrol.kernel.ages`), if somebody wants to know."""

    def __getitem__(self, place: int | slice) -> Any:
        return self.plain[place]

    def __setitem__(self, place: int, value: int) -> None:
        self.plain[place] = value


def view(cls: type[S], cells: Any, at: int = 0) -> S:
    """Return the state of a class that stands at a place; it changes what stands there."""
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


def row(memory: Any, at: int, length: int) -> Any:
    """Return so many integers of the memory from a place on."""
    return memory[at : at + length]


def rows(memory: Any, at: int, count: int, width: int) -> Any:
    """Return so many rows from a place on, each of so many integers."""
    return _Rows("row", count, lambda i: row(memory, at + i * width, width))


def lowest_bit(word: int) -> int:
    """Return the number of the lowest bit that is set; the word is not 0."""
    return (int(word) & -int(word)).bit_length() - 1


def prefetch(row: Any, place: int) -> int:
    """Ask for a place of a row before it is needed, compiled: 1; interpreted nothing is asked: 0.

    Several requests are under way to a processor's slower memory at once, but what one place says
    is waited for before the next one is known.
    """
    return 0


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

    def found(memory: Any, at: int, count: int, most: int) -> Any:
        each = width(owner)
        return _Rows("queue", count, lambda i: ring_view(cls, memory, at + i * each, most))

    return placed(found, "rings", cls, owner)


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
