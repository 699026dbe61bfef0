"""Buffers of a spilling partition: remembered one by one, from finished to consumed.

What a buffer of the partition is, who holds its segment, and the queues it stands in. What is
decided about it is in :mod:`flowcontrol.virtual.spilling` and :mod:`flowcontrol.virtual.disk`.
"""

from flowcontrol.protocol import partition_kinds as k
from flowcontrol.protocol.pool_rules import note_quota, recycle_segment
from flowcontrol.protocol.queues import drop
from flowcontrol.protocol.rows import UNLIMITED
from flowcontrol.protocol.state import width
from flowcontrol.virtual import fields as f
from flowcontrol.virtual import spill_fields as s
from flowcontrol.virtual.cells import rows_of, state_of
from flowcontrol.virtual.header import FLAG_SPILLS, KernelMemory
from flowcontrol.virtual.views import out_row, partition_of, partition_row

LANE_CELLS = width(s.SpillingSubpartition)


spilling_partition = state_of(s.SpillingPartition)
spilling_subpartition = state_of(s.SpillingSubpartition)
spilled_buffers = rows_of(s.SpilledBuffer)
consumer_region = state_of(s.ConsumerRegion)


def spill_row(m: KernelMemory, p: f.KernelPartition) -> s.SpillingPartition:
    """What is kept of a partition that is not pipelined and bounded."""
    return spilling_partition(m, p.spill)


def region_of(m: KernelMemory, sp: s.SpillingPartition) -> s.ConsumerRegion:
    """Region of a partition's consumers."""
    return consumer_region(m, sp.region)


def lane_of(m: KernelMemory, sp: s.SpillingPartition, place: int) -> s.SpillingSubpartition:
    """A subpartition."""
    return spilling_subpartition(m, sp.lanes + place * LANE_CELLS)


def out_of(m: KernelMemory, sp: s.SpillingPartition, place: int) -> f.KernelSubpartition:
    """What every kind of partition has of a subpartition."""
    return out_row(m, partition_row(m, sp.number).first_channel + place)


def buffer_at(m: KernelMemory, pointer: int) -> s.SpilledBuffer:
    """A buffer."""
    return spilled_buffers(m, m.spills, m.spills_most)[pointer - 1]


def quota_of(m: KernelMemory, p: f.KernelPartition) -> int:
    """Buffers of a subpartition from which on the pool is unavailable."""
    return m.quota if k.has_quota(p.kind) == 1 else UNLIMITED


def push(m: KernelMemory, buffers: s.BufferList, pointer: int) -> None:
    """Put a buffer at the end of a list."""
    buffer_at(m, pointer).link = 0
    if buffers.tail > 0:
        buffer_at(m, buffers.tail).link = pointer
    else:
        buffers.head = pointer
    buffers.tail = pointer


def pop(m: KernelMemory, buffers: s.BufferList) -> int:
    """Take the first buffer off a list; 0 if there is none."""
    pointer = buffers.head
    if pointer > 0:
        buffers.head = buffer_at(m, pointer).link
        if buffers.head == 0:
            buffers.tail = 0
    return pointer


def gather(m: KernelMemory, sp: s.SpillingPartition, place: int) -> None:
    """Remember the buffers of a subpartition that have been filled."""
    partition = partition_of(m, sp.number)
    queue = partition.queues[place]
    while queue.ends.count > partition.channels[place].events:
        _remember(m, sp, place, drop(queue).records, m.segment_bytes)


def gather_all(m: KernelMemory, sp: s.SpillingPartition, place: int) -> None:
    """Remember the buffers of a subpartition, the open one too, which is closed as it is."""
    gather(m, sp, place)
    out = partition_of(m, sp.number).channels[place]
    if out.is_open == 1:
        out.is_open = 0
        _remember(m, sp, place, out.tail, out.filled)
        out.tail = 0
        out.unread = 0


def _remember(
    m: KernelMemory, sp: s.SpillingPartition, place: int, records: int, nbytes: int
) -> None:
    """Append a finished buffer to its subpartition; a blocking partition writes it at once."""
    number = m.spills_free
    if number < 0:
        m.flags |= FLAG_SPILLS
        return
    lane = lane_of(m, sp, place)
    pointer = number + 1
    fresh = buffer_at(m, pointer)
    m.spills_free = fresh.next
    fresh.next = 0
    fresh.previous = lane.tail
    fresh.place = place
    fresh.index = lane.count
    fresh.records = records
    fresh.nbytes = nbytes
    fresh.spill = k.KEPT
    fresh.is_gone = 0
    fresh.is_held = 1
    fresh.loaded = 0
    lane.count += 1
    if lane.tail > 0:
        buffer_at(m, lane.tail).next = pointer
    lane.tail = pointer
    if lane.head == 0:
        lane.head = pointer
    if lane.next == 0:
        lane.next = pointer
    if lane.read == 0:
        lane.read = pointer
    if lane.consumed == 0:
        lane.consumed = pointer
    lane.readable += 1
    sp.kept += 1
    sp.has_changed = 1
    kind = partition_row(m, sp.number).kind
    if kind in (k.HASH, k.SORTED):
        spill_buffer(m, sp, pointer)
        fresh.is_gone = 1
        lane.readable -= 1


def spill_buffer(m: KernelMemory, sp: s.SpillingPartition, pointer: int) -> None:
    """Have a buffer written to disk, behind those that wait for that."""
    spilled = buffer_at(m, pointer)
    spilled.spill = k.WRITING
    spilled.offset = sp.offset
    sp.offset += 1
    sp.kept -= 1
    sp.writing += 1
    push(m, sp.unwritten, pointer)


def let_go_of(m: KernelMemory, sp: s.SpillingPartition, pointer: int) -> None:
    """Read a buffer that is spilled from memory no more."""
    gone = buffer_at(m, pointer)
    if gone.is_gone == 1:
        return
    gone.is_gone = 1
    if gone.index >= out_of(m, sp, gone.place).sent:
        lane_of(m, sp, gone.place).readable -= 1
        if gone.spill == k.ON_DISK:
            sp.unread += 1
    give_back(m, sp, pointer)


def give_back(m: KernelMemory, sp: s.SpillingPartition, pointer: int) -> None:
    """Return a buffer's segment to the pool, if nobody needs it any more."""
    own = buffer_at(m, pointer)
    if k.frees_segment(own.spill, own.is_gone, own.is_held) == 1:
        own.is_held = 0
        partition, quota = partition_of(m, sp.number), quota_of(m, partition_row(m, sp.number))
        recycle_segment(partition.pool, partition.segments)
        note_quota(partition.pool, partition.counts, own.place, -1, quota)


def consume(m: KernelMemory, sp: s.SpillingPartition, place: int, upto: int) -> None:
    """Take notice that a consumer has done with the buffers before ``upto``.

    Notes
    -----
    ``HsSelectiveSpillingStrategy.onBufferConsumed`` lets go of it;
    ``HsFullSpillingStrategy`` keeps it until memory is short.
    """
    lane, kind = lane_of(m, sp, place), partition_row(m, sp.number).kind
    while lane.consumed_at < upto:
        pointer = lane.consumed
        own = buffer_at(m, pointer)
        lane.consumed = own.next
        lane.consumed_at += 1
        sp.has_changed = 1
        if own.loaded == 2:
            sp.loaded -= 1
        if own.is_gone == 0 and kind != k.FULL:
            own.is_gone = 1
            if own.spill == k.KEPT:
                sp.kept -= 1
            give_back(m, sp, pointer)
    _forget(m, lane)


def _forget(m: KernelMemory, lane: s.SpillingSubpartition) -> None:
    """Free the rows of the oldest buffers, as far as nothing happens to them any more."""
    while lane.head > 0 and lane.head != lane.consumed:
        pointer = lane.head
        oldest = buffer_at(m, pointer)
        if oldest.is_held == 1 or oldest.spill == k.WRITING:
            return
        after = oldest.next
        lane.head = after
        if after > 0:
            buffer_at(m, after).previous = 0
        else:
            lane.tail = 0
        oldest.next = m.spills_free
        m.spills_free = pointer - 1
