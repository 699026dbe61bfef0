"""Buffers of partitions that spill, one by one, and the disk that reads and writes them.

A disk stands among the tasks, as a connection does, so that it has a place on the wheel; it
works after the tasks in a round. It does one thing after the other at its rate, and what it has
done a partition sees in the first round that begins later.
"""

from flowcontrol.kernel import views as v
from flowcontrol.kernel.messages import serve_now
from flowcontrol.kernel.views import out_row, partition_of, partition_row, wake
from flowcontrol.memory import fields as f
from flowcontrol.memory import part_fields as s
from flowcontrol.memory.cells import part_of, row, rows_of, state_of
from flowcontrol.memory.parts import SPILLS
from flowcontrol.memory.places import FLAG_SPILLS, KernelMemory
from flowcontrol.protocol.network import partition_kinds as k
from flowcontrol.protocol.network.pool_rules import note_quota, recycle_segment
from flowcontrol.state.declared import width
from flowcontrol.state.queues import drop
from flowcontrol.state.rows import FIFO_COUNT, FIFO_SLOTS, UNLIMITED, fifo_pop, fifo_push

# --- Buffers of a spilling partition: remembered one by one, from finished to consumed.
#
# What a buffer of the partition is, who holds its segment, and the queues it stands in. What
# is decided about it is in flowcontrol.kernel.spilling and flowcontrol.kernel.disk.


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


# --- The disk of a task manager: reads and writes of its partitions, a buffer a turn.


REGION_CELLS = width(s.ConsumerRegion)

_WRITES = 0
_READS = 1


def ask_disk(m: KernelMemory, sp: s.SpillingPartition) -> None:
    """Have the disk serve a partition that has something to write or to read."""
    if sp.unwritten.head > 0:
        _enqueue(m, sp, _WRITES)
    region = region_of(m, sp)
    if sp.unread == 0 or region.left > 0 or region.start > m.now:
        return
    if _next_lane(m, sp) >= 0:
        _enqueue(m, sp, _READS)


def _enqueue(m: KernelMemory, sp: s.SpillingPartition, way: int) -> None:
    if sp.asked & (1 << way) != 0:
        return
    sp.asked |= 1 << way
    disk = v.task_row(m, sp.disk)
    queue = row(m, disk.union, FIFO_SLOTS + disk.gates)
    fifo_push(queue, 2 * sp.number + way)
    serve_now(m, sp.disk)


def _next_lane(m: KernelMemory, sp: s.SpillingPartition) -> int:
    """Subpartition that is read from disk next, or -1.

    The one that is next in the file (``SortMergeResultPartitionReadScheduler``,
    ``HsFileDataManager``); a hash partition has a file for each, and they take turns.
    """
    p = v.partition_row(m, sp.number)
    count, best, least = p.channels, -1, 0
    for i in range(count):
        place = sp.turn + 1 + i
        if place >= count:
            place -= count
        lane = lane_of(m, sp, place)
        if lane.read == 0:
            continue
        own = buffer_at(m, lane.read)
        if own.is_gone == 0 or own.spill != k.ON_DISK:
            continue
        if k.may_load(lane.read_at, lane.consumed_at, sp.ahead) == 0:
            continue
        if best < 0 or own.offset < least:
            best, least = place, own.offset
            if p.kind == k.HASH:
                break
    return best


@part_of(SPILLS)
def serve_disk(m: KernelMemory, number: int) -> None:
    """Begin what the disk can begin in a round, in the order of asking."""
    disk = v.task_row(m, number)
    queue = row(m, disk.union, FIFO_SLOTS + disk.gates)
    round_ns = m.round_us * 1000
    start_ns = m.now * round_ns
    while queue[FIFO_COUNT] > 0 and disk.ready < start_ns + round_ns:
        item = fifo_pop(queue)
        p = v.partition_row(m, item // 2)
        sp = spill_row(m, p)
        sp.asked &= ~(1 << (item % 2))
        pointer = _begin(m, sp, item % 2)
        if pointer == 0:
            continue
        own = buffer_at(m, pointer)
        begun_ns = max(start_ns, disk.ready)
        disk.ready = begun_ns + k.disk_ns(own.nbytes, disk.cost_ns, disk.unit)
        seen = max(m.now + 1, (disk.ready + round_ns - 1) // round_ns)
        own.round = seen
        push(m, sp.served, pointer)
        wake(m, p.task, seen)
        ask_disk(m, sp)
    if queue[FIFO_COUNT] > 0:
        wake(m, number, max(m.now + 1, disk.ready // round_ns))
    disk.has_sent = 0  # it may be asked again


def _begin(m: KernelMemory, sp: s.SpillingPartition, way: int) -> int:
    """Take the next buffer that is written, or read; 0 if there is none any more."""
    if way == _WRITES:
        return pop(m, sp.unwritten)
    place = _next_lane(m, sp)
    if place < 0:
        return 0
    sp.turn = place
    lane = lane_of(m, sp, place)
    pointer = lane.read
    own = buffer_at(m, pointer)
    own.loaded = 1
    lane.read = own.next
    lane.read_at += 1
    sp.unread -= 1
    sp.loaded += 1
    sp.loaded_peak = max(sp.loaded_peak, sp.loaded)
    return pointer


@part_of(SPILLS)
def note_disk(m: KernelMemory, task: f.KernelTask) -> None:
    """Take notice of what the disk has done, and of what local consumers have."""
    for i in range(task.partitions):
        p = v.partition_row(m, task.first_partition + i)
        if p.kind <= k.PIPELINED:
            continue
        sp = spill_row(m, p)
        _on_disk_done(m, sp)
        count, bits = p.channels, p.dirty
        place = v.next_bit(m, bits, count, -1)
        while place >= 0:
            out = v.out_row(m, p.first_channel + place)
            if out.is_local == 1:
                consumed = v.in_row(m, out.input).consumed
                out.consumed = consumed
                consume(m, sp, place, consumed)
            place = v.next_bit(m, bits, count, place)
        if region_of(m, sp).start == m.now:
            for other in range(count):
                v.set_bit(m, bits, other)
        finish_writing(m, sp)


def _on_disk_done(m: KernelMemory, sp: s.SpillingPartition) -> None:
    """Take the buffers that the disk is done with."""
    p = v.partition_row(m, sp.number)
    while sp.served.head > 0:
        own = buffer_at(m, sp.served.head)
        if own.round > m.now:
            wake(m, p.task, own.round)
            return
        pointer = pop(m, sp.served)
        sp.has_changed = 1
        place = own.place
        v.set_bit(m, p.dirty, place)
        if own.loaded == 1:
            own.loaded = 2
            lane_of(m, sp, place).readable += 1
            sp.bytes_read += own.nbytes
            continue
        own.spill = k.ON_DISK
        sp.writing -= 1
        sp.bytes_written += own.nbytes
        if own.is_gone == 1 and own.index >= out_of(m, sp, place).sent:
            sp.unread += 1
        give_back(m, sp, pointer)
        if sp.writing == 0:
            p.is_stopped = 0


def finish_writing(m: KernelMemory, sp: s.SpillingPartition) -> None:
    """Tell the consumers of a partition when it is finished and all of it is written."""
    if sp.closed != 1 or sp.writing > 0:
        return
    sp.closed = 2
    sp.done_at = m.now
    if k.waits_for_producers(v.partition_row(m, sp.number).kind) == 0:
        return
    region = region_of(m, sp)
    region.left -= 1
    if region.left > 0:
        return
    region.start = m.now + 1
    for i in range(region.count):
        wake(m, v.partition_row(m, m[sp.region + REGION_CELLS + i]).task, m.now + 1)
