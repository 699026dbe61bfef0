"""How a task's records find their channels, and how bytes are written to them."""

from flowcontrol.kernel import views as v
from flowcontrol.kernel.disk import quota_of
from flowcontrol.kernel.spilling import stop
from flowcontrol.kernel.views import kernel_keys
from flowcontrol.layout import work
from flowcontrol.layout.shares import mix
from flowcontrol.memory import fields as f
from flowcontrol.memory.cells import part_of, row
from flowcontrol.memory.parts import BUFFERS, RECORDS, WINDOWS
from flowcontrol.memory.places import KernelMemory
from flowcontrol.protocol.event_time import id_of
from flowcontrol.protocol.network.partition_kinds import SORTED
from flowcontrol.protocol.network.partitioners import count_share
from flowcontrol.protocol.network.rounds import (
    append_whole_records,
    whole_records,
    write_broadcast,
    write_bytes,
)
from flowcontrol.protocol.windows.contents import key_of
from flowcontrol.state.rows import Partition
from flowcontrol.systems.transports.record_rounds import (
    add_records,
    close_records,
    note_barriers,
    write_records,
)
from flowcontrol.systems.transports.rules import flush, room


def write_to(
    m: KernelMemory, writer: f.KernelPartition, channel: int, nbytes: int, is_mark: int
) -> int:
    """Write bytes of a record, or of a mark, to a channel, or to all; return those left over."""
    v.set_bit(m, writer.dirty, channel)
    if writer.is_broadcast == 1:
        for other in range(writer.channels):
            v.set_bit(m, writer.dirty, other)
    if m.counts_records == 1:
        return nbytes * (1 - write_counted(m, v.partition_at(m, writer), channel, nbytes, 1))
    return write_buffers(m, writer, channel, nbytes, is_mark)


def last_written(writer: f.KernelPartition, channel: int) -> int:
    """Return the last of the channels, from one on, into which what is routed to that one goes."""
    return writer.channels - 1 if writer.is_broadcast == 1 else channel


@part_of(BUFFERS)
def write_buffers(
    m: KernelMemory, writer: f.KernelPartition, channel: int, nbytes: int, is_mark: int
) -> int:
    """Write bytes of a record, or of a mark, into buffers; return those left over."""
    partition = v.partition_at(m, writer)
    if writer.is_broadcast == 1:
        return write_broadcast(partition, nbytes, m.quota, m.segment_bytes, is_mark)
    if writer.is_stopped == 1:
        return nbytes
    left = write_bytes(partition, channel, nbytes, quota_of(m, writer), m.segment_bytes, is_mark)
    if left > 0 and writer.kind == SORTED:
        stop(m, writer)
    return left


@part_of(BUFFERS)
def room_together(m: KernelMemory, out: f.KernelSubpartition, nbytes: int, most: int) -> int:
    """Return how many records fit into the open buffer of a channel without filling it."""
    return whole_records(out, nbytes, most)


@part_of(BUFFERS)
def add_together(m: KernelMemory, out: f.KernelSubpartition, nbytes: int, count: int) -> None:
    """Write records that do."""
    append_whole_records(out, nbytes, count)


@part_of(RECORDS)
def room_counted(m: KernelMemory, out: f.KernelSubpartition, nbytes: int, most: int) -> int:
    """Return how many records a channel has room for."""
    return min(most, room(v.transport_of(m), out, nbytes))


@part_of(RECORDS)
def add_counted(m: KernelMemory, out: f.KernelSubpartition, count: int) -> None:
    """Write records for which there is room."""
    add_records(out, count)


@part_of(RECORDS)
def write_counted(
    m: KernelMemory, partition: Partition, channel: int, nbytes: int, most: int
) -> int:
    """Write records of so many bytes to a subpartition; return how many there was room for."""
    return write_records(v.transport_of(m), partition, channel, nbytes, most)


def peek_channel(m: KernelMemory, p: f.KernelPartition, stamp: int) -> int:
    """Return the channel of the next record of a partition, which has a stamp; changes nothing.

    Rebalance and rescale are cycles; shares are tables of a whole period where that is short,
    else they are worked out record by record.
    """
    kind = p.route
    channel = 0
    if kind == f.ROUTE_CYCLE or kind == f.ROUTE_SHARES:
        channel = p.cursor
    elif kind == f.ROUTE_TABLE:
        channel = m[p.table + p.cursor]
    elif kind == f.ROUTE_SHUFFLE:
        channel = mix_modulo(m.seed, p.stream, p.emitted, p.channels)
    elif kind == f.ROUTE_KEY:
        channel = channel_of_stamp(m, p, stamp)
    return channel


def count_routed(m: KernelMemory, p: f.KernelPartition, channel: int) -> None:
    """Count a record as routed to its channel: it is the next one's turn."""
    kind = p.route
    if kind == f.ROUTE_CYCLE:
        p.cursor = channel + 1 if channel + 1 < p.channels else 0
    elif kind == f.ROUTE_TABLE:
        p.cursor = p.cursor + 1 if p.cursor + 1 < p.table_length else 0
    elif kind == f.ROUTE_SHARES:
        width = p.channels
        shares, behind = row(m, p.table, width), row(m, p.table + width, width)
        p.cursor = count_share(behind, shares, p.table_length, channel)


def mix_modulo(seed: int, stream: int, number: int, width: int) -> int:
    """Return a well-mixed number from 0 to ``width`` - 1."""
    return mix(int(seed), int(stream), int(number)) % int(width)


def mix_bits(seed: int, stream: int, number: int) -> int:
    """Return 63 well-mixed bits."""
    return mix(int(seed), int(stream), int(number)) >> 1


def uniform(seed: int, stream: int, number: int) -> float:
    """Return a number uniform in [0, 1)."""
    return work.uniform(int(seed), int(stream), int(number))


@part_of(WINDOWS)
def channel_of_stamp(m: KernelMemory, writer: f.KernelPartition, stamp: int) -> int:
    """Return the channel of a record that is routed by its key."""
    keys = kernel_keys(m, writer.keys)
    firsts, guide = row(m, keys.firsts, keys.first_count), row(m, keys.guide, keys.guide_count)
    return m[keys.owners + key_of(id_of(stamp), keys.keys, firsts, guide)]


def event_partition(m: KernelMemory, number: int) -> Partition:
    """Return a result partition, which has to be sent, to put an event into it."""
    p = v.partition_row(m, number)
    for place in range(p.channels):
        v.set_bit(m, p.dirty, place)
    partition = v.partition_at(m, p)
    if m.counts_records == 1:
        close_counted(m, partition, p.record_bytes)
    return partition


@part_of(RECORDS)
def flush_counted(m: KernelMemory, partition: Partition, channel: int, record_bytes: int) -> None:
    """Have the records of a subpartition be sent: its flusher has run."""
    flush(v.transport_of(m), partition, channel, record_bytes)


@part_of(RECORDS)
def close_counted(m: KernelMemory, partition: Partition, record_bytes: int) -> None:
    """Queue the records that are written so far: an event comes behind them."""
    close_records(v.transport_of(m), partition, record_bytes)


@part_of(RECORDS)
def note_barriers_of(m: KernelMemory, partition: Partition) -> None:
    """Have a task wait while a barrier in a result partition has no permit."""
    note_barriers(v.transport_of(m), partition)
