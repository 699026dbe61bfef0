"""Channels that carry buffers, in the kernel's memory: what a job that counts records lacks."""

from __future__ import annotations

from flowcontrol.protocol.rounds import free_local, receive, write_whole_records
from flowcontrol.protocol.rows import Row
from flowcontrol.protocol.sides import Gate, Partition
from flowcontrol.virtual import fields as f
from flowcontrol.virtual.header import FLAG_PROTOCOL, KernelMemory
from flowcontrol.virtual.parts import BUFFERS
from flowcontrol.virtual.registry import part_of


@part_of(BUFFERS)
def receive_buffer(
    m: KernelMemory,
    task: f.KernelTask,
    gate: Gate,
    union: Row,
    number: int,
    channel: int,
    message: f.KernelMessage,
) -> None:
    """Store a message that has arrived at a channel of a gate."""
    if receive(task, gate, union, number, channel, message) == 0:
        m.flags |= FLAG_PROTOCOL


@part_of(BUFFERS)
def free_lent(m: KernelMemory, partition: Partition, place: int, consumed: int) -> None:
    """Free the buffers that a local consumer has let go of."""
    free_local(partition, place, consumed, m.quota)


@part_of(BUFFERS)
def write_together(m: KernelMemory, partition: Partition, nbytes: int, most: int) -> int:
    """Write records of so many bytes to the one open buffer without filling it; return how many."""
    return write_whole_records(partition, 0, nbytes, most)
