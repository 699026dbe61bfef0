"""Fields that point: each declares what stands where it says, and how much.

What is laid out, put back, published and read follows from the declaration. A number of things is
that of another field, or worked out of the state; what is ``used`` may be less than there is room.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, fields
from functools import partial
from typing import Any

from flowcontrol.state.declared import cell, per_class, width
from flowcontrol.state.network import Ring
from flowcontrol.state.rows import FIFO_SLOTS, WORD

Count = str | Callable[[Any], int]
FORMS: dict[str, Callable[[int, int], int]] = {
    "rows": lambda count, each: count * each,
    "queue": lambda count, each: width(Ring) + count * each,
    "fifo": lambda count, each: FIFO_SLOTS + count,
    "bits": lambda count, each: count // WORD + 1,
}
"""Cells of each form of what stands somewhere, by the number of things and the cells of each."""


@dataclass(frozen=True)
class Pointer:
    """What stands where a field says: a form of states of a class, or of cells."""

    form: str
    cls: type[Any] | None
    room: Count
    used: Count

    def count(self, state: Any, of: Count) -> int:
        """Return how many things there are."""
        return int(getattr(state, of) if isinstance(of, str) else of(state))

    def cells(self, state: Any, *, used: bool = False) -> int:
        """Return how many cells are there, or how many of them are used."""
        each = 1 if self.cls is None else width(self.cls)
        return FORMS[self.form](self.count(state, self.used if used else self.room), each)


def points(form: str, cls: type[Any] | None, room: Count, used: Count | None = None) -> Any:
    """Declare a field of a state that says where something stands; 0: nowhere."""
    pointer = Pointer(form, cls, room, room if used is None else used)
    return field(default=0, metadata={"pointer": pointer})


rows = partial(points, "rows")
"""Declare where states of a class stand one behind the other."""
cells = partial(points, "rows", None)
"""Declare where so many cells stand."""
queue = partial(points, "queue")
"""Declare where the queue of so many states of a class at the most stands."""
fifo = partial(points, "fifo", None)
"""Declare where a first-in-first-out row of so many integers at the most stands."""
bits = partial(points, "bits", None)
"""Declare where a set of some of so many numbers stands."""


@per_class
def pointers(cls: type[Any]) -> dict[str, Pointer]:
    """Return what each field of a class points to that points."""
    return {one.name: one.metadata["pointer"] for one in fields(cls) if "pointer" in one.metadata}


@per_class
def own_cells(cls: type[Any]) -> int:
    """Return how many cells of a state stand in front of those that say where the rest is."""
    return min((cell(cls, name) for name in pointers(cls)), default=width(cls))


def pointed(state: Any, cls: type[Any]) -> Iterator[tuple[int, int]]:
    """Yield where that stands which a state points to, and how many cells of it are used."""
    for name, pointer in pointers(cls).items():
        if (at := int(getattr(state, name))) > 0:
            yield at, pointer.cells(state, used=True)
