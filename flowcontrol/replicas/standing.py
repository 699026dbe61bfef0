"""Where tasks and their channels stand in a memory, and what of it differs from its beginning."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from flowcontrol.protocol.partition_kinds import PIPELINED
from flowcontrol.protocol.state import cell, columns, width
from flowcontrol.replicas.shares import Cells
from flowcontrol.systems.throttles.throttled_source import ThrottledSource
from flowcontrol.virtual import fields as f
from flowcontrol.virtual import views as v
from flowcontrol.virtual.allocation import zeros
from flowcontrol.virtual.areas import (
    Area,
    areas_beside_task,
    areas_of_input,
    areas_of_output,
    credits_of,
)
from flowcontrol.virtual.memory import Memory
from flowcontrol.virtual.places import Ints
from flowcontrol.virtual.spill_fields import SpillingPartition


class Standing:
    """A memory, and what it was before its first round.

    Parameters
    ----------
    memory : Memory
        Before its first round.
    """

    def __init__(self, memory: Memory) -> None:
        self._memory, self._head = memory, memory.head
        self._image = _sparse(memory.cells)
        self._found: dict[tuple[str, int], Ints] = {}

    # ------------------------------------------------------------------ what it holds

    def differing(self, places: Ints) -> Cells:
        """Return which cells are not as they were before the first round, and what they hold."""
        here = self._memory.cells[places]
        fresh = np.flatnonzero(here != self._image[places])
        pairs = np.empty(2 * len(fresh), np.int64)
        pairs[::2], pairs[1::2] = places[fresh], here[fresh]
        found: Cells = pairs.tolist()
        return found

    def reset(self, places: Ints) -> None:
        """Have cells be as they were before the first round."""
        self._memory.cells[places] = self._image[places]

    def put(self, pairs: Cells) -> None:
        """Have cells hold what they held."""
        flat = np.array(pairs, np.int64)
        self._memory.cells[flat[::2]] = flat[1::2]

    def show(self, places: Ints, pairs: Cells) -> None:
        """Have cells be as they were before the first round, but for those that hold something."""
        self.reset(places)
        self.put(pairs)

    def show_queues(self, part: str, channel: int, pairs: Cells) -> None:
        """Have queues hold what they held: first where their slots are, then what is in these."""
        rings = self.row(part, channel)
        self.show(rings, pairs)
        self.show(np.setdiff1d(self.queues(part, channel), rings), pairs)

    # ------------------------------------------------------------------ where it is

    def task_row(self, task: int) -> Ints:
        """Return the cells of a task's row."""
        return self._head.tasks_at + task * width(f.KernelTask) + _TASK_ROW

    def beside(self, task: int) -> Ints:
        """Return the cells of a task, its gates and its partitions, without their channels."""
        found = self._found.get(("task", task))
        if found is not None:
            return found
        m, one = self._head, self._memory.tasks[task]
        places = [self.task_row(task)]
        for base, at, count, cls in (
            (m.gates_at, "first_gate", "gates", f.KernelGate),
            (m.partitions_at, "first_partition", "partitions", f.KernelPartition),
        ):
            begin = base + int(one[at]) * width(cls)
            places.append(np.arange(begin, begin + int(one[count]) * width(cls)))
        if one["log"] > 0:
            places.append(int(one["log"]) + _LOG_ROW)
        if one["throttle"] > 0:
            places.append(int(one["throttle"]) + np.arange(width(ThrottledSource)))
        first, parts = int(one["first_partition"]), self._memory.partitions
        for part in parts[first : first + int(one["partitions"])]:
            if part["kind"] == PIPELINED:
                places.append(int(part["spill"]) + np.arange(width(SpillingPartition)))
        areas = areas_beside_task(self._memory, task)
        places += map(np.arange, *_ends(areas))
        found = np.concatenate(places)
        if one["window"] == 0:  # what windows hold grows
            self._found["task", task] = found
        return found

    def row(self, part: str, channel: int) -> Ints:
        """Return the cells of a part of a channel's row: of its side, or of the queues there."""
        if (found := self._found.get((part, channel))) is None:
            side, cells = _PARTS[part]
            base, each = {
                "in": (self._head.inputs_at, v.INPUT_CELLS),
                "out": (self._head.outputs_at, v.OUTPUT_CELLS),
            }[side]
            found = self._found[part, channel] = base + channel * each + cells
        return found

    def queues(self, part: str, channel: int) -> Ints:
        """Return the cells of a channel's queues, as large as they are now."""
        memory, m = self._memory, self._head
        if part == "received":
            areas = list(areas_of_input(memory, channel))
        else:
            into = v.out_row(m, channel).input
            areas = [*areas_of_output(memory, channel), *credits_of(memory, into)]
        return np.concatenate([self.row(part, channel), *map(np.arange, *_ends(areas))])


def _sparse(cells: Ints) -> Ints:
    """Return a copy of a memory; what holds nothing takes none."""
    found, filled = zeros(len(cells), 0), np.flatnonzero(cells)
    found[filled] = cells[filled]
    return found


def _ends(areas: Iterable[Area]) -> tuple[list[int], list[int]]:
    """Return the first cells of areas, and those behind their last ones."""
    every = list(areas)
    return [first for first, _ in every], [first + length for first, length in every]


def _cells(cls: type[Any], names: Sequence[str]) -> Ints:
    """Return the cells of some fields of a row."""
    order = list(columns(cls))
    ends = [cell(cls, name) for name in order[1:]] + [width(cls)]
    spans = {name: (cell(cls, name), end) for name, end in zip(order, ends, strict=True)}
    return np.concatenate([np.arange(*spans[name]) for name in names])


def _but(cls: type[Any], *left: str) -> Ints:
    """Return the cells of a row but for some fields."""
    return _cells(cls, [name for name in columns(cls) if name not in left])


_PARTS = {
    "input": ("in", _but(f.KernelInputChannel, "received", "under_way")),
    "received": ("in", _cells(f.KernelInputChannel, ["received", "under_way"])),
    "output": ("out", _but(f.KernelSubpartition, "finished", "runs")),
    "finished": ("out", _cells(f.KernelSubpartition, ["finished"])),
}
"""Cells of the rows of channels; where its runs are is a matter of each process."""
_LOG_ROW = _but(f.KernelLog, "runs")
_TASK_ROW = _but(f.KernelTask, "wake", "next", "previous")
"""What of a task is not where it is on the wheel of its own process."""
