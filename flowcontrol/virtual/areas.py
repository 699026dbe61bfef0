"""What belongs to a task in the kernel's memory outside its rows: its queues and its operators."""

from collections.abc import Iterator
from typing import Any

from flowcontrol.operators.states import Operator
from flowcontrol.operators.table import OPERATORS
from flowcontrol.protocol import rows as w
from flowcontrol.protocol.event_time.states import ValveChannel
from flowcontrol.protocol.processors import TaskProcessor
from flowcontrol.protocol.spark_time.watermarks import WatermarkOperator
from flowcontrol.protocol.state import cell, width
from flowcontrol.protocol.states import (
    AlignedChannel,
    CoordinatorMessage,
    Message,
    ReceivedMessage,
    Ring,
    TrackedCheckpoint,
)
from flowcontrol.protocol.windows.states import ColumnValues, WindowEntry
from flowcontrol.systems.barrier_buffer import BarrierBuffer
from flowcontrol.systems.transports.transport import ChannelGrant
from flowcontrol.virtual import fields as f
from flowcontrol.virtual.cells import slot_cells
from flowcontrol.virtual.checkpoint_fields import KernelCheckpoints
from flowcontrol.virtual.memory import Memory
from flowcontrol.virtual.time_fields import KernelTime
from flowcontrol.virtual.views import (
    FINISHED,
    INPUT_CELLS,
    OUTPUT_CELLS,
    RECEIVED,
    UNDER_WAY,
    in_row,
    out_row,
)
from flowcontrol.virtual.window_fields import KernelWindow

Area = tuple[int, int]
"""Where it begins, and how many cells it has."""


def areas_of_task(memory: Memory, task: int) -> Iterator[Area]:
    """Yield what belongs to a task, its gates, its partitions and their channels.

    Not the rows in the blocks, the log that a source reads, constants and what grows over a run.
    """
    yield from areas_beside_task(memory, task)
    for channel in inputs_of(memory, task):
        yield from areas_of_input(memory, channel)
        if in_row(memory.head, channel).credits_most > 0:
            yield credits_of(memory, channel)
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
    row = memory.tasks[task]
    gates, partitions = int(row["gates"]), int(row["partitions"])
    yield int(row["union"]), w.FIFO_SLOTS + max(1, gates)
    first = int(row["operators_at"])
    for at in memory.cells[first : first + int(row["operators"])].tolist():
        yield at, width(OPERATORS[int(memory.cells[at + cell(Operator, "kind")])])
    if row["log"] > 0:
        yield int(row["log"]) + cell(f.KernelLog, "position"), 1
    if row["checkpoints"] > 0:
        yield from _areas_of_checkpoints(memory, int(row["checkpoints"]))
    if row["time"] > 0:
        held = memory.copy(int(row["time"]), KernelTime)
        yield int(row["time"]), cell(KernelTime, "channels")
        yield held.channels, held.channel_count * width(ValveChannel)
    if row["window"] > 0:
        yield from _areas_of_windows(memory, int(row["window"]))
    if row["processor"] > 0:
        yield int(row["processor"]), width(TaskProcessor)
    for gate in memory.gates[int(row["first_gate"]) :][:gates]:
        yield from _areas_of_gate(gate)
    for part in memory.partitions[int(row["first_partition"]) :][:partitions]:
        yield from _areas_of_partition(part)


def _areas_of_checkpoints(memory: Memory, at: int) -> Iterator[Area]:
    held = memory.copy(at, KernelCheckpoints)
    yield at, cell(KernelCheckpoints, "channels")
    yield held.channels, held.channel_count * width(AlignedChannel)
    yield held.tracked, _queue(TrackedCheckpoint, held.tracked_most)
    yield held.triggers, _queue(CoordinatorMessage, held.messages_most)
    yield held.aborted, _queue(CoordinatorMessage, held.messages_most)
    if held.aside > 0:
        yield held.aside, cell(BarrierBuffer, "limit")


def _areas_of_windows(memory: Memory, at: int) -> Iterator[Area]:
    held = memory.copy(at, KernelWindow)
    yield at, cell(KernelWindow, "entries")
    yield held.entries, held.store.used * width(WindowEntry)
    yield held.further, (held.store.used + 1) * held.settings.further * width(ColumnValues)
    yield held.buckets, held.bucket_count
    for heap in (held.event_heap, held.clock_heap):
        yield heap, 1 + int(memory.cells[heap])
    yield held.operators, held.operator_count * width(WatermarkOperator)


def _areas_of_gate(row: Any) -> Iterator[Area]:
    count = int(row["channels"])
    yield int(row["waiting"]), w.FIFO_SLOTS + count
    yield int(row["order"]), w.FIFO_SLOTS + count
    yield int(row["arrivals"]), count // w.WORD + 1
    yield int(row["dirty_channels"]), count // w.WORD + 1
    if row["grants"] > 0:
        yield int(row["grants"]), count * width(ChannelGrant)


def _areas_of_partition(row: Any) -> Iterator[Area]:
    count = int(row["channels"])
    yield int(row["held"]), count * int(row["held_width"])
    yield int(row["counts"]), count
    yield int(row["routed"]), count
    yield int(row["credited"]), count // w.WORD + 1
    yield int(row["dirty"]), count // w.WORD + 1
    yield int(row["pending"]), int(row["pending_width"])
    if row["route"] == f.ROUTE_SHARES:
        yield int(row["table"]), 2 * count


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


def credits_of(memory: Memory, channel: int) -> Area:
    """Return the queue of what a receiver has told the sender of a channel; of one that has it."""
    row = in_row(memory.head, channel)
    return row.credits, _queue(f.KernelCredit, row.credits_most)


def _slots(at: int, ring: f.KernelRing, cls: type[Any]) -> Area:
    """Return the slots of a ring that have been used where it is now."""
    return at + ring.place, ring.span * slot_cells(cls)


def _queue(cls: type[Any], most: int) -> int:
    return width(Ring) + width(cls) * most
