"""Records that travel without buffers, in the kernel's memory."""

from __future__ import annotations

from flowcontrol.protocol.rows import Row
from flowcontrol.protocol.sides import Gate, Partition
from flowcontrol.systems.transports.record_rounds import (
    receive_records,
    send_records,
    write_records,
)
from flowcontrol.virtual import fields as f
from flowcontrol.virtual.header import KernelMemory
from flowcontrol.virtual.parts import RECORDS
from flowcontrol.virtual.registry import part_of
from flowcontrol.virtual.views import transport_of


@part_of(RECORDS)
def receive_counted(
    m: KernelMemory,
    task: f.KernelTask,
    gate: Gate,
    union: Row,
    number: int,
    channel: int,
    message: f.KernelMessage,
) -> None:
    """Store records that have arrived at a channel of a gate."""
    receive_records(task, gate, union, number, channel, message)


@part_of(RECORDS)
def send_counted(
    m: KernelMemory,
    partition: Partition,
    place: int,
    record_bytes: int,
    message: f.KernelMessage,
) -> int:
    """Take the next message that a subpartition may send: 1, or 0 if there is none."""
    return send_records(transport_of(m), partition, place, record_bytes, message)


@part_of(RECORDS)
def write_counted(
    m: KernelMemory, partition: Partition, channel: int, nbytes: int, most: int
) -> int:
    """Write records of so many bytes to a subpartition; return how many there was room for."""
    return write_records(transport_of(m), partition, channel, nbytes, most)
