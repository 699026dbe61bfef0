"""Who waits for a turn on a connection."""

from __future__ import annotations

from flowcontrol.protocol.rows import FIFO_SLOTS, fifo_push
from flowcontrol.protocol.sender_rules import credit_of
from flowcontrol.protocol.subpartition_rules import is_available
from flowcontrol.virtual import fields as f
from flowcontrol.virtual.closed import has_closed
from flowcontrol.virtual.header import KernelMemory
from flowcontrol.virtual.parts import WIRES
from flowcontrol.virtual.pointers import row
from flowcontrol.virtual.registry import kernel, part_of
from flowcontrol.virtual.views import out_row, partition_of, task_row


@kernel
def is_sendable(m: KernelMemory, out: f.KernelSubpartition) -> int:
    """Tell whether a reader can be served: 1 if it has credit and data, or an event."""
    queue = partition_of(m, out.partition).queues[out.place]
    return is_available(out, queue, credit_of(out.announced, out.sent))


@kernel
def may_be_served(m: KernelMemory, out: f.KernelSubpartition) -> int:
    """Tell whether a channel wants a turn: 1 if so; without credits, data is enough."""
    if m.is_tcp == 1:
        return has_closed(m, out)
    return is_sendable(m, out)


@kernel
def serve_now(m: KernelMemory, number: int) -> None:
    """Have a connection served in this round, after the tasks."""
    connection = task_row(m, number)
    if connection.has_sent == 0:
        connection.has_sent = 1
        m[m.active + m.tasks + m.served] = number
        m.served += 1


@part_of(WIRES)
def enqueue(m: KernelMemory, channel: int) -> None:
    """Put a channel that can be served into its connection's queue, once."""
    out = out_row(m, channel)
    if out.is_queued == 1 or may_be_served(m, out) == 0:
        return
    out.is_queued = 1
    connection = task_row(m, out.connection)
    queue = row(m, connection.union, FIFO_SLOTS + connection.gates)
    fifo_push(queue, channel)
    serve_now(m, out.connection)
