"""Where things stand in the kernel's memory, and who gives out its cells."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from flowcontrol.job.graph import JobEdge
from flowcontrol.job.job import Job
from flowcontrol.job.replay import Replayed
from flowcontrol.job.window_settings import LinkKeys, link_keys
from flowcontrol.protocol.rings import FIRST_SPAN
from flowcontrol.protocol.state import cell, viewed, width
from flowcontrol.protocol.states import Ring
from flowcontrol.virtual.allocation import LINE
from flowcontrol.virtual.cells import cells_of, slot_cells
from flowcontrol.virtual.header import KernelMemory
from flowcontrol.virtual.pointers import pointers

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Places:
    """Which number an edge's gate, partition or channel has in the memory.

    Attributes
    ----------
    tasks : dict of str to int
        First task of each stage.
    gates, partitions : dict of (str, int) to int
        By edge and subtask.
    outs, ins : dict of str to ndarray of int64, shape (channels of the edge,)
        Number at the sender and at the receiver of each channel of an edge, in its order.
    sinks : dict of (str, int) to int
        By stage and subtask, of sinks that are chained behind the first stage of their task.
    """

    tasks: dict[str, int] = field(default_factory=dict)
    gates: dict[tuple[str, int], int] = field(default_factory=dict)
    partitions: dict[tuple[str, int], int] = field(default_factory=dict)
    outs: dict[str, Ints] = field(default_factory=dict)
    ins: dict[str, Ints] = field(default_factory=dict)
    sinks: dict[tuple[str, int], int] = field(default_factory=dict)


@dataclass
class Builder:
    """A memory that is being filled: gives out its cells, and remembers what is to stand in them.

    Attributes
    ----------
    job : Job
        The scenario, laid out.
    head : KernelMemory
        The memory's head.
    replayed : Replayed
        What is known of replayed rows.
    places : Places
        Numbers of everything.
    blocks : dict of str to ndarray
        Blocks of the memory, by the field of the head that says where each begins.
    used : int
        Cells given out.
    tables : list of (int, ndarray)
        What is to stand in some of them, and where.
    """

    job: Job
    head: KernelMemory
    replayed: Replayed
    places: Places = field(default_factory=Places)
    blocks: dict[str, Any] = field(default_factory=dict)
    used: int = width(KernelMemory)
    tables: list[tuple[int, Ints]] = field(default_factory=list)
    in_place: Ints = field(default_factory=lambda: np.zeros(0, np.int64))
    """The memory itself, if it is so large that its blocks are filled in place."""
    rooms: int = 0
    """Cells of rooms for rings, which stand behind all else."""
    _rings: list[tuple[Any, Ints]] = field(default_factory=list)
    _once: dict[int, tuple[Ints, int]] = field(default_factory=dict)
    _keys: dict[str, LinkKeys | None] = field(default_factory=dict)

    def take(self, cells: int) -> int:
        """Return where so many cells begin that are nobody else's."""
        first = self.used
        self.used += int(cells)
        return first

    def rings(
        self, at: str, owner: type[Any], name: str, numbers: Ints, cls: type[Any], most: int
    ) -> None:
        """Give the rings of some channels their places, each with room for so many states.

        Parameters
        ----------
        at : str
            The field of the head that says where the block of the channels begins.
        owner : type
            Class of its rows.
        name : str
            The ring.
        numbers : ndarray of int64, shape (rings,)
            The rows.
        cls : type
            Class of what is queued.
        most : int
            How many there may be.
        """
        rings, slots = self.blocks[at][name], slot_cells(cls) * min(most, FIRST_SPAN)
        here = getattr(self.head, at) + width(owner) * numbers + cell(owner, name)
        counted = np.arange(len(numbers))
        self.used += -self.used % LINE
        rings["place"][numbers] = self.take(slots * len(numbers)) + slots * counted - here
        if most <= FIRST_SPAN:
            rings["room"][numbers] = rings["place"][numbers]
            return
        each = slot_cells(cls) * (most | 1)  # even ones would share few sets of the cache
        rings["room"][numbers] = self.rooms + each * counted - here
        self.rooms += each * len(numbers)
        self._rings.append((rings["room"], numbers))

    def all_cells(self) -> int:
        """Return how many cells there are; the rooms of rings begin behind those given out."""
        self.used += -self.used % LINE
        for room, numbers in self._rings:
            room[numbers] += self.used
        self._rings.clear()
        return self.used + self.rooms

    def lay(self, state: Any, *names: str) -> None:
        """Make room for what fields of a state point to; states stand there as they begin."""
        for name in names:
            pointer = pointers(viewed(state))[name]
            first, cls = self.take(pointer.cells(state)), pointer.cls
            if cls is not None and pointer.form == "rows" and (begun := cells_of(cls())).any():
                self.tables.append((first, np.tile(begun, pointer.count(state, pointer.room))))
            setattr(state, name, first)

    def put(self, values: Ints) -> int:
        """Return where cells with these values begin."""
        first = self.take(len(values))
        self.tables.append((first, values))
        return first

    def put_once(self, values: Ints) -> int:
        """Return where cells with these values begin; an array that was put here is not again."""
        if id(values) not in self._once:
            self._once[id(values)] = values, self.put(values)
        return self._once[id(values)][1]

    def keys_of(self, link: JobEdge) -> LinkKeys | None:
        """Return the keys of the records of an edge; None unless it leads to windows."""
        if link.name not in self._keys:
            self._keys[link.name] = link_keys(self.job, link, self.replayed.keys)
        return self._keys[link.name]

    def queues(self, count: int, cls: type[Any], most: int) -> Ints:
        """Return where ``count`` empty queues begin, of at most so many states of a class."""
        cells = width(Ring) + width(cls) * most
        return self.take(count * cells) + cells * np.arange(count)
