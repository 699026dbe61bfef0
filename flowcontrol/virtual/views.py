"""Gates and partitions of the memory as the rules see them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from flowcontrol.policies.record_transport import ChannelGrant, RecordTransport
from flowcontrol.policies.throttled_source import ThrottledSource
from flowcontrol.protocol.rounds import Gate, Partition
from flowcontrol.protocol.rows import FIFO_SLOTS, WORD
from flowcontrol.protocol.state import cell, width
from flowcontrol.protocol.states import GlobalPool, LocalPool
from flowcontrol.virtual import fields as f
from flowcontrol.virtual.cells import view, views
from flowcontrol.virtual.compiled import kernel
from flowcontrol.virtual.pointers import lowest_bit, row, rows

__all__ = [
    "GateList",
    "channel_grants",
    "gate_of",
    "gate_pool",
    "gate_row",
    "gates_of",
    "global_pool",
    "in_row",
    "in_rows",
    "local_pool",
    "log_of",
    "next_bit",
    "out_row",
    "out_rows",
    "partition_of",
    "partition_pool",
    "partition_row",
    "record_transport",
    "run_list",
    "runs_of",
    "set_bit",
    "task_row",
    "task_rows",
    "throttled_source",
    "transport_of",
    "union_of",
]


@kernel
def task_row(m: Any, task: int) -> f.KernelTask:
    """Return a task."""
    return task_rows(m, m[f.H_TASK0], m[f.H_TASKS])[task]


@kernel
def gate_row(m: Any, gate: int) -> Any:
    """Row of a gate."""
    return row(m, m[f.H_GATE0] + gate * f.G_WIDTH, f.G_WIDTH)


@kernel
def partition_row(m: Any, partition: int) -> Any:
    """Row of a partition."""
    return row(m, m[f.H_PARTITION0] + partition * f.P_WIDTH, f.P_WIDTH)


@kernel
def in_row(m: Any, channel: int) -> f.KernelInputChannel:
    """A channel at its receiver."""
    return in_rows(m, m[f.H_IN0], m[f.H_CHANNELS])[channel]


@kernel
def out_row(m: Any, channel: int) -> f.KernelSubpartition:
    """A channel at its sender."""
    return out_rows(m, m[f.H_OUT0], m[f.H_CHANNELS])[channel]


@kernel
def union_of(m: Any, task: f.KernelTask) -> Any:
    """A task's queue of gates with data."""
    return row(m, task.union, FIFO_SLOTS + max(1, task.gates))


@kernel
def transport_of(m: Any) -> RecordTransport:
    """Parameters of a transport that counts records."""
    return record_transport(m, m[f.H_VALUES])


INPUT_CELLS = width(f.KernelInputChannel)
OUTPUT_CELLS = width(f.KernelSubpartition)
RUN_CELL = cell(f.KernelSubpartition, "run_head")
LOG_CELL = cell(f.KernelTask, "log_head")


def in_rows(memory: Any, at: int, count: int) -> Sequence[f.KernelInputChannel]:
    """Channels at their receivers, that stand at a place."""
    return views(f.KernelInputChannel, memory, at, count)


def out_rows(memory: Any, at: int, count: int) -> Sequence[f.KernelSubpartition]:
    """Channels at their senders, that stand at a place."""
    return views(f.KernelSubpartition, memory, at, count)


def task_rows(memory: Any, at: int, count: int) -> Sequence[f.KernelTask]:
    """Tasks that stand at a place."""
    return views(f.KernelTask, memory, at, count)


def run_list(memory: Any, at: int) -> f.RunList:
    """Runs of records, whose list stands at a place."""
    return view(f.RunList, memory, at)


def local_pool(memory: Any, at: int) -> LocalPool:
    """A local pool that stands at a place."""
    return view(LocalPool, memory, at)


def global_pool(memory: Any, at: int) -> GlobalPool:
    """A global pool, or a share of it, that stands at a place."""
    return view(GlobalPool, memory, at)


def record_transport(memory: Any, at: int) -> RecordTransport:
    """Parameters of a transport that stand at a place."""
    return view(RecordTransport, memory, at)


def channel_grants(memory: Any, at: int, count: int) -> Sequence[ChannelGrant]:
    """What the receiver of channels remembers, that stands at a place."""
    return views(ChannelGrant, memory, at, count)


def throttled_source(memory: Any, at: int) -> ThrottledSource:
    """A throttled source that stands at a place."""
    return view(ThrottledSource, memory, at)


@kernel
def runs_of(out: f.KernelSubpartition) -> f.RunList:
    """Records of a channel that are in flight."""
    return run_list(out, RUN_CELL)


@kernel
def log_of(task: f.KernelTask) -> f.RunList:
    """Records in a source's log."""
    return run_list(task, LOG_CELL)


@kernel
def gate_pool(g: Any) -> LocalPool:
    """The floating pool of a gate's row."""
    return local_pool(g, f.G_POOL)


@kernel
def partition_pool(p: Any) -> LocalPool:
    """The pool of a partition's row."""
    return local_pool(p, f.P_POOL)


@kernel
def gate_of(m: Any, number: int) -> Gate:
    """A gate as the rules see it."""
    g = gate_row(m, number)
    count, width = g[f.G_CHANNELS], g[f.G_QUEUE_WIDTH]
    first = m[f.H_IN0] + g[f.G_CHANNEL0] * INPUT_CELLS
    return Gate(
        in_rows(m, first, count),
        gate_pool(g),
        global_pool(m, g[f.G_GLOBAL]),
        row(m, g[f.G_WAITING], FIFO_SLOTS + count),
        row(m, g[f.G_ORDER], FIFO_SLOTS + count),
        rows(m, g[f.G_RECORDS], count, width),
        rows(m, g[f.G_KINDS], count, width),
        row(m, g[f.G_NEWS], count // WORD + 1),
    )


@kernel
def partition_of(m: Any, number: int) -> Partition:
    """A partition as the rules see it."""
    p = partition_row(m, number)
    count = p[f.P_CHANNELS]
    return Partition(
        partition_pool(p),
        global_pool(m, p[f.P_GLOBAL]),
        out_rows(m, m[f.H_OUT0] + p[f.P_CHANNEL0] * OUTPUT_CELLS, count),
        rows(m, p[f.P_RECORDS], count, p[f.P_QUEUE_WIDTH]),
        rows(m, p[f.P_HELD], count, p[f.P_HELD_WIDTH]),
        row(m, p[f.P_COUNTS], count),
        p[f.P_BROADCAST],
    )


class GateList:
    """The gates of a task: ``gates[i]`` is the i-th as the rules see it."""

    def __init__(self, m: Any, first: int) -> None:
        self.m, self.first = m, first

    def __getitem__(self, index: int) -> Gate:
        return gate_of(self.m, self.first + index)


def gates_of(m: Any, first: int) -> Any:
    """Return the gates from ``first`` on."""
    return GateList(m, first)


@kernel
def set_bit(m: Any, offset: int, index: int) -> None:
    """Put ``index`` into the set of bits that begins at ``offset``."""
    m[offset + index // WORD] |= 1 << (index % WORD)


@kernel
def next_bit(m: Any, offset: int, count: int, after: int) -> int:
    """Smallest member above ``after`` of a set of bits over 0 .. ``count`` - 1, or -1."""
    index = after + 1
    if index >= count:
        return -1
    word = index // WORD
    last = (count - 1) // WORD
    bits = m[offset + word] >> (index % WORD)
    if bits != 0:
        return index + lowest_bit(bits)
    while word < last:
        word += 1
        bits = m[offset + word]
        if bits != 0:
            return word * WORD + lowest_bit(bits)
    return -1
