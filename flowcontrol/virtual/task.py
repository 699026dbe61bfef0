"""A subtask of the kernel, as the loop of :mod:`flowcontrol.operators.task` sees it."""

from typing import Any

from flowcontrol.job import work
from flowcontrol.job.routing import mix
from flowcontrol.operators.source_log import written_by, written_round
from flowcontrol.operators.states import TASK_INPUT, Operator
from flowcontrol.protocol.partition_kinds import SORTED
from flowcontrol.protocol.partitioners import count_share, next_by_share
from flowcontrol.protocol.rounds import (
    next_input,
    write_broadcast,
    write_bytes,
    write_whole_records,
)
from flowcontrol.protocol.service import LOGNORMAL, service_work
from flowcontrol.protocol.sides import Partition
from flowcontrol.systems.transports.record_rounds import write_records
from flowcontrol.virtual import fields as f
from flowcontrol.virtual import views as v
from flowcontrol.virtual.ages import (
    first_run,
    log_put_out,
    push_run,
    run_length,
    take_ages,
    take_run,
)
from flowcontrol.virtual.cells import row, rows
from flowcontrol.virtual.checkpoint_worker import keep_cut
from flowcontrol.virtual.cut_logs import log_channels, record_element
from flowcontrol.virtual.header import KernelMemory
from flowcontrol.virtual.journal import ROUTED, TAKEN, note_move
from flowcontrol.virtual.parts import BUFFERS, RECORDS
from flowcontrol.virtual.putting_aside import next_of_old
from flowcontrol.virtual.registry import part_of
from flowcontrol.virtual.spilled import quota_of
from flowcontrol.virtual.spilling import is_stopped, stop
from flowcontrol.virtual.windowed_worker import WindowedKernelWorker, channel_of_stamp, log_windows


class KernelWorker(WindowedKernelWorker):
    """A subtask in the kernel's memory: a ``Worker`` of :mod:`flowcontrol.operators.worker`.

    Attributes
    ----------
    m : KernelMemory
        The memory.
    number : int
        Which task it is.
    task : KernelTask
        Its row.
    """

    def __init__(self, m: KernelMemory, number: int, task: f.KernelTask) -> None:
        self.m, self.number, self.task = m, number, task

    def operator(self, number: int) -> Operator:
        """Return an operator of the chain."""
        return v.operator_at(self.m, self.m[self.task.operators_at + number])

    def writer(self, number: int) -> f.KernelPartition:
        """Return a result partition."""
        return v.partition_row(self.m, self.task.first_partition + number)

    def pending(self, writer: f.KernelPartition) -> Any:
        """Return the queue of the channels of records that are routed and not written."""
        return row(self.m, writer.pending, writer.pending_width)

    def is_available(self, writer: f.KernelPartition) -> int:
        """Tell whether another record may be begun as far as a partition goes: 1 if so."""
        # Without credits nobody asks: a task waits inside a record, if it needs a buffer.
        waits = self.m.is_tcp == 0 or (writer.left_bytes > 0 and writer.pool.free == 0)
        return 0 if is_stopped(writer) == 1 and waits else 1

    def write(self, writer: f.KernelPartition, channel: int, nbytes: int) -> int:
        """Write bytes of a record; return those left over."""
        m = self.m
        partition = v.partition_at(m, writer)
        v.set_bit(m, writer.dirty, channel)
        if writer.is_broadcast == 1:
            for other in range(writer.channels):
                v.set_bit(m, writer.dirty, other)
        if m.counts_records == 1:
            return nbytes * (1 - write_counted(m, partition, channel, nbytes, 1))
        return write_buffers(m, writer, partition, channel, nbytes, 0)

    def write_mark(self, writer: f.KernelPartition, channel: int, nbytes: int) -> int:
        """Write bytes of a watermark or a status; return those left over."""
        m = self.m
        v.set_bit(m, writer.dirty, channel)
        if writer.is_broadcast == 1:
            for other in range(writer.channels):
                v.set_bit(m, writer.dirty, other)
        return write_buffers(m, writer, v.partition_at(m, writer), channel, nbytes, 1)

    def write_whole(self, writer: f.KernelPartition, most: int) -> int:
        """Write all that fit into the one open buffer without filling it; return how many."""
        m = self.m
        partition = v.partition_at(m, writer)
        if m.counts_records == 1:
            count = write_counted(m, partition, 0, writer.record_bytes, most)
        else:
            count = write_together(m, partition, writer.record_bytes, most)
        if count > 0:
            v.set_bit(m, writer.dirty, 0)
        return count

    def next_channel(self, writer: f.KernelPartition) -> int:
        """Return the channel of the next record."""
        if self.task.is_timed == 1 and writer.route == f.ROUTE_KEY:
            return channel_of_stamp(self.m, writer, self.task.stamp)
        return next_channel(self.m, writer)

    def note_routed(self, writer: f.KernelPartition, channel: int, count: int) -> None:
        """Count records as routed, and have their ages follow them."""
        m = self.m
        note_move(m, self.number, ROUTED, writer.first_channel + channel, self.task.taken, count)
        last = writer.channels - 1 if writer.is_broadcast == 1 else channel
        for each in range(channel, last + 1):
            m[writer.routed + each] += count
            out = v.out_row(m, writer.first_channel + each)
            push_run(m, out.runs, self.task.emitted, count, self.task.stamp)
            if v.in_row(m, out.input).recorded > 0:
                stamp = self.task.stamp
                record_element(m, self.task, writer.first_channel + each, count, stamp, 0)

    def draw(self) -> int:
        """Return the work of the next record, units."""
        m, task = self.m, self.task
        number = task.draws
        task.draws = number + 1
        first = uniform(m.seed, task.stream, 2 * number)
        second = 0.0
        if task.distribution == LOGNORMAL:
            second = uniform(m.seed, task.stream, 2 * number + 1)
        return service_work(task.distribution, task.cv / 1000000.0, first, second, task.unit)

    def draw_bits(self, stream: int, number: int) -> int:
        """Return 63 well-mixed bits, the ``number``-th of a stream of random numbers."""
        return mix_bits(self.m.seed, stream, number)

    def next_input(self, gates: Any, union: Any) -> int:
        """Make sure that the task has a record in hand, if there is one."""
        if self.m.is_tcp == 1:
            return next_of_old(self.m, self, gates, union)
        return next_input(self.task, gates, union)

    def snapshot(self, checkpoint: int) -> None:
        """Take the state: what an attempt begins from after a failure."""
        keep_cut(self.m, self.held(), checkpoint)
        if self.m.may_fail == 1 and self.task.is_timed == 1:
            log_channels(self.m, self.task, checkpoint)
            log_windows(self.m, self, checkpoint)

    def note_taken(self, count: int) -> None:
        """Note the ages of the records taken up; those of a sink are logged.

        Several are taken up at once only where no operator follows.
        """
        m, task = self.m, self.task
        note_move(m, self.number, TAKEN, task.gate, task.channel, count)
        g = v.gate_row(m, task.first_gate + task.gate)
        if m.debloat_us > 0:
            g.bytes_taken += count * g.record_bytes
        out = v.out_row(m, v.in_row(m, g.first_channel + task.channel).out)
        if task.has_window == 1:
            task.stamp = first_run(m, out.runs).stamp
        if task.partitions == 0 and task.sinks == 0:
            take_ages(m, out, self.number, m.now, count)
            m.arrived += count
            return
        if task.is_timed == 1 and task.partitions > 0:
            task.stamp = first_run(m, out.runs).stamp
        while count > 0:
            part = min(count, run_length(m, out.runs))
            task.emitted = take_run(m, out.runs, part)
            self.note_emitted(part)
            count -= part

    def note_emitted(self, count: int) -> None:
        """Log the ages of records that reach a sink in this very task."""
        if self.task.sinks > 0:
            self.m.arrived += count
            log_put_out(self.m, self.task, TASK_INPUT, count)

    def note_put_out(self, operator: int, count: int) -> None:
        """Log the ages of records that an operator puts out to sinks in this very task."""
        if self.task.sinks > 0 and count > 0:
            log_put_out(self.m, self.task, operator, count)

    def of_one_time(self, most: int) -> int:
        """Say when the records were emitted that are read next; return how many there are of it."""
        m, task = self.m, self.task
        task.emitted = m.now
        log = v.source_log(m, task.log)
        if m.is_tracked == 0 or log.from_arrival == 0:
            return most
        arrivals = rows(m, log.arrivals, log.arrival_count, 3)
        task.emitted = written_round(arrivals, log.unit, log.position, m.round_us)
        end_us = (task.emitted + 1) * m.round_us
        return min(most, written_by(arrivals, log.unit, end_us) - log.position)


def worker_of(m: KernelMemory, number: int, task: f.KernelTask) -> KernelWorker:
    """Return a task as a worker."""
    return KernelWorker(m, number, task)


@part_of(BUFFERS)
def write_buffers(
    m: KernelMemory,
    writer: f.KernelPartition,
    partition: Partition,
    channel: int,
    nbytes: int,
    is_mark: int,
) -> int:
    """Write bytes of a record, or of a mark, into buffers; return those left over."""
    if writer.is_broadcast == 1:
        return write_broadcast(partition, nbytes, m.quota, m.segment_bytes, is_mark)
    if writer.is_stopped == 1:
        return nbytes
    left = write_bytes(partition, channel, nbytes, quota_of(m, writer), m.segment_bytes, is_mark)
    if left > 0 and writer.kind == SORTED:
        stop(m, writer)
    return left


@part_of(BUFFERS)
def write_together(m: KernelMemory, partition: Partition, nbytes: int, most: int) -> int:
    """Write records of so many bytes to the one open buffer without filling it; return how many."""
    return write_whole_records(partition, 0, nbytes, most)


@part_of(RECORDS)
def write_counted(
    m: KernelMemory, partition: Partition, channel: int, nbytes: int, most: int
) -> int:
    """Write records of so many bytes to a subpartition; return how many there was room for."""
    return write_records(v.transport_of(m), partition, channel, nbytes, most)


def next_channel(m: KernelMemory, p: f.KernelPartition) -> int:
    """Return the channel of the next record of a partition.

    Notes
    -----
    Rebalance and rescale are cycles; shares are tables of a whole period where that is short,
    else they are worked out record by record.
    """
    kind = p.route
    channel = 0
    if kind == f.ROUTE_CYCLE:
        channel = p.cursor
        p.cursor = channel + 1 if channel + 1 < p.channels else 0
    elif kind == f.ROUTE_TABLE:
        place = p.cursor
        channel = m[p.table + place]
        p.cursor = place + 1 if place + 1 < p.table_length else 0
    elif kind == f.ROUTE_SHUFFLE:
        channel = mix_modulo(m.seed, p.stream, p.emitted, p.channels)
    elif kind == f.ROUTE_SHARES:
        width = p.channels
        shares, behind = row(m, p.table, width), row(m, p.table + width, width)
        channel = next_by_share(behind, shares)
        count_share(behind, shares, p.table_length, channel)
    return channel


def mix_modulo(seed: int, stream: int, number: int, width: int) -> int:
    """Return a well-mixed number from 0 to ``width`` - 1."""
    return mix(int(seed), int(stream), int(number)) % int(width)


def mix_bits(seed: int, stream: int, number: int) -> int:
    """Return 63 well-mixed bits."""
    return mix(int(seed), int(stream), int(number)) >> 1


def uniform(seed: int, stream: int, number: int) -> float:
    """Return a number uniform in [0, 1)."""
    return work.uniform(int(seed), int(stream), int(number))
