"""What belongs to a task in the kernel's memory outside its rows: its queues and its operators."""

from collections.abc import Iterator
from typing import Any

from flowcontrol.kernel.views import (
    FINISHED,
    INPUT_CELLS,
    OUTPUT_CELLS,
    RECEIVED,
    UNDER_WAY,
    gate_row,
    in_row,
    out_row,
    partition_row,
    task_row,
)
from flowcontrol.memory import fields as f
from flowcontrol.memory.cells import slot_cells, view
from flowcontrol.memory.memory import Memory
from flowcontrol.memory.part_fields import KernelCheckpoints, KernelTime, KernelWindow
from flowcontrol.memory.pointers import own_cells, pointed
from flowcontrol.protocol.tasks.operators import OPERATORS
from flowcontrol.protocol.tasks.processors import TaskProcessor
from flowcontrol.state.declared import cell, width
from flowcontrol.state.network import Message, ReceivedMessage
from flowcontrol.state.tasks import Operator
from flowcontrol.systems.barrier_buffer import BarrierBuffer

Area = tuple[int, int]
"""Where it begins, and how many cells it has."""


def areas_of_task(memory: Memory, task: int) -> Iterator[Area]:
    """Yield what belongs to a task, its gates, its partitions and their channels.

    Not the rows in the blocks, the log that a source reads, constants and what grows over a run.
    """
    yield from areas_beside_task(memory, task)
    for channel in inputs_of(memory, task):
        yield from areas_of_input(memory, channel)
        yield from credits_of(memory, channel)
    for channel in outputs_of(memory, task):
        yield from areas_of_output(memory, channel)


def inputs_of(memory: Memory, task: int) -> Iterator[int]:
    """Yield the channels that a task reads, by their numbers at the receiver."""
    row = memory.tasks[task]
    for gate in memory.gates[int(row["first_gate"]) :][: int(row["gates"])]:
        yield from _channels(gate)


def outputs_of(memory: Memory, task: int) -> Iterator[int]:
    """Yield the channels that a task writes, by their numbers at the sender."""
    row = memory.tasks[task]
    for part in memory.partitions[int(row["first_partition"]) :][: int(row["partitions"])]:
        yield from _channels(part)


def _channels(row: Any) -> range:
    first = int(row["first_channel"])
    return range(first, first + int(row["channels"]))


def areas_beside_task(memory: Memory, task: int) -> Iterator[Area]:
    """Yield what belongs to a task, its gates and its partitions, but to none of their channels."""
    row = task_row(memory.head, task)
    yield from pointed(row, f.KernelTask)
    for at in memory.cells[row.operators_at :][: row.operators].tolist():
        yield at, width(OPERATORS[int(memory.cells[at + cell(Operator, "kind")])])
    if row.log > 0:
        yield row.log + cell(f.KernelLog, "position"), 1
    for at, cls in (
        (row.checkpoints, KernelCheckpoints),
        (row.time, KernelTime),
        (row.window, KernelWindow),
    ):
        if at > 0:
            yield at, own_cells(cls)
            yield from pointed(view(cls, memory.cells, at), cls)
    if row.checkpoints > 0 and (aside := memory.copy(row.checkpoints, KernelCheckpoints).aside) > 0:
        yield aside, cell(BarrierBuffer, "limit")
    if row.processor > 0:
        yield row.processor, width(TaskProcessor)
    for gate in range(row.first_gate, row.first_gate + row.gates):
        yield from pointed(gate_row(memory.head, gate), f.KernelGate)
    for part in range(row.first_partition, row.first_partition + row.partitions):
        yield from pointed(partition_row(memory.head, part), f.KernelPartition)


def areas_of_input(memory: Memory, channel: int) -> Iterator[Area]:
    """Yield the messages that have reached a channel, and those under way to it."""
    m = memory.head
    row, at = in_row(m, channel), m.inputs_at + channel * INPUT_CELLS
    yield _slots(at + RECEIVED, row.received, ReceivedMessage)
    yield _slots(at + UNDER_WAY, row.under_way, f.KernelMessage)


def areas_of_output(memory: Memory, channel: int) -> Iterator[Area]:
    """Yield the buffers of a channel that are not sent."""
    m = memory.head
    at = m.outputs_at + channel * OUTPUT_CELLS
    yield _slots(at + FINISHED, out_row(m, channel).finished, Message)


def credits_of(memory: Memory, channel: int) -> Iterator[Area]:
    """Yield the queue of what a receiver has told the sender of a channel, if it has one."""
    return pointed(in_row(memory.head, channel), f.KernelInputChannel)


def _slots(at: int, ring: f.KernelRing, cls: type[Any]) -> Area:
    """Return the slots of a ring that have been used where it is now."""
    return at + ring.place, ring.span * slot_cells(cls)
