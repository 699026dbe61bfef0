"""A sender's queue without credits: what it hands over is a buffer that was closed."""

from __future__ import annotations

from flowcontrol.protocol.sides import Partition
from flowcontrol.systems.tcp_buffers import close_buffer, closed_buffers, poll_closed
from flowcontrol.virtual import fields as f
from flowcontrol.virtual.header import KernelMemory
from flowcontrol.virtual.parts import TCP
from flowcontrol.virtual.registry import part_of


@part_of(TCP)
def close(m: KernelMemory, partition: Partition, place: int) -> None:
    """Close a subpartition's open buffer: its flusher has run."""
    close_buffer(partition, place)


@part_of(TCP)
def poll(
    m: KernelMemory, partition: Partition, place: int, is_local: int, message: f.KernelMessage
) -> int:
    """Take the next closed buffer: 1, or 0 if there is none."""
    return poll_closed(partition, place, m.quota, is_local, message)


@part_of(TCP)
def has_closed(m: KernelMemory, out: f.KernelSubpartition) -> int:
    """Tell whether a subpartition has a closed buffer: 1 if so."""
    return 1 if closed_buffers(out) > 0 else 0
