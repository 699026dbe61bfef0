"""A task's part of a round: hear its neighbours, work, flush, send, announce.

The composition of the rules that the live clock makes in :mod:`flowcontrol.job.subtask`,
for the kernel's memory. It looks only at what has changed, so that a channel without traffic
costs nothing. A test holds the states of both equal after every round.
"""

from __future__ import annotations

from collections.abc import Sequence

from flowcontrol.protocol.partition_kinds import SORTED
from flowcontrol.protocol.ratios import times
from flowcontrol.protocol.rounds import (
    Gate,
    Partition,
    next_input,
    stays_blocked,
    take_record,
    write_broadcast,
    write_bytes,
)
from flowcontrol.protocol.rows import (
    FIFO_COUNT,
    FIFO_HEAD,
    FIFO_SLOTS,
    fifo_pop,
    fifo_push,
)
from flowcontrol.protocol.service import CONSTANT, service_work
from flowcontrol.virtual import fields as f
from flowcontrol.virtual.ages import log_age, push_records, take_ages, take_one_age
from flowcontrol.virtual.buffered import write_together
from flowcontrol.virtual.counted import write_counted
from flowcontrol.virtual.header import KernelMemory
from flowcontrol.virtual.parts import BUFFERS
from flowcontrol.virtual.pointers import row
from flowcontrol.virtual.randoms import uniform
from flowcontrol.virtual.registry import kernel, part_of
from flowcontrol.virtual.routes import next_channel
from flowcontrol.virtual.spilled import quota_of
from flowcontrol.virtual.spilling import is_stopped, stop
from flowcontrol.virtual.views import (
    gate_row,
    gates_of,
    in_row,
    out_row,
    partition_of,
    partition_row,
    set_bit,
    union_of,
)

__all__ = ["BLOCKED", "CAPACITY", "STARVED", "emit", "outputs_available", "serve", "skip_due"]

CAPACITY = 0
STARVED = 1
BLOCKED = 2


@kernel
def outputs_available(m: KernelMemory, task: f.KernelTask) -> int:
    """Tell whether all outputs of a task are available: 1 if so."""
    for i in range(task.partitions):
        p = partition_row(m, task.first_partition + i)
        # Without credits nobody asks: a task waits inside a record, if it needs a buffer.
        waits = m.is_tcp == 0 or (p.left_bytes > 0 and p.pool.free == 0)
        if is_stopped(p, p.pool) == 1 and waits:
            return 0
    return 1


@kernel
def draw(m: KernelMemory, task: f.KernelTask) -> int:
    """Work of the next record, units."""
    if task.distribution == CONSTANT:
        return task.unit
    number = task.draws
    task.draws = number + 1
    first = uniform(m.seed, task.stream, 2 * number)
    second = uniform(m.seed, task.stream, 2 * number + 1)
    cv = task.cv / 1000000.0
    return service_work(task.distribution, cv, first, second, task.unit)


@kernel
def due(task: f.KernelTask, end: int) -> int:
    """Emissions that fall due by ``end``; at most one, unless all times are alike."""
    if end < task.ready:
        return 0
    if task.distribution != CONSTANT:
        return 1
    return (end - task.ready) // task.unit + 1


@kernel
def skip_due(m: KernelMemory, task: f.KernelTask, work: int) -> int:
    """Drop the emissions that fell due by then; return how many there were."""
    dropped = 0
    if task.ready == 0:
        task.ready += draw(m, task)
    while True:
        count = due(task, work)
        if count == 0:
            return dropped
        if task.distribution == CONSTANT:
            task.ready += count * task.unit
        else:
            task.ready += draw(m, task)
        dropped += count


@kernel
def write_pending(m: KernelMemory, task: f.KernelTask) -> int:
    """Write what is pending, a partition after the other; 0 if the task is blocked in it."""
    if task.is_pending == 0:
        return 1
    for i in range(task.partitions):
        p = partition_row(m, task.first_partition + i)
        pending = row(m, p.pending, p.pending_width)
        while pending[FIFO_COUNT] > 0:
            if stays_blocked(p.pool, p.left_bytes) == 1:
                return 0
            channel = pending[FIFO_SLOTS + pending[FIFO_HEAD]]
            nbytes = p.left_bytes if p.left_bytes > 0 else p.record_bytes
            left = write(m, task.first_partition + i, p, channel, nbytes)
            p.left_bytes = left
            if left > 0:
                return 0
            fifo_pop(pending)
    task.is_pending = 0
    return 1


@kernel
def write(m: KernelMemory, number: int, p: f.KernelPartition, channel: int, nbytes: int) -> int:
    """Write bytes of a record; return those left over."""
    partition = partition_of(m, number)
    set_bit(m, p.dirty, channel)
    if p.is_broadcast == 1:
        for other in range(p.channels):
            set_bit(m, p.dirty, other)
    if m.counts_records == 1:
        return nbytes * (1 - write_counted(m, partition, channel, nbytes, 1))
    return write_buffers(m, p, partition, channel, nbytes)


@part_of(BUFFERS)
def write_buffers(
    m: KernelMemory, p: f.KernelPartition, partition: Partition, channel: int, nbytes: int
) -> int:
    """Write bytes of a record; return those left over."""
    if p.is_broadcast == 1:
        return write_broadcast(partition, nbytes, m.quota, m.segment_bytes)
    if p.is_stopped == 1:
        return nbytes
    left = write_bytes(partition, channel, nbytes, quota_of(m, p), m.segment_bytes)
    if left > 0 and p.kind == SORTED:
        stop(m, p)
    return left


@kernel
def outputs_of(m: KernelMemory, task: f.KernelTask, p: f.KernelPartition) -> int:
    """Records that a partition has had to emit for what its task has taken up so far."""
    total = task.taken
    for i in range(p.path_length):
        place = p.path + 2 * i
        total = times(total, m[place], m[place + 1])
    return total


@kernel
def yield_outputs(m: KernelMemory, task: f.KernelTask, write_now: int) -> int:
    """Route all that the records taken up yield, and write it now or leave it pending.

    Returns
    -------
    int
        0 if the task is blocked in the writing, else 1.
    """
    free = write_now
    for i in range(task.partitions):
        number = task.first_partition + i
        p = partition_row(m, number)
        total = outputs_of(m, task, p)
        while p.emitted < total:
            channel = next_channel(m, p)
            if p.is_broadcast == 1:
                for other in range(p.channels):
                    if other > 0:
                        m[p.routed + other] += 1
                    push_records(m, out_row(m, p.first_channel + other), task.emitted, 1)
            else:
                push_records(m, out_row(m, p.first_channel + channel), task.emitted, 1)
            if free == 1:
                p.left_bytes = write(m, number, p, channel, p.record_bytes)
                if p.left_bytes == 0:
                    continue
                free = 0
            fifo_push(row(m, p.pending, p.pending_width), channel)
            task.is_pending = 1
    return free if write_now == 1 else 1


@kernel
def emit(m: KernelMemory, number: int, task: f.KernelTask, end: int) -> int:
    """Emit what falls due until the output is unavailable; what is due then is lost.

    Returns
    -------
    int
        CAPACITY or BLOCKED.
    """
    task.due = 0
    task.emitted = m.now
    single = has_one_channel(m, task)
    most = due(task, end)  # one division for all of them
    if task.limit >= 0:
        most = min(most, task.limit - task.taken)
    while True:
        if write_pending(m, task) == 0:
            task.due += skip_due(m, task, end)
            return BLOCKED
        if most == 0:
            return CAPACITY
        if outputs_available(m, task) == 0:
            task.due += skip_due(m, task, end)
            return BLOCKED
        count = 0
        if single == 1:
            count = emit_together(m, task, most)
        if count == 0:
            count = 1
            task.taken += 1
            yield_outputs(m, task, 1)
        if task.sinks > 0:
            log_age(m, number, 0, count)
            m.arrived += count
        task.due += count
        most -= count
        if task.distribution == CONSTANT:
            task.ready += count * task.unit
        else:
            task.ready += draw(m, task)
            most = due(task, end)
            if task.limit >= 0:
                most = min(most, task.limit - task.taken)


@kernel
def has_one_channel(m: KernelMemory, task: f.KernelTask) -> int:
    """Tell whether all that a task emits goes one for one into one channel: 1 if so."""
    if task.partitions != 1:
        return 0
    p = partition_row(m, task.first_partition)
    return 1 if p.channels == 1 and p.path_length == 0 else 0


@kernel
def emit_together(m: KernelMemory, task: f.KernelTask, most: int) -> int:
    """Emit all that fit into the one open buffer without filling it; return how many."""
    p = partition_row(m, task.first_partition)
    partition = partition_of(m, task.first_partition)
    if m.counts_records == 1:
        count = write_counted(m, partition, 0, p.record_bytes, most)
    else:
        count = write_together(m, partition, p.record_bytes, most)
    if count > 0:
        task.taken += count
        p.emitted += count
        m[p.routed] += count
        push_records(m, out_row(m, p.first_channel), task.emitted, count)
        set_bit(m, p.dirty, 0)
    return count


@kernel
def serve(m: KernelMemory, number: int, task: f.KernelTask, end: int) -> int:
    """Take records up, and write what they yield when they are done, until something stops.

    Returns
    -------
    int
        CAPACITY, STARVED or BLOCKED.
    """
    gates, union = gates_of(m, task.first_gate), union_of(m, task)
    serves = task.kind == f.SERVER
    while True:
        if serves and task.is_pending == 1 and task.ready > end:
            return CAPACITY
        if write_pending(m, task) == 0:
            return BLOCKED
        if serves and task.ready >= end:
            return CAPACITY
        if outputs_available(m, task) == 0:
            return BLOCKED
        if next_input(task, gates, union) == 0:
            return STARVED
        count = 1 if task.partitions > 0 else task.left
        if serves:
            if task.distribution == CONSTANT:
                unit = task.unit
                if count > 1:
                    count = min(count, (end - task.ready + unit - 1) // unit)
                task.ready += count * unit
            else:
                count = 1
                task.ready += draw(m, task)
        take(m, number, task, gates, count)
        if task.partitions > 0:
            yield_outputs(m, task, 1 if not serves or task.ready <= end else 0)


@kernel
def take(
    m: KernelMemory, number: int, task: f.KernelTask, gates: Sequence[Gate], count: int
) -> None:
    """Take records of the buffer in hand up, and note their ages."""
    g = gate_row(m, task.first_gate + task.gate)
    channel = g.first_channel + task.channel
    g.bytes_taken += count * g.record_bytes
    out = out_row(m, in_row(m, channel).out)
    if task.partitions == 0:
        take_ages(m, out, number, m.now, count)
        m.arrived += count
    else:
        task.emitted = take_one_age(m, out)
        if task.sinks > 0:
            log_age(m, number, m.now - task.emitted, count)
            m.arrived += count
    take_record(task, gates, count)
