"""A task's part of a round for partitions that spill: write, send, decide what goes to disk.

The rules are those of :mod:`flowcontrol.protocol.network.partition_kinds`.
"""

from flowcontrol.kernel import disk
from flowcontrol.kernel.disk import ask_disk
from flowcontrol.kernel.messages import next_message, put, send_backlog_announcement
from flowcontrol.kernel.views import clear_bit, next_bit, partition_of, partition_row
from flowcontrol.memory import fields as f
from flowcontrol.memory import part_fields as s
from flowcontrol.memory.cells import part_of
from flowcontrol.memory.parts import SPILLS
from flowcontrol.memory.places import KernelMemory
from flowcontrol.protocol.network import partition_kinds as k
from flowcontrol.protocol.network.pool_rules import pool_is_available
from flowcontrol.protocol.network.subpartition_rules import head_is_event, poll_queue
from flowcontrol.state.queues import DATA


def is_stopped(p: f.KernelPartition) -> int:
    """Tell whether a task may not begin another record for a partition: 1 if so.

    ``SortMergeResultPartition`` is always available; its task blocks while it writes a region.
    """
    if p.kind == k.SORTED:
        return p.is_stopped
    return 1 - pool_is_available(p.pool)


@part_of(SPILLS)
def stop(m: KernelMemory, p: f.KernelPartition) -> None:
    """Have a region written: the memory of a sort-merge partition did not do for a record.

    What is left of the record goes into the next region (``SortMergeResultPartition.emit``).
    """
    disk.spill_row(m, p).is_full = 1
    p.is_stopped = 1


@part_of(SPILLS)
def note_memory(m: KernelMemory, task: f.KernelTask) -> None:
    """Note how much memory a task's partitions take, before it sends."""
    for i in range(task.partitions):
        p = partition_row(m, task.first_partition + i)
        if p.kind >= k.PIPELINED:
            sp = disk.spill_row(m, p)
            sp.peak = max(sp.peak, p.pool.in_use)


@part_of(SPILLS)
def note_waits(m: KernelMemory, task: f.KernelTask) -> None:
    """Note how long a task waits for its partitions: as long as it counts as back-pressured."""
    for i in range(task.partitions):
        p = partition_row(m, task.first_partition + i)
        if p.kind < k.PIPELINED:
            continue
        sp = disk.spill_row(m, p)
        if sp.since >= 0:
            sp.waited += m.now - sp.since
        waits = task.status == f.BLOCKED and is_stopped(p) == 1
        sp.since = m.now if waits else -1


@part_of(SPILLS)
def send_spilled(m: KernelMemory, task: f.KernelTask) -> None:
    """Send what can be sent of a task's spilling partitions, and have the rest written."""
    for i in range(task.partitions):
        p = partition_row(m, task.first_partition + i)
        if p.kind <= k.PIPELINED:
            continue
        sp = disk.spill_row(m, p)
        if sp.is_full == 1:
            _write_region(m, sp)
        count, bits = p.channels, p.dirty
        region = disk.region_of(m, sp)
        starts = region.left == 0 and region.start <= m.now
        place = next_bit(m, bits, count, -1)
        while place >= 0:
            clear_bit(m, bits, place)
            if p.kind != k.SORTED:
                disk.gather(m, sp, place)
            if starts:
                _send_lane(m, task, sp, place)
            place = next_bit(m, bits, count, place)
        if sp.has_changed == 1:
            sp.has_changed = 0
            if p.kind == k.SELECTIVE:
                _spill_some(m, sp)
            elif p.kind == k.FULL:
                _release_some(m, sp)
                _spill_all(m, sp)
        ask_disk(m, sp)


def _write_region(m: KernelMemory, sp: s.SpillingPartition) -> None:
    """Have all that a sort-merge partition has collected written, subpartition by subpartition.

    ``SortMergeResultPartition.flushDataBuffer`` with a ``HashBasedDataBuffer``: a region holds
    the buffers of each subpartition one after the other, the last one part-filled.
    """
    sp.is_full = 0
    for place in range(partition_row(m, sp.number).channels):
        disk.gather_all(m, sp, place)
    if sp.writing > 0:
        sp.regions += 1


def close_partition(m: KernelMemory, sp: s.SpillingPartition) -> None:
    """Finish a partition: what it still holds is written to disk.

    The last buffers of a blocking partition, the last region of a sort-merge one, and all that
    a hybrid one has in memory (``onResultPartitionClosed``).
    """
    sp.closed = 1
    p = partition_row(m, sp.number)
    if p.kind == k.SORTED:
        _write_region(m, sp)
        return
    for place in range(p.channels):
        disk.gather_all(m, sp, place)
        lane = disk.lane_of(m, sp, place)
        if p.kind == k.FULL:
            _evict(m, sp, lane.head, 1)
        elif p.kind == k.SELECTIVE:
            _evict(m, sp, lane.next, 1)


def _evict(m: KernelMemory, sp: s.SpillingPartition, pointer: int, spills: int) -> None:
    """Let go of the buffers from one on that are spilled; with ``spills`` spill the others."""
    while pointer > 0:
        own = disk.buffer_at(m, pointer)
        if own.spill == k.KEPT and spills == 1:
            disk.spill_buffer(m, sp, pointer)
        if own.spill != k.KEPT:
            disk.let_go_of(m, sp, pointer)
        pointer = own.next


def _send_lane(m: KernelMemory, task: f.KernelTask, sp: s.SpillingPartition, place: int) -> None:
    """Send what credit and the disk allow; hand a local consumer what its queue may hold."""
    out, lane = disk.out_of(m, sp, place), disk.lane_of(m, sp, place)
    kind, local = partition_row(m, sp.number).kind, out.is_local
    at = m.now + (1 if local == 1 else m.latency)
    if out.initial == 0:
        send_backlog_announcement(m, out, _lane_backlog(kind, out, lane), 0)
    while lane.next > 0:
        limit = out.consumed + sp.local if local == 1 else out.announced
        own = disk.buffer_at(m, lane.next)
        loaded = 1 if own.loaded == 2 else 0
        if out.sent >= limit or k.is_readable(own.is_gone, loaded) == 0:
            break
        if lane.read == lane.next:
            lane.read = own.next
            lane.read_at += 1
        lane.next = own.next
        lane.readable -= 1
        out.buffers -= 1
        out.sent += 1
        out.announced_backlog = _lane_backlog(kind, out, lane)
        message = next_message(m, out)
        message.kind = DATA
        message.records = own.records
        message.nbytes = own.nbytes
        message.backlog = out.announced_backlog
        put(m, out, at)
        task.has_sent = 1
        if sp.first < 0:
            sp.first = m.now
    queue = partition_of(m, sp.number).queues[place]
    if lane.next == 0 and head_is_event(out, queue) == 1:
        poll_queue(out, queue, next_message(m, out))
        put(m, out, at)
        task.has_sent = 1
    if local == 0:
        disk.consume(m, sp, place, out.sent)


def _lane_backlog(kind: int, out: f.KernelSubpartition, lane: s.SpillingSubpartition) -> int:
    """Backlog of a subpartition as it announces it."""
    return k.backlog_of(kind, out.buffers - out.is_open, lane.readable)


def _spill_some(m: KernelMemory, sp: s.SpillingPartition) -> None:
    """Spill what a selective strategy does not keep, and let go of it."""
    p = partition_row(m, sp.number)
    size = p.pool.size
    if sp.kept == 0 or k.memory_is_short(p.pool.in_use, size) == 0:
        return
    _evict_chosen(m, sp, k.buffers_to_evict(size), 1)


def _spill_all(m: KernelMemory, sp: s.SpillingPartition) -> None:
    """Spill all that a full strategy has not spilled yet; it stays in memory besides."""
    p = partition_row(m, sp.number)
    if k.full_spill_is_due(sp.kept, p.pool.size) == 0:
        return
    for place in range(p.channels):
        pointer, first = disk.lane_of(m, sp, place).tail, 0
        while pointer > 0 and disk.buffer_at(m, pointer).spill == k.KEPT:
            first = pointer
            pointer = disk.buffer_at(m, pointer).previous
        while first > 0:
            disk.spill_buffer(m, sp, first)
            first = disk.buffer_at(m, first).next


def _release_some(m: KernelMemory, sp: s.SpillingPartition) -> None:
    """Let go of spilled buffers when memory is short: consumed ones, then others."""
    p = partition_row(m, sp.number)
    size = p.pool.size
    if k.memory_is_short(p.pool.in_use, size) == 0:
        return
    most = k.buffers_to_evict(size)
    for place in range(p.channels):
        lane = disk.lane_of(m, sp, place)
        pointer = lane.head
        while pointer > 0 and pointer != lane.consumed:
            own = disk.buffer_at(m, pointer)
            if own.spill != k.KEPT and own.is_gone == 0:
                disk.let_go_of(m, sp, pointer)
                most -= 1
            pointer = own.next
    if most > 0:
        _evict_chosen(m, sp, most, 0)


def _evict_chosen(m: KernelMemory, sp: s.SpillingPartition, most: int, kept: int) -> None:
    """Let go of so many buffers, those furthest from being sent; as :func:`_choose`."""
    _choose(m, sp, most, kept)
    for place in range(partition_row(m, sp.number).channels):
        _evict(m, sp, disk.lane_of(m, sp, place).chosen, kept)


def _choose(m: KernelMemory, sp: s.SpillingPartition, most: int, kept: int) -> None:
    """Choose the buffers furthest from being sent; ``chosen`` is the foremost of each lane.

    ``HsSpillingStrategyUtils.getBuffersByConsumptionPriorityInOrder``; of two that are equally
    far the one of the lower subpartition, where Flink's heap leaves it open.

    ``kept``: 1: of those not spilled yet; 0: of those spilled that are still in memory.
    """
    count = partition_row(m, sp.number).channels
    for place in range(count):
        lane = disk.lane_of(m, sp, place)
        sent = disk.out_of(m, sp, place).sent
        lane.chosen = 0
        lane.cursor = _candidate(m, lane.tail, sent, kept)
    for _ in range(most):
        best, furthest = -1, -1
        for place in range(count):
            pointer = disk.lane_of(m, sp, place).cursor
            if pointer > 0:
                sent = disk.out_of(m, sp, place).sent
                far = disk.buffer_at(m, pointer).index - sent
                if far > furthest:
                    best, furthest = place, far
        if best < 0:
            return
        lane = disk.lane_of(m, sp, best)
        sent = disk.out_of(m, sp, best).sent
        lane.chosen = lane.cursor
        before = disk.buffer_at(m, lane.cursor).previous
        lane.cursor = _candidate(m, before, sent, kept)


def _candidate(m: KernelMemory, pointer: int, sent: int, kept: int) -> int:
    """Last buffer up to ``pointer`` that can be chosen and has not been sent; 0: there is none."""
    while pointer > 0:
        own = disk.buffer_at(m, pointer)
        if own.index < sent:
            return 0
        if own.is_gone == 0 and (own.spill == k.KEPT) == (kept == 1):
            return pointer
        pointer = own.previous
    return 0
