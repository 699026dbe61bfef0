"""A task's part of a round for partitions that spill: write, send, decide what goes to disk.

The rules are those of :mod:`flowcontrol.protocol.partition_kinds`.
"""

from __future__ import annotations

from typing import Any

from flowcontrol.protocol.partition_kinds import (
    FULL,
    KEPT,
    PIPELINED,
    SELECTIVE,
    SORTED,
    backlog_of,
    full_spill_is_due,
    given_back,
    is_readable,
    memory_is_short,
)
from flowcontrol.protocol.pool_rules import pool_is_available
from flowcontrol.protocol.rows import WORD
from flowcontrol.virtual import fields as f
from flowcontrol.virtual import spill_fields as s
from flowcontrol.virtual.compiled import kernel, part_of
from flowcontrol.virtual.disk import ask_disk
from flowcontrol.virtual.messages import put, tell_backlog
from flowcontrol.virtual.parts import SPILLS
from flowcontrol.virtual.spilled import (
    buffer_at,
    close_open_buffer,
    consume,
    gather,
    lane_of,
    let_go_of,
    spill_buffer,
    spill_row,
)
from flowcontrol.virtual.views import next_bit, out_row, partition_of, partition_pool, partition_row

__all__ = [
    "close_partition",
    "is_stopped",
    "note_memory",
    "note_waits",
    "send_spilled",
    "stop",
]


@kernel
def is_stopped(p: Any, pool: Any) -> int:
    """Tell whether a task may not begin another record for a partition: 1 if so.

    Notes
    -----
    ``SortMergeResultPartition`` is always available; its task blocks while it writes a region.
    """
    if p[f.P_KIND] == SORTED:
        return p[f.P_STOPPED]
    return 1 - pool_is_available(pool)


@part_of(SPILLS)
def stop(m: Any, p: Any) -> None:
    """Have a region written: the memory of a sort-merge partition did not do for a record.

    Notes
    -----
    What is left of the record goes into the next region (``SortMergeResultPartition.emit``).
    """
    spill_row(m, p)[s.S_FULL] = 1
    p[f.P_STOPPED] = 1


@part_of(SPILLS)
def note_memory(m: Any, task: f.KernelTask) -> None:
    """Note how much memory a task's partitions take, before it sends."""
    for i in range(task.partitions):
        p = partition_row(m, task.first_partition + i)
        if p[f.P_KIND] >= PIPELINED:
            sp = spill_row(m, p)
            sp[s.S_PEAK] = max(sp[s.S_PEAK], partition_pool(p).in_use)


@part_of(SPILLS)
def note_waits(m: Any, task: f.KernelTask, now: int) -> None:
    """Note how long a task waits for its partitions: as long as it counts as back-pressured."""
    for i in range(task.partitions):
        p = partition_row(m, task.first_partition + i)
        if p[f.P_KIND] < PIPELINED:
            continue
        sp = spill_row(m, p)
        if sp[s.S_SINCE] >= 0:
            sp[s.S_WAITED] += now - sp[s.S_SINCE]
        partition = partition_of(m, task.first_partition + i)
        waits = task.status == f.BLOCKED and is_stopped(p, partition.pool) == 1
        sp[s.S_SINCE] = now if waits else -1


@part_of(SPILLS)
def send_spilled(m: Any, task: f.KernelTask, now: int) -> None:
    """Send what can be sent of a task's spilling partitions, and have the rest written."""
    for i in range(task.partitions):
        number = task.first_partition + i
        p = partition_row(m, number)
        if p[f.P_KIND] <= PIPELINED:
            continue
        sp = spill_row(m, p)
        partition = partition_of(m, number)
        if sp[s.S_FULL] == 1:
            _write_region(m, p, partition, sp)
        count, bits = p[f.P_CHANNELS], p[f.P_DIRTY]
        group = sp[s.S_GROUP]
        starts = m[group + s.W_LEFT] == 0 and m[group + s.W_START] <= now
        place = next_bit(m, bits, count, -1)
        while place >= 0:
            m[bits + place // WORD] &= ~(1 << (place % WORD))
            if p[f.P_KIND] != SORTED:
                gather(m, p, partition, sp, place)
            if starts:
                _send_lane(m, task, p, partition, sp, place, now)
            place = next_bit(m, bits, count, place)
        if sp[s.S_CHANGED] == 1:
            sp[s.S_CHANGED] = 0
            if p[f.P_KIND] == SELECTIVE:
                _spill_some(m, p, partition, sp)
            elif p[f.P_KIND] == FULL:
                _release_some(m, p, partition, sp)
                _spill_all(m, p, sp)
        ask_disk(m, p, sp, now)


@kernel
def _write_region(m: Any, p: Any, partition: Any, sp: Any) -> None:
    """Have all that a sort-merge partition has collected written, subpartition by subpartition.

    Notes
    -----
    ``SortMergeResultPartition.flushDataBuffer`` with a ``HashBasedDataBuffer``: a region holds
    the buffers of each subpartition one after the other, the last one part-filled.
    """
    sp[s.S_FULL] = 0
    for place in range(p[f.P_CHANNELS]):
        gather(m, p, partition, sp, place)
        close_open_buffer(m, p, partition, sp, place)
    if sp[s.S_WRITING] > 0:
        sp[s.S_REGIONS] += 1


@kernel
def close_partition(m: Any, p: Any, partition: Any, sp: Any) -> None:
    """Finish a partition: what it still holds is written to disk.

    Notes
    -----
    The last buffers of a blocking partition, the last region of a sort-merge one, and all that
    a hybrid one has in memory (``onResultPartitionClosed``).
    """
    sp[s.S_CLOSED] = 1
    if p[f.P_KIND] == SORTED:
        _write_region(m, p, partition, sp)
        return
    for place in range(p[f.P_CHANNELS]):
        gather(m, p, partition, sp, place)
        close_open_buffer(m, p, partition, sp, place)
        if p[f.P_KIND] != FULL and p[f.P_KIND] != SELECTIVE:
            continue
        lane = lane_of(m, sp, place)
        pointer = lane[s.X_HEAD] if p[f.P_KIND] == FULL else lane[s.X_NEXT]
        while pointer > 0:
            own = buffer_at(m, pointer)
            if own[s.E_SPILL] == KEPT:
                spill_buffer(m, sp, pointer)
            let_go_of(m, p, partition, sp, pointer)
            pointer = own[s.E_NEXT]


@kernel
def _send_lane(
    m: Any, task: f.KernelTask, p: Any, partition: Any, sp: Any, place: int, now: int
) -> None:
    """Send what credit and the disk allow; hand a local consumer what its queue may hold."""
    out = out_row(m, p[f.P_CHANNEL0] + place)
    lane = lane_of(m, sp, place)
    local = out.is_local
    if out.initial == 0:
        tell_backlog(m, out, _lane_backlog(p, out, lane), now)
    while lane[s.X_NEXT] > 0:
        limit = out.consumed + sp[s.S_LOCAL] if local == 1 else out.announced
        own = buffer_at(m, lane[s.X_NEXT])
        loaded = 1 if own[s.E_LOADED] == 2 else 0
        if out.sent >= limit or is_readable(own[s.E_GONE], loaded) == 0:
            break
        if lane[s.X_READ] == lane[s.X_NEXT]:
            lane[s.X_READ] = own[s.E_NEXT]
            lane[s.X_READ_AT] += 1
        lane[s.X_NEXT] = own[s.E_NEXT]
        lane[s.X_READABLE] -= 1
        out.buffers -= 1
        out.sent += 1
        at = now + (1 if local == 1 else m[f.H_LATENCY])
        out.told = _lane_backlog(p, out, lane)
        put(m, out, own[s.E_RECORDS], out.told, at)
        task.has_sent = 1
        if sp[s.S_FIRST] < 0:
            sp[s.S_FIRST] = now
    if local == 0:
        consume(m, p, partition, sp, place, out.sent)


@kernel
def _lane_backlog(p: Any, out: f.KernelSubpartition, lane: Any) -> int:
    """Backlog of a subpartition as it announces it."""
    return backlog_of(p[f.P_KIND], out.buffers - out.is_open, lane[s.X_READABLE])


@kernel
def _spill_some(m: Any, p: Any, partition: Any, sp: Any) -> None:
    """Spill what a selective strategy does not keep, and let go of it."""
    size = partition_pool(p).size
    if sp[s.S_KEPT] == 0 or memory_is_short(partition_pool(p).in_use, size) == 0:
        return
    _choose(m, p, sp, given_back(size), 1)
    for place in range(p[f.P_CHANNELS]):
        pointer = lane_of(m, sp, place)[s.X_CHOSEN]
        while pointer > 0:
            own = buffer_at(m, pointer)
            if own[s.E_SPILL] == KEPT:
                spill_buffer(m, sp, pointer)
                let_go_of(m, p, partition, sp, pointer)
            pointer = own[s.E_NEXT]


@kernel
def _spill_all(m: Any, p: Any, sp: Any) -> None:
    """Spill all that a full strategy has not spilled yet; it stays in memory besides."""
    if full_spill_is_due(sp[s.S_KEPT], partition_pool(p).size) == 0:
        return
    for place in range(p[f.P_CHANNELS]):
        pointer, first = lane_of(m, sp, place)[s.X_TAIL], 0
        while pointer > 0 and buffer_at(m, pointer)[s.E_SPILL] == KEPT:
            first = pointer
            pointer = buffer_at(m, pointer)[s.E_PREVIOUS]
        while first > 0:
            spill_buffer(m, sp, first)
            first = buffer_at(m, first)[s.E_NEXT]


@kernel
def _release_some(m: Any, p: Any, partition: Any, sp: Any) -> None:
    """Let go of spilled buffers when memory is short: consumed ones, then others."""
    size = partition_pool(p).size
    if memory_is_short(partition_pool(p).in_use, size) == 0:
        return
    most = given_back(size)
    for place in range(p[f.P_CHANNELS]):
        lane = lane_of(m, sp, place)
        pointer = lane[s.X_HEAD]
        while pointer > 0 and pointer != lane[s.X_CONSUMED]:
            own = buffer_at(m, pointer)
            if own[s.E_SPILL] != KEPT and own[s.E_GONE] == 0:
                let_go_of(m, p, partition, sp, pointer)
                most -= 1
            pointer = own[s.E_NEXT]
    if most <= 0:
        return
    _choose(m, p, sp, most, 0)
    for place in range(p[f.P_CHANNELS]):
        pointer = lane_of(m, sp, place)[s.X_CHOSEN]
        while pointer > 0:
            own = buffer_at(m, pointer)
            if own[s.E_SPILL] != KEPT:
                let_go_of(m, p, partition, sp, pointer)
            pointer = own[s.E_NEXT]


@kernel
def _choose(m: Any, p: Any, sp: Any, most: int, kept: int) -> None:
    """Choose the buffers that are furthest from being sent; X_CHOSEN is the foremost of each lane.

    Parameters
    ----------
    m, p, sp : rows
        The memory, a partition, its row of spilling.
    most : int
        How many.
    kept : int
        1: of those not spilled yet; 0: of those spilled that are still in memory.

    Notes
    -----
    ``HsSpillingStrategyUtils.getBuffersByConsumptionPriorityInOrder``; of two that are equally
    far the one of the lower subpartition, where Flink's heap leaves it open.
    """
    for place in range(p[f.P_CHANNELS]):
        lane = lane_of(m, sp, place)
        sent = out_row(m, p[f.P_CHANNEL0] + place).sent
        lane[s.X_CHOSEN] = 0
        lane[s.X_CURSOR] = _candidate(m, lane[s.X_TAIL], sent, kept)
    for _ in range(most):
        best, furthest = -1, -1
        for place in range(p[f.P_CHANNELS]):
            pointer = lane_of(m, sp, place)[s.X_CURSOR]
            if pointer > 0:
                sent = out_row(m, p[f.P_CHANNEL0] + place).sent
                far = buffer_at(m, pointer)[s.E_INDEX] - sent
                if far > furthest:
                    best, furthest = place, far
        if best < 0:
            return
        lane = lane_of(m, sp, best)
        sent = out_row(m, p[f.P_CHANNEL0] + best).sent
        lane[s.X_CHOSEN] = lane[s.X_CURSOR]
        before = buffer_at(m, lane[s.X_CURSOR])[s.E_PREVIOUS]
        lane[s.X_CURSOR] = _candidate(m, before, sent, kept)


@kernel
def _candidate(m: Any, pointer: int, sent: int, kept: int) -> int:
    """Last buffer up to ``pointer`` that can be chosen and has not been sent; 0: there is none."""
    while pointer > 0:
        own = buffer_at(m, pointer)
        if own[s.E_INDEX] < sent:
            return 0
        if own[s.E_GONE] == 0 and (own[s.E_SPILL] == KEPT) == (kept == 1):
            return pointer
        pointer = own[s.E_PREVIOUS]
    return 0
