"""Buffers of a spilling partition: remembered one by one, from finished to consumed.

What a buffer of the partition is, who holds its segment, and the queues it stands in. What is
decided about it is in :mod:`flowcontrol.virtual.spilling` and :mod:`flowcontrol.virtual.disk`.
"""

from __future__ import annotations

from typing import Any

from flowcontrol.protocol.partition_kinds import (
    FULL,
    HASH,
    KEPT,
    ON_DISK,
    SORTED,
    WRITING,
    frees_segment,
    has_quota,
)
from flowcontrol.protocol.pool_rules import note_quota, recycle_segment
from flowcontrol.protocol.rows import UNLIMITED, fifo_pop
from flowcontrol.virtual import fields as f
from flowcontrol.virtual import spill_fields as s
from flowcontrol.virtual.compiled import kernel
from flowcontrol.virtual.header import FLAG_SPILLS, KernelMemory
from flowcontrol.virtual.pointers import row
from flowcontrol.virtual.views import out_row

__all__ = [
    "buffer_at",
    "close_open_buffer",
    "consume",
    "gather",
    "give_back",
    "lane_of",
    "let_go_of",
    "quota_of",
    "spill_buffer",
    "spill_row",
]


@kernel
def spill_row(m: KernelMemory, p: f.KernelPartition) -> Any:
    """Row of a partition that is not pipelined and bounded."""
    return row(m, p.spill, s.S_WIDTH)


@kernel
def lane_of(m: KernelMemory, sp: Any, place: int) -> Any:
    """Row of a subpartition."""
    return row(m, sp[s.S_LANES] + place * s.X_WIDTH, s.X_WIDTH)


@kernel
def buffer_at(m: KernelMemory, pointer: int) -> Any:
    """Row of a buffer."""
    return row(m, m.spills + (pointer - 1) * s.E_WIDTH, s.E_WIDTH)


@kernel
def quota_of(m: KernelMemory, p: f.KernelPartition) -> int:
    """Buffers of a subpartition from which on the pool is unavailable."""
    return m.quota if has_quota(p.kind) == 1 else UNLIMITED


@kernel
def gather(m: KernelMemory, p: f.KernelPartition, partition: Any, sp: Any, place: int) -> None:
    """Remember the buffers of a subpartition that have been filled."""
    records = fifo_pop(partition.records[place])
    while records >= 0:
        _remember(m, p, sp, place, records, m.segment_bytes)
        records = fifo_pop(partition.records[place])


@kernel
def close_open_buffer(
    m: KernelMemory, p: f.KernelPartition, partition: Any, sp: Any, place: int
) -> None:
    """Close a subpartition's open buffer as it is, and remember it."""
    out = partition.channels[place]
    if out.is_open == 1:
        out.is_open = 0
        _remember(m, p, sp, place, out.tail, out.filled)
        out.tail = 0
        out.unread = 0


@kernel
def _remember(
    m: KernelMemory, p: f.KernelPartition, sp: Any, place: int, records: int, nbytes: int
) -> None:
    """Append a finished buffer to its subpartition; a blocking partition writes it at once."""
    number = m.spills_free
    if number < 0:
        m.flags |= FLAG_SPILLS
        return
    lane = lane_of(m, sp, place)
    pointer = number + 1
    fresh = buffer_at(m, pointer)
    m.spills_free = fresh[s.E_NEXT]
    fresh[s.E_NEXT] = 0
    fresh[s.E_PREVIOUS] = lane[s.X_TAIL]
    fresh[s.E_PLACE] = place
    fresh[s.E_INDEX] = lane[s.X_COUNT]
    fresh[s.E_RECORDS] = records
    fresh[s.E_BYTES] = nbytes
    fresh[s.E_SPILL] = KEPT
    fresh[s.E_GONE] = 0
    fresh[s.E_HELD] = 1
    fresh[s.E_LOADED] = 0
    lane[s.X_COUNT] += 1
    if lane[s.X_TAIL] > 0:
        buffer_at(m, lane[s.X_TAIL])[s.E_NEXT] = pointer
    lane[s.X_TAIL] = pointer
    if lane[s.X_HEAD] == 0:
        lane[s.X_HEAD] = pointer
    if lane[s.X_NEXT] == 0:
        lane[s.X_NEXT] = pointer
    if lane[s.X_READ] == 0:
        lane[s.X_READ] = pointer
    if lane[s.X_CONSUMED] == 0:
        lane[s.X_CONSUMED] = pointer
    lane[s.X_READABLE] += 1
    sp[s.S_KEPT] += 1
    sp[s.S_CHANGED] = 1
    if p.kind == HASH or p.kind == SORTED:
        spill_buffer(m, sp, pointer)
        fresh[s.E_GONE] = 1
        lane[s.X_READABLE] -= 1


@kernel
def spill_buffer(m: KernelMemory, sp: Any, pointer: int) -> None:
    """Have a buffer written to disk, behind those that wait for that."""
    spilled = buffer_at(m, pointer)
    spilled[s.E_SPILL] = WRITING
    spilled[s.E_LINK] = 0
    spilled[s.E_OFFSET] = sp[s.S_OFFSET]
    sp[s.S_OFFSET] += 1
    sp[s.S_KEPT] -= 1
    sp[s.S_WRITING] += 1
    if sp[s.S_WRITE_TAIL] > 0:
        buffer_at(m, sp[s.S_WRITE_TAIL])[s.E_LINK] = pointer
    else:
        sp[s.S_WRITE_HEAD] = pointer
    sp[s.S_WRITE_TAIL] = pointer


@kernel
def let_go_of(m: KernelMemory, p: f.KernelPartition, partition: Any, sp: Any, pointer: int) -> None:
    """Read a buffer that is spilled from memory no more."""
    gone = buffer_at(m, pointer)
    if gone[s.E_GONE] == 1:
        return
    gone[s.E_GONE] = 1
    if gone[s.E_INDEX] >= out_row(m, p.first_channel + gone[s.E_PLACE]).sent:
        lane_of(m, sp, gone[s.E_PLACE])[s.X_READABLE] -= 1
        if gone[s.E_SPILL] == ON_DISK:
            sp[s.S_UNREAD] += 1
    give_back(m, p, partition, pointer)


@kernel
def give_back(m: KernelMemory, p: f.KernelPartition, partition: Any, pointer: int) -> None:
    """Return a buffer's segment to the pool, if nobody needs it any more."""
    own = buffer_at(m, pointer)
    if frees_segment(own[s.E_SPILL], own[s.E_GONE], own[s.E_HELD]) == 1:
        own[s.E_HELD] = 0
        recycle_segment(partition.pool, partition.segments)
        note_quota(partition.pool, partition.counts, own[s.E_PLACE], -1, quota_of(m, p))


@kernel
def consume(
    m: KernelMemory, p: f.KernelPartition, partition: Any, sp: Any, place: int, upto: int
) -> None:
    """Take notice that a consumer has done with the buffers before ``upto``.

    Notes
    -----
    ``HsSelectiveSpillingStrategy.onBufferConsumed`` lets go of it;
    ``HsFullSpillingStrategy`` keeps it until memory is short.
    """
    lane = lane_of(m, sp, place)
    while lane[s.X_CONSUMED_AT] < upto:
        pointer = lane[s.X_CONSUMED]
        own = buffer_at(m, pointer)
        lane[s.X_CONSUMED] = own[s.E_NEXT]
        lane[s.X_CONSUMED_AT] += 1
        sp[s.S_CHANGED] = 1
        if own[s.E_LOADED] == 2:
            sp[s.S_LOADED] -= 1
        if own[s.E_GONE] == 0 and p.kind != FULL:
            own[s.E_GONE] = 1
            if own[s.E_SPILL] == KEPT:
                sp[s.S_KEPT] -= 1
            give_back(m, p, partition, pointer)
    _forget(m, lane)


@kernel
def _forget(m: KernelMemory, lane: Any) -> None:
    """Free the rows of the oldest buffers, as far as nothing happens to them any more."""
    while lane[s.X_HEAD] > 0 and lane[s.X_HEAD] != lane[s.X_CONSUMED]:
        pointer = lane[s.X_HEAD]
        oldest = buffer_at(m, pointer)
        if oldest[s.E_HELD] == 1 or oldest[s.E_SPILL] == WRITING:
            return
        after = oldest[s.E_NEXT]
        lane[s.X_HEAD] = after
        if after > 0:
            buffer_at(m, after)[s.E_PREVIOUS] = 0
        else:
            lane[s.X_TAIL] = 0
        oldest[s.E_NEXT] = m.spills_free
        m.spills_free = pointer - 1
