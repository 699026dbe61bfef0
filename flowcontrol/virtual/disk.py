"""The disk of a task manager: reads and writes of its partitions, a buffer a turn.

A disk stands among the tasks, as a connection does, so that it has a place on the wheel; it
works after the tasks in a round. It does one thing after the other at its rate, and what it has
done a partition sees in the first round that begins later.
"""

from __future__ import annotations

from typing import Any

from flowcontrol.protocol.partition_kinds import (
    HASH,
    ON_DISK,
    PIPELINED,
    disk_ns,
    may_load,
    waits_for_producers,
)
from flowcontrol.protocol.rows import FIFO_COUNT, FIFO_SLOTS, fifo_pop, fifo_push
from flowcontrol.virtual import fields as f
from flowcontrol.virtual import spill_fields as s
from flowcontrol.virtual.compiled import kernel, part_of
from flowcontrol.virtual.header import KernelMemory
from flowcontrol.virtual.parts import SPILLS
from flowcontrol.virtual.pointers import row
from flowcontrol.virtual.spilled import buffer_at, consume, give_back, lane_of, spill_row
from flowcontrol.virtual.turns import serve_now
from flowcontrol.virtual.views import (
    in_row,
    next_bit,
    out_row,
    partition_of,
    partition_row,
    set_bit,
    task_row,
)
from flowcontrol.virtual.wheel import wake

__all__ = ["ask_disk", "finish_writing", "hear_disk", "serve_disk"]

_WRITES = 0
_READS = 1


@kernel
def ask_disk(m: KernelMemory, p: f.KernelPartition, sp: Any, now: int) -> None:
    """Have the disk serve a partition that has something to write or to read."""
    if sp[s.S_WRITE_HEAD] > 0:
        _enqueue(m, sp, _WRITES)
    group = sp[s.S_GROUP]
    if sp[s.S_UNREAD] == 0 or m[group + s.W_LEFT] > 0 or m[group + s.W_START] > now:
        return
    if _next_lane(m, p, sp) >= 0:
        _enqueue(m, sp, _READS)


@kernel
def _enqueue(m: KernelMemory, sp: Any, way: int) -> None:
    if sp[s.S_ASKED + way] == 1:
        return
    sp[s.S_ASKED + way] = 1
    disk = task_row(m, sp[s.S_DISK])
    queue = row(m, disk.union, FIFO_SLOTS + disk.gates)
    fifo_push(queue, 2 * sp[s.S_NUMBER] + way)
    serve_now(m, sp[s.S_DISK])


@kernel
def _next_lane(m: KernelMemory, p: f.KernelPartition, sp: Any) -> int:
    """Subpartition that is read from disk next, or -1.

    Notes
    -----
    The one that is next in the file (``SortMergeResultPartitionReadScheduler``,
    ``HsFileDataManager``); a hash partition has a file for each, and they take turns.
    """
    count, best, least = p.channels, -1, 0
    for i in range(count):
        place = sp[s.S_TURN] + 1 + i
        if place >= count:
            place -= count
        lane = lane_of(m, sp, place)
        if lane[s.X_READ] == 0:
            continue
        own = buffer_at(m, lane[s.X_READ])
        if own[s.E_GONE] == 0 or own[s.E_SPILL] != ON_DISK:
            continue
        if may_load(lane[s.X_READ_AT], lane[s.X_CONSUMED_AT], sp[s.S_AHEAD]) == 0:
            continue
        if best < 0 or own[s.E_OFFSET] < least:
            best, least = place, own[s.E_OFFSET]
            if p.kind == HASH:
                break
    return best


@part_of(SPILLS)
def serve_disk(m: KernelMemory, number: int, now: int) -> None:
    """Begin what the disk can begin in a round, in the order of asking."""
    disk = task_row(m, number)
    queue = row(m, disk.union, FIFO_SLOTS + disk.gates)
    round_ns = m.round_us * 1000
    start_ns = now * round_ns
    while queue[FIFO_COUNT] > 0 and disk.ready < start_ns + round_ns:
        item = fifo_pop(queue)
        p = partition_row(m, item // 2)
        sp = spill_row(m, p)
        sp[s.S_ASKED + item % 2] = 0
        pointer = _begin(m, p, sp, item % 2)
        if pointer == 0:
            continue
        own = buffer_at(m, pointer)
        begun_ns = max(start_ns, disk.ready)
        disk.ready = begun_ns + disk_ns(own[s.E_BYTES], disk.cost_ns, disk.unit)
        seen = max(now + 1, (disk.ready + round_ns - 1) // round_ns)
        own[s.E_ROUND] = seen
        own[s.E_LINK] = 0
        if sp[s.S_DONE_TAIL] > 0:
            buffer_at(m, sp[s.S_DONE_TAIL])[s.E_LINK] = pointer
        else:
            sp[s.S_DONE_HEAD] = pointer
        sp[s.S_DONE_TAIL] = pointer
        wake(m, p.task, seen)
        ask_disk(m, p, sp, now)
    if queue[FIFO_COUNT] > 0:
        wake(m, number, max(now + 1, disk.ready // round_ns))
    disk.has_sent = 0  # it may be asked again


@kernel
def _begin(m: KernelMemory, p: f.KernelPartition, sp: Any, way: int) -> int:
    """Take the next buffer that is written, or read; 0 if there is none any more."""
    if way == _WRITES:
        pointer = sp[s.S_WRITE_HEAD]
        if pointer > 0:
            sp[s.S_WRITE_HEAD] = buffer_at(m, pointer)[s.E_LINK]
            if sp[s.S_WRITE_HEAD] == 0:
                sp[s.S_WRITE_TAIL] = 0
        return pointer
    place = _next_lane(m, p, sp)
    if place < 0:
        return 0
    sp[s.S_TURN] = place
    lane = lane_of(m, sp, place)
    pointer = lane[s.X_READ]
    own = buffer_at(m, pointer)
    own[s.E_LOADED] = 1
    lane[s.X_READ] = own[s.E_NEXT]
    lane[s.X_READ_AT] += 1
    sp[s.S_UNREAD] -= 1
    sp[s.S_LOADED] += 1
    sp[s.S_LOADED_PEAK] = max(sp[s.S_LOADED_PEAK], sp[s.S_LOADED])
    return pointer


@part_of(SPILLS)
def hear_disk(m: KernelMemory, task: f.KernelTask, now: int) -> None:
    """Take notice of what the disk has done, and of what local consumers have."""
    for i in range(task.partitions):
        number = task.first_partition + i
        p = partition_row(m, number)
        if p.kind <= PIPELINED:
            continue
        sp = spill_row(m, p)
        partition = partition_of(m, number)
        _hear_done(m, p, partition, sp, now)
        count, bits = p.channels, p.dirty
        place = next_bit(m, bits, count, -1)
        while place >= 0:
            out = out_row(m, p.first_channel + place)
            if out.is_local == 1:
                consumed = in_row(m, out.input).consumed
                out.consumed = consumed
                consume(m, p, partition, sp, place, consumed)
            place = next_bit(m, bits, count, place)
        if m[sp[s.S_GROUP] + s.W_START] == now:
            for other in range(count):
                set_bit(m, bits, other)
        finish_writing(m, sp, p.kind, now)


@kernel
def _hear_done(m: KernelMemory, p: f.KernelPartition, partition: Any, sp: Any, now: int) -> None:
    """Take the buffers that the disk is done with."""
    while sp[s.S_DONE_HEAD] > 0:
        pointer = sp[s.S_DONE_HEAD]
        own = buffer_at(m, pointer)
        if own[s.E_ROUND] > now:
            wake(m, p.task, own[s.E_ROUND])
            return
        sp[s.S_DONE_HEAD] = own[s.E_LINK]
        if sp[s.S_DONE_HEAD] == 0:
            sp[s.S_DONE_TAIL] = 0
        sp[s.S_CHANGED] = 1
        place = own[s.E_PLACE]
        set_bit(m, p.dirty, place)
        if own[s.E_LOADED] == 1:
            own[s.E_LOADED] = 2
            lane_of(m, sp, place)[s.X_READABLE] += 1
            sp[s.S_BYTES_READ] += own[s.E_BYTES]
            continue
        own[s.E_SPILL] = ON_DISK
        sp[s.S_WRITING] -= 1
        sp[s.S_BYTES_WRITTEN] += own[s.E_BYTES]
        out = out_row(m, p.first_channel + place)
        if own[s.E_GONE] == 1 and own[s.E_INDEX] >= out.sent:
            sp[s.S_UNREAD] += 1
        give_back(m, p, partition, pointer)
        if sp[s.S_WRITING] == 0:
            p.is_stopped = 0


@kernel
def finish_writing(m: KernelMemory, sp: Any, kind: int, now: int) -> None:
    """Tell the consumers of a partition when it is finished and all of it is written."""
    if sp[s.S_CLOSED] != 1 or sp[s.S_WRITING] > 0:
        return
    sp[s.S_CLOSED] = 2
    sp[s.S_DONE_AT] = now
    if waits_for_producers(kind) == 0:
        return
    group = sp[s.S_GROUP]
    m[group + s.W_LEFT] -= 1
    if m[group + s.W_LEFT] > 0:
        return
    m[group + s.W_START] = now + 1
    for i in range(m[group + s.W_COUNT]):
        wake(m, partition_row(m, m[group + s.W_WIDTH + i]).task, now + 1)
