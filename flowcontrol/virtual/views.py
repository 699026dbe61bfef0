"""Gates and partitions of the memory as the rules see them."""

from typing import Any

from flowcontrol.operators.states import Operator
from flowcontrol.operators.table import OPERATORS
from flowcontrol.protocol.queues import Queue
from flowcontrol.protocol.rows import FIFO_SLOTS, WORD, WORD_BITS
from flowcontrol.protocol.sides import Gate, Partition
from flowcontrol.protocol.state import cell, width
from flowcontrol.protocol.states import AlignedChannel, GlobalPool, Message, ReceivedMessage
from flowcontrol.systems.throttles.throttled_source import ThrottledSource
from flowcontrol.systems.transports.transport import ChannelGrant, RecordTransport
from flowcontrol.virtual import cells as c
from flowcontrol.virtual import fields as f
from flowcontrol.virtual.header import KernelMemory
from flowcontrol.virtual.registry import found_once, placed


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
