"""Where the cells of a task are that a checkpoint keeps, and a restart puts back.

They are listed as in :class:`flowcontrol.job.cuts.TaskCut`: a snapshot copies the cells of the
list, whatever they mean, and a restart writes them where they were.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from flowcontrol.job.graph import JobVertex
from flowcontrol.job.job import Job
from flowcontrol.operators.states import Operator, SourceLog
from flowcontrol.operators.table import OPERATORS
from flowcontrol.operators.timed_states import TaskTime
from flowcontrol.protocol.state import cell, width
from flowcontrol.protocol.states import AlignedChannel
from flowcontrol.protocol.windows.keeping import STORE
from flowcontrol.protocol.windows.states import WindowStore
from flowcontrol.virtual import fields as f
from flowcontrol.virtual.allocation import zeros
from flowcontrol.virtual.cells import view
from flowcontrol.virtual.checkpoint_fields import CUT_SLOTS, KernelCheckpoints
from flowcontrol.virtual.places import Ints
from flowcontrol.virtual.time_fields import KernelTime
from flowcontrol.virtual.window_fields import KernelWindow

if TYPE_CHECKING:
    from flowcontrol.virtual.memory import Memory


@dataclass(frozen=True)
class CutPlaces:
    """Where the cells of a task's cut are.

    Attributes
    ----------
    all : ndarray of int64
        All of them.
    position : int
        That of a source's position.
    written : ndarray of int64
        Those of all that its channels were written, which are among them.
    """

    all: Ints
    position: int
    written: Ints


def with_cuts(memory: Memory, job: Job) -> Memory:
    """Return a memory with room for the cuts of its tasks, which have checkpoints."""
    parts, used = [memory.cells], len(memory.cells)
    for task, places in enumerate(all_cut_places(job, memory)):
        held = view(KernelCheckpoints, memory.cells, int(memory.tasks["checkpoints"][task]))
        held.cut_places, held.cut_cells = used, len(places.all)
        held.cuts = used + len(places.all)
        parts += [places.all, np.zeros(CUT_SLOTS * (1 + len(places.all)), np.int64)]
        used += len(parts[-2]) + len(parts[-1])
    cells = zeros(used, used)
    np.concatenate(parts, out=cells)
    return replace(memory, cells=cells)


def all_cut_places(job: Job, memory: Memory) -> list[CutPlaces]:
    """Return where the cells of all tasks' cuts are, in the order of the job."""
    return [cut_places(memory, plan, index) for plan, index in job.subtasks]


def cut_places(memory: Memory, plan: JobVertex, index: int) -> CutPlaces:
    """Return where the cells of a task's cut are."""
    places, head = memory.places, memory.head
    number = places.tasks[plan.name] + index
    row = memory.tasks[number]
    taken = head.tasks_at + number * width(f.KernelTask) + cell(f.KernelTask, "taken")
    log = int(row["log"])
    position = log + cell(SourceLog, "position") if log > 0 else taken
    found = [np.array([taken], np.int64)] + ([np.array([position], np.int64)] if log > 0 else [])
    first = int(row["operators_at"])
    for at in memory.cells[first : first + int(row["operators"])].tolist():
        kind = OPERATORS[int(memory.cells[at + cell(Operator, "kind")])]
        found.append(at + np.arange(width(kind)))
    for link in plan.outputs:
        found += _routing(memory, places.partitions[link.name, index])
    written = np.concatenate([*_marks_put(row), *_written(memory, plan, index)])
    processed = [
        _columns(head.inputs_at, f.KernelInputChannel, "processed", first, count)
        for first, count in _gates(memory, plan, index)
    ]
    found += [*_marks_taken(memory, row), *_windows(row)]
    return CutPlaces(np.concatenate([*found, written, *processed]), position, written)


def _marks_put(row: Any) -> Iterator[Ints]:
    """Yield where it is counted how many marks a task has put into its channels."""
    at = int(row["time"]) + cell(KernelTime, "own") + cell(TaskTime, "marks")
    yield np.array([at] if row["time"] > 0 else [], np.int64)


def _marks_taken(memory: Memory, row: Any) -> Iterator[Ints]:
    """Yield where it is counted how many marks a task has taken from its channels."""
    if row["time"] > 0 and row["checkpoints"] > 0:
        held = view(KernelCheckpoints, memory.cells, int(row["checkpoints"]))
        yield _columns(held.channels, AlignedChannel, "marks", 0, held.channel_count)


def _windows(row: Any) -> Iterator[Ints]:
    """Yield where it stands how far the windows of a task are."""
    if row["window"] > 0:
        at = int(row["window"]) + cell(KernelWindow, "store")
        yield np.array([at + cell(WindowStore, name) for name in STORE], np.int64)


def _routing(memory: Memory, number: int) -> Iterator[Any]:
    """Yield where a partition keeps how far the routing of its records is."""
    row = memory.partitions[number]
    first = memory.head.partitions_at + number * width(f.KernelPartition)
    names = ("emitted", "cursor")
    yield np.array([first + cell(f.KernelPartition, name) for name in names], np.int64)
    count = int(row["channels"])
    yield int(row["routed"]) + np.arange(count)
    if row["route"] == f.ROUTE_SHARES:
        yield int(row["table"]) + count + np.arange(count)


def _written(memory: Memory, plan: JobVertex, index: int) -> Iterator[Ints]:
    for link in plan.outputs:
        row = memory.partitions[memory.places.partitions[link.name, index]]
        first, count = int(row["first_channel"]), int(row["channels"])
        yield _columns(memory.head.outputs_at, f.KernelSubpartition, "written", first, count)


def _gates(memory: Memory, plan: JobVertex, index: int) -> Iterator[tuple[int, int]]:
    for link in plan.inputs:
        row = memory.gates[memory.places.gates[link.name, index]]
        yield int(row["first_channel"]), int(row["channels"])


def _columns(at: int, cls: type[Any], name: str, first: int, count: int) -> Ints:
    """Return where a field of consecutive rows is."""
    return at + cell(cls, name) + width(cls) * (first + np.arange(count))
