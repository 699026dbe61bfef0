"""The memory as the rules see it, and the wheel of rounds in which tasks are looked at next."""

from collections.abc import Iterator
from typing import Any

from flowcontrol.memory import cells as c
from flowcontrol.memory import fields as f
from flowcontrol.memory.cells import (
    found_once,
    placed,
    queue_of,
    row,
    rows_of,
    slot_cells,
    state_of,
    view,
)
from flowcontrol.memory.memory import Memory
from flowcontrol.memory.part_fields import (
    KernelCheckpoints,
    KernelKeys,
    KernelTime,
    KernelWindow,
    own_cells,
    pointed,
)
from flowcontrol.memory.places import KernelMemory
from flowcontrol.memory.requests import KernelRequests
from flowcontrol.protocol.service import NEVER
from flowcontrol.protocol.tasks.operators import OPERATORS
from flowcontrol.protocol.tasks.processors import TaskProcessor
from flowcontrol.protocol.windows.spark_batches import WatermarkOperator
from flowcontrol.state.declared import cell, width
from flowcontrol.state.network import (
    AlignedChannel,
    CheckpointReport,
    CoordinatorMessage,
    GlobalPool,
    Message,
    ReceivedMessage,
    TrackedCheckpoint,
)
from flowcontrol.state.queues import Queue
from flowcontrol.state.requests import Destination
from flowcontrol.state.rows import FIFO_SLOTS, WORD, WORD_BITS, Gate, Partition
from flowcontrol.state.tasks import Operator, ValveChannel
from flowcontrol.state.windows import ColumnValues, WindowEntry, Windows
from flowcontrol.systems.barrier_buffer import BarrierBuffer
from flowcontrol.systems.throttles.throttled_source import ThrottledSource
from flowcontrol.systems.transports.transport import ChannelGrant, RecordTransport

# --- What belongs to a task in the kernel's memory outside its rows: its queues and its operators.


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
        (row.requests, KernelRequests),
    ):
        if at > 0:
            yield at, own_cells(cls)
            yield from pointed(view(cls, memory.cells, at), cls)
    if row.checkpoints > 0 and (aside := memory.copy(row.checkpoints, KernelCheckpoints).aside) > 0:
        yield aside, cell(BarrierBuffer, "limit")
    if row.requests > 0:
        held = memory.copy(row.requests, KernelRequests)
        if held.owns_destination == 1:
            yield held.destination, width(Destination)
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


# --- Gates and partitions of the memory as the rules see them


def whole(memory: Any, parts: int) -> KernelMemory:
    """Return the whole memory; compiled, its type says which parts the kernel has."""
    return c.whole_view(KernelMemory, memory)


@found_once
def task_row(m: KernelMemory, task: int) -> f.KernelTask:
    """Return a task."""
    return task_rows(m, m.tasks_at, m.tasks)[task]


@found_once
def gate_row(m: KernelMemory, gate: int) -> f.KernelGate:
    """A gate."""
    return gate_rows(m, m.gates_at, m.gates)[gate]


@found_once
def partition_row(m: KernelMemory, partition: int) -> f.KernelPartition:
    """A partition."""
    return partition_rows(m, m.partitions_at, m.partitions)[partition]


@found_once
def in_row(m: KernelMemory, channel: int) -> f.KernelInputChannel:
    """A channel at its receiver."""
    return in_rows(m, m.inputs_at, m.channels)[channel]


@found_once
def out_row(m: KernelMemory, channel: int) -> f.KernelSubpartition:
    """A channel at its sender."""
    return out_rows(m, m.outputs_at, m.channels)[channel]


def union_of(m: KernelMemory, task: f.KernelTask) -> Any:
    """A task's queue of gates with data."""
    return c.row(m, task.union, FIFO_SLOTS + max(1, task.gates))


def transport_of(m: KernelMemory) -> RecordTransport:
    """Parameters of a transport that counts records."""
    return record_transport(m, m.values)


INPUT_CELLS = width(f.KernelInputChannel)
OUTPUT_CELLS = width(f.KernelSubpartition)
RECEIVED = cell(f.KernelInputChannel, "received")
UNDER_WAY = cell(f.KernelInputChannel, "under_way")
FINISHED = cell(f.KernelSubpartition, "finished")
"""Where the rings of a channel are in its rows."""


in_rows = c.rows_of(f.KernelInputChannel)
out_rows = c.rows_of(f.KernelSubpartition)
task_rows = c.rows_of(f.KernelTask)
gate_rows = c.rows_of(f.KernelGate)
partition_rows = c.rows_of(f.KernelPartition)
run_rows = c.rows_of(f.Run)
age_rows = c.rows_of(f.Age)
chained_sinks = c.rows_of(f.ChainedSink)
messages_under_way = c.ring_of(f.KernelMessage)
credit_queue = c.queue_of(f.KernelCredit)
finished_queues = c.rings_of(Message, f.KernelSubpartition)
received_queues = c.rings_of(ReceivedMessage, f.KernelInputChannel)
global_pool = c.state_of(GlobalPool)
record_transport = placed(c.state_of(RecordTransport), "transport", RecordTransport)
channel_grants = c.rows_of(ChannelGrant)
throttled_source = c.state_of(ThrottledSource)
source_log = c.state_of(f.KernelLog)
aligned_channel = c.state_of(AlignedChannel)


def operator_at(memory: Any, at: int) -> Operator:
    """An operator that stands at a place."""
    return c.view(OPERATORS[memory[at + cell(Operator, "kind")]], memory, at)


placed(operator_at, "state", Operator)


@found_once
def gate_of(m: KernelMemory, number: int) -> Gate:
    """A gate as the rules see it."""
    g = gate_row(m, number)
    count = g.channels
    first = m.inputs_at + g.first_channel * INPUT_CELLS
    return Gate(
        in_rows(m, first, count),
        g.pool,
        global_pool(m, g.global_at),
        c.row(m, g.waiting, FIFO_SLOTS + count),
        c.row(m, g.order, FIFO_SLOTS + count),
        received_queues(m, first + RECEIVED, count, g.queue_most),
        c.row(m, g.dirty_channels, count // WORD + 1),
    )


@found_once
def partition_of(m: KernelMemory, number: int) -> Partition:
    """A partition as the rules see it, by its number."""
    return partition_at(m, partition_row(m, number))


@found_once
def partition_at(m: KernelMemory, p: f.KernelPartition) -> Partition:
    """A partition as the rules see it."""
    count = p.channels
    first = m.outputs_at + p.first_channel * OUTPUT_CELLS
    return Partition(
        p.pool,
        global_pool(m, p.global_at),
        out_rows(m, first, count),
        finished_queues(m, first + FINISHED, count, p.queue_most),
        c.rows(m, p.held, count, p.held_width),
        c.row(m, p.counts, count),
        p.is_broadcast,
    )


@found_once
def wire_queue(m: KernelMemory, channel: int) -> Queue[f.KernelMessage]:
    """Messages under way to a channel, by its number at the receiver."""
    most = in_row(m, channel).transit_most
    return messages_under_way(m, m.inputs_at + channel * INPUT_CELLS + UNDER_WAY, most)


class GateList:
    """The gates of a task: ``gates[i]`` is the i-th as the rules see it."""

    def __init__(self, m: KernelMemory, first: int) -> None:
        self.m, self.first = m, first

    def __getitem__(self, index: int) -> Gate:
        return gate_of(self.m, self.first + index)


def gates_of(m: KernelMemory, first: int) -> Any:
    """Return the gates from ``first`` on."""
    return GateList(m, first)


def set_bit(m: KernelMemory, offset: int, index: int) -> None:
    """Put ``index`` into the set of bits that begins at ``offset``."""
    m[offset + (index >> WORD_BITS)] |= 1 << (index & (WORD - 1))


def clear_bit(m: KernelMemory, offset: int, index: int) -> None:
    """Take ``index`` out of such a set."""
    m[offset + (index >> WORD_BITS)] &= ~(1 << (index & (WORD - 1)))


def next_bit(m: KernelMemory, offset: int, count: int, after: int) -> int:
    """Smallest member above ``after`` of a set of bits over 0 .. ``count`` - 1, or -1."""
    index = after + 1
    if index >= count:
        return -1
    word = index >> WORD_BITS
    last = (count - 1) >> WORD_BITS
    bits = m[offset + word] >> (index & (WORD - 1))
    if bits != 0:
        return index + c.lowest_bit(bits)
    while word < last:
        word += 1
        bits = m[offset + word]
        if bits != 0:
            return word * WORD + c.lowest_bit(bits)
    return -1


# --- What a task holds of checkpoints, event time and windows, found in the memory


kernel_checkpoints = state_of(KernelCheckpoints)
aligned_channels = rows_of(AlignedChannel)
tracked_queue = queue_of(TrackedCheckpoint)
coordinator_queue = queue_of(CoordinatorMessage)
report_rows = rows_of(CheckpointReport)
kernel_time = state_of(KernelTime)
valve_channel_rows = rows_of(ValveChannel)
kernel_window = state_of(KernelWindow)
kernel_keys = state_of(KernelKeys)
key_rows = rows_of(KernelKeys)
window_entries = rows_of(WindowEntry)
column_values = rows_of(ColumnValues)
watermark_operators = rows_of(WatermarkOperator)

REPORT_CELLS = width(CheckpointReport)


def windows_of(m: KernelMemory, held: KernelWindow) -> Windows:
    """Return windows as the rules see them."""
    return Windows(
        held.settings,
        held.store,
        window_entries(m, held.entries, held.capacity),
        row(m, held.buckets, held.bucket_count),
        row(m, held.event_heap, held.capacity + 1),
        row(m, held.clock_heap, held.capacity + 1),
        column_values(m, held.further, (held.capacity + 1) * held.settings.further),
        row(m, held.table, held.table_count),
    )


# --- When a task is looked at next: a wheel of rounds, so that idle stretches cost nothing


_LAST = f.WHEEL_SLOTS - 1


def wake(m: KernelMemory, number: int, at: int) -> None:
    """Have a task looked at in round ``at`` at the latest, which is after the present one."""
    task = task_row(m, number)
    at = min(at, m.now + _LAST)
    planned = task.wake
    if planned >= 0:
        if planned <= at:
            return
        _unlink(m, task, planned)
    task.wake = at
    slot = at % f.WHEEL_SLOTS
    first = m[m.wheel + slot]
    task.next = first
    task.previous = 0
    if first > 0:
        task_row(m, first - 1).previous = number + 1
    else:
        set_bit(m, m.wheel_bits, slot)
    m[m.wheel + slot] = number + 1


def wake_at(m: KernelMemory, number: int, us: int) -> None:
    """Have a task looked at in the round in which a microsecond after this one ends."""
    if us == NEVER or task_row(m, number).wake == m.now + 1:
        return
    whole = m.round_us
    wake(m, number, max(m.now + 1, (us + whole - 1) // whole - 1))


def _clear_slot(m: KernelMemory, slot: int) -> None:
    m[m.wheel + slot] = 0
    clear_bit(m, m.wheel_bits, slot)


def _unlink(m: KernelMemory, task: f.KernelTask, planned: int) -> None:
    slot = planned % f.WHEEL_SLOTS
    after, before = task.next, task.previous
    if after > 0:
        task_row(m, after - 1).previous = before
    if before > 0:
        task_row(m, before - 1).next = after
    elif after > 0:
        m[m.wheel + slot] = after
    else:
        _clear_slot(m, slot)


def sleep(m: KernelMemory, number: int) -> None:
    """Have a task not looked at any more until somebody wakes it."""
    task = task_row(m, number)
    if task.wake >= 0:
        _unlink(m, task, task.wake)
        task.wake = -1


def next_round(m: KernelMemory, now: int, end: int) -> int:
    """First round from ``now`` on in which a task is to be looked at, at most ``end``."""
    slot = now % f.WHEEL_SLOTS
    found = next_bit(m, m.wheel_bits, f.WHEEL_SLOTS, slot - 1)
    if found >= 0:
        return min(end, now + found - slot)
    found = next_bit(m, m.wheel_bits, f.WHEEL_SLOTS, -1)
    if found >= 0:
        return min(end, now + found - slot + f.WHEEL_SLOTS)
    return end


def collect(m: KernelMemory, now: int) -> int:
    """Take the tasks of a round off the wheel, into the list at ``H_ACTIVE``; return how many."""
    slot = now % f.WHEEL_SLOTS
    number = m[m.wheel + slot]
    active = row(m, m.active, m.tasks)
    count = 0
    while number > 0:
        task = task_row(m, number - 1)
        active[count] = number - 1
        count += 1
        task.wake = -1
        number = task.next
    _clear_slot(m, slot)
    return count
