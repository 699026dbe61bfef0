"""The disk of a task manager: reads and writes of its partitions, a buffer a turn.

A disk stands among the tasks, as a connection does, so that it has a place on the wheel; it
works after the tasks in a round. It does one thing after the other at its rate, and what it has
done a partition sees in the first round that begins later.
"""

from flowcontrol.protocol import partition_kinds as k
from flowcontrol.protocol.rows import FIFO_COUNT, FIFO_SLOTS, fifo_pop, fifo_push
from flowcontrol.protocol.state import width
from flowcontrol.virtual import fields as f
from flowcontrol.virtual import spill_fields as s
from flowcontrol.virtual import spilled
from flowcontrol.virtual import views as v
from flowcontrol.virtual.cells import row
from flowcontrol.virtual.header import KernelMemory
from flowcontrol.virtual.parts import SPILLS
from flowcontrol.virtual.registry import part_of
from flowcontrol.virtual.turns import serve_now
from flowcontrol.virtual.wheel import wake

REGION_CELLS = width(s.ConsumerRegion)

_WRITES = 0
_READS = 1


def ask_disk(m: KernelMemory, sp: s.SpillingPartition) -> None:
    """Have the disk serve a partition that has something to write or to read."""
    if sp.unwritten.head > 0:
        _enqueue(m, sp, _WRITES)
    region = spilled.region_of(m, sp)
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

    Notes
    -----
    The one that is next in the file (``SortMergeResultPartitionReadScheduler``,
    ``HsFileDataManager``); a hash partition has a file for each, and they take turns.
    """
    p = v.partition_row(m, sp.number)
    count, best, least = p.channels, -1, 0
    for i in range(count):
        place = sp.turn + 1 + i
        if place >= count:
            place -= count
        lane = spilled.lane_of(m, sp, place)
        if lane.read == 0:
            continue
        own = spilled.buffer_at(m, lane.read)
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
        sp = spilled.spill_row(m, p)
        sp.asked &= ~(1 << (item % 2))
        pointer = _begin(m, sp, item % 2)
        if pointer == 0:
            continue
        own = spilled.buffer_at(m, pointer)
        begun_ns = max(start_ns, disk.ready)
        disk.ready = begun_ns + k.disk_ns(own.nbytes, disk.cost_ns, disk.unit)
        seen = max(m.now + 1, (disk.ready + round_ns - 1) // round_ns)
        own.round = seen
        spilled.push(m, sp.served, pointer)
        wake(m, p.task, seen)
        ask_disk(m, sp)
    if queue[FIFO_COUNT] > 0:
        wake(m, number, max(m.now + 1, disk.ready // round_ns))
    disk.has_sent = 0  # it may be asked again


def _begin(m: KernelMemory, sp: s.SpillingPartition, way: int) -> int:
    """Take the next buffer that is written, or read; 0 if there is none any more."""
    if way == _WRITES:
        return spilled.pop(m, sp.unwritten)
    place = _next_lane(m, sp)
    if place < 0:
        return 0
    sp.turn = place
    lane = spilled.lane_of(m, sp, place)
    pointer = lane.read
    own = spilled.buffer_at(m, pointer)
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
        sp = spilled.spill_row(m, p)
        _on_disk_done(m, sp)
        count, bits = p.channels, p.dirty
        place = v.next_bit(m, bits, count, -1)
        while place >= 0:
            out = v.out_row(m, p.first_channel + place)
            if out.is_local == 1:
                consumed = v.in_row(m, out.input).consumed
                out.consumed = consumed
                spilled.consume(m, sp, place, consumed)
            place = v.next_bit(m, bits, count, place)
        if spilled.region_of(m, sp).start == m.now:
            for other in range(count):
                v.set_bit(m, bits, other)
        finish_writing(m, sp)


def _on_disk_done(m: KernelMemory, sp: s.SpillingPartition) -> None:
    """Take the buffers that the disk is done with."""
    p = v.partition_row(m, sp.number)
    while sp.served.head > 0:
        own = spilled.buffer_at(m, sp.served.head)
        if own.round > m.now:
            wake(m, p.task, own.round)
            return
        pointer = spilled.pop(m, sp.served)
        sp.has_changed = 1
        place = own.place
        v.set_bit(m, p.dirty, place)
        if own.loaded == 1:
            own.loaded = 2
            spilled.lane_of(m, sp, place).readable += 1
            sp.bytes_read += own.nbytes
            continue
        own.spill = k.ON_DISK
        sp.writing -= 1
        sp.bytes_written += own.nbytes
        if own.is_gone == 1 and own.index >= spilled.out_of(m, sp, place).sent:
            sp.unread += 1
        spilled.give_back(m, sp, pointer)
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
    region = spilled.region_of(m, sp)
    region.left -= 1
    if region.left > 0:
        return
    region.start = m.now + 1
    for i in range(region.count):
        wake(m, v.partition_row(m, m[sp.region + REGION_CELLS + i]).task, m.now + 1)
