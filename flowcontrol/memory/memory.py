"""The kernel's memory: its header, and its blocks as tables of states."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any, TypeVar, cast

import numpy as np

from flowcontrol.memory import fields as f
from flowcontrol.memory.cells import dtype, slot_cells, whole_view
from flowcontrol.memory.part_fields import (
    KeptElement,
    KeptWindow,
    KernelResult,
    SpilledBuffer,
    pointers,
)
from flowcontrol.memory.places import Ints, KernelMemory, Places
from flowcontrol.protocol.tasks.operators import OPERATORS, AnyOperator
from flowcontrol.protocol.windows.firing import FURTHER
from flowcontrol.state import rows as w
from flowcontrol.state.declared import cell, members, per_class, viewed, width
from flowcontrol.state.network import Ring
from flowcontrol.state.tasks import Operator
from flowcontrol.state.windows import ColumnValues
from flowcontrol.systems.barrier_buffer import AsideMessage

S = TypeVar("S")


class _Block:
    """States of one class, one behind the other, as a structured array; a view.

    The head of the memory says where they begin, in the field ``at``, and how many there are, in
    the field ``count``. A log is empty before the first round: nothing is written to it.
    """

    def __init__(self, at: str, count: str, cls: type[Any], *, is_log: bool = False) -> None:
        self.at, self.count, self.cls, self.is_log = at, count, cls, is_log

    def __get__(self, memory: Memory, owner: type[Memory]) -> Any:
        head, of = memory.head, self.entry(memory.head)
        first = getattr(head, self.at)
        return memory.cells[first : first + getattr(head, self.count) * of.itemsize // 8].view(of)

    def entry(self, head: KernelMemory) -> np.dtype[Any]:
        """Return what an entry is."""
        return dtype(self.cls)


class _LogOfWindows(_Block):
    """A block whose entries have room for the further columns of a window, ``further``."""

    def entry(self, head: KernelMemory) -> np.dtype[Any]:
        """Return what an entry is, with that behind it."""
        own, cells = dtype(self.cls), head.further * width(ColumnValues)
        fields: list[Any] = [(name, own[name]) for name in own.names or ()]
        return np.dtype([*fields, (FURTHER, np.int64, (cells,))])


@dataclass(frozen=True)
class Memory:
    """The memory of a run, and what stands where."""

    cells: Ints  # All of it: a head, and blocks (:mod:`flowcontrol.memory.fields`) (shape (cells,))
    places: Places  # Numbers of gates, partitions and channels

    @cached_property
    def head(self) -> KernelMemory:
        """The head by name, and the cells by place, as the kernel sees them."""
        return whole_view(KernelMemory, self.cells)

    def states(self, places: Ints, cls: type[Any]) -> Any:
        """Return the states of a class that stand at some places, a copy."""
        return self.cells[places[:, None] + range(width(cls))].view(dtype(cls)).ravel()

    tasks = _Block("tasks_at", "tasks", f.KernelTask)
    """All tasks."""
    gates = _Block("gates_at", "gates", f.KernelGate)
    """All gates."""
    partitions = _Block("partitions_at", "partitions", f.KernelPartition)
    """All partitions."""
    ins = _Block("inputs_at", "channels", f.KernelInputChannel)
    """All channels at their receivers."""
    outs = _Block("outputs_at", "channels", f.KernelSubpartition)
    """All channels at their senders."""
    runs = _Block("runs", "runs_most", f.Run, is_log=True)
    """All runs of records, free ones too."""
    ages = _Block("ages", "ages_most", f.Age, is_log=True)
    """The log of ages, entries that are free too."""
    spills = _Block("spills", "spills_most", SpilledBuffer)
    """The finished buffers of spilling partitions, free ones too."""
    asides = _Block("asides", "asides_most", AsideMessage)
    """What tasks have put aside behind barriers, free entries too."""
    results = _LogOfWindows("results", "results_most", KernelResult, is_log=True)
    """The log of the results of windows, entries that are free too."""
    kept = _Block("kept", "kept_most", KeptElement, is_log=True)
    """The log of what checkpoints hold in flight, entries that are free too."""
    kept_windows = _LogOfWindows("kept_windows", "kept_windows_most", KeptWindow, is_log=True)
    """The log of the windows that checkpoints hold, entries that are free too."""

    def table(self, at: int, count: int, cls: type[Any]) -> Any:
        """Return states that stand at a place as a structured array, a view."""
        return self.cells[at : at + count * width(cls)].view(dtype(cls))

    def copies(self, block: Any, cls: type[S]) -> list[S]:
        """Return states of a class, or of one that it extends, as objects of plain integers."""
        if len(block) == 0:
            return []
        cells = block.view(np.int64).reshape(len(block), -1)
        return list(map(_maker(cls), cells[:, _cells_in(block.dtype, cast(Any, cls))].tolist()))

    def copy(self, at: int, cls: type[S]) -> S:
        """Return the state that stands at a place as an object of plain integers."""
        return _maker(cls)(self.cells[at : at + width(cls)].tolist())

    def operators(self, task: f.KernelTask) -> list[AnyOperator]:
        """Return the operators of a task as objects."""
        places = self.cells[task.operators_at : task.operators_at + task.operators]
        kinds = self.cells[places + cell(Operator, "kind")]
        pairs = zip(places.tolist(), kinds.tolist(), strict=True)
        return [self.copy(at, OPERATORS[kind]) for at, kind in pairs]

    def found(self, at: int, cls: type[S]) -> S | None:
        """Return a state as :meth:`copy` does; None of a place that there is not."""
        return self.copy(at, cls) if at > 0 else None

    def read(self, state: Any, name: str) -> tuple[Any, ...]:
        """Return copies of what a field of a state points to: the first, or oldest, one in front.

        States, or the values of a first-in-first-out row.
        """
        pointer, at = pointers(viewed(state))[name], getattr(state, name)
        count = pointer.count(state, pointer.used)
        if pointer.form == "fifo":
            return tuple(self.values(at, w.FIFO_SLOTS + count))
        assert pointer.cls is not None
        if pointer.form == "queue":
            return tuple(self.queue(at, pointer.cls))
        return tuple(self.copies(self.table(at, count, pointer.cls), pointer.cls))

    def linked(self, block: Any, head: int) -> Any:
        """Return the entries of a block that are linked, from the one to which ``head`` points."""
        places, after = list[int](), block["next"]
        while head > 0:
            places.append(head - 1)
            head = int(after[head - 1])
        return block[places]

    def queue(self, at: int, cls: type[S]) -> list[S]:
        """Return copies of what is in a queue, oldest first."""
        ends = self.copy(at, Ring)
        if ends.count == 0:  # as most are
            return []
        block = self.table(at + width(Ring), ends.span, cls)
        return self.copies(np.take(block, ends.head + np.arange(ends.count), mode="wrap"), cls)

    def ring(self, at: int, cls: type[S]) -> list[S]:
        """Return copies of what is in the queue of a channel whose ring is at a place."""
        ring, each = self.copy(at, f.KernelRing), slot_cells(cls)
        first = at + ring.place
        slots = self.cells[first : first + ring.span * each].reshape(-1, each)
        places = (ring.head + np.arange(ring.count)) % max(1, ring.span)
        return list(map(_maker(cls), slots[places, : width(cls)].tolist()))

    def values(self, offset: int, length: int) -> list[int]:
        """Values of a first-in-first-out row, oldest first."""
        row: Any = self.cells[offset : offset + length]
        return w.fifo_values(row)


@per_class
def _maker(cls: type[S]) -> Callable[[list[int]], S]:
    """Return what makes a state of the integers in its cells."""
    parts = [(cell(cls, name), inner) for name, inner in members(cls)]
    if not any(inner for _, inner in parts):
        return lambda row: cls(*row)
    inner_parts = [
        (at, at + width(inner), _maker(inner)) if inner else (at, at + 1, _first)
        for at, inner in parts
    ]
    return lambda row: cls(*(make(row[at:end]) for at, end, make in inner_parts))


def _first(row: list[int]) -> int:
    return row[0]


@cache
def _cells_in(block: np.dtype[np.void], cls: type[Any]) -> list[int]:
    """Return where the cells of a class are among those of one that extends it."""
    assert block.fields is not None
    starts = [(block.fields[name][1] // 8, inner) for name, inner in members(cls)]
    return [at + i for at, inner in starts for i in range(1 if inner is None else width(inner))]
