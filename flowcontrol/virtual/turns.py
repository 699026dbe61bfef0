"""Who waits for a turn on a connection; without credits, what a sender hands over."""

from flowcontrol.protocol.rows import FIFO_SLOTS, fifo_push
from flowcontrol.protocol.sender_rules import credit_of
from flowcontrol.protocol.sides import Partition
from flowcontrol.protocol.subpartition_rules import is_available
from flowcontrol.systems.tcp_buffers import close_buffer, closed_buffers, poll_closed
from flowcontrol.virtual import fields as f
from flowcontrol.virtual.cells import row
from flowcontrol.virtual.header import KernelMemory
from flowcontrol.virtual.parts import TCP, WIRES
from flowcontrol.virtual.registry import part_of
from flowcontrol.virtual.views import out_row, partition_of, task_row


def is_sendable(m: KernelMemory, out: f.KernelSubpartition) -> int:
    """Tell whether a reader can be served: 1 if it has credit and data, or an event."""
    queue = partition_of(m, out.partition).queues[out.place]
    return is_available(out, queue, credit_of(out.announced, out.sent))


def may_be_served(m: KernelMemory, out: f.KernelSubpartition) -> int:
    """Tell whether a channel wants a turn: 1 if so; without credits, data is enough."""
    if m.is_tcp == 1:
        return has_closed(m, out)
    return is_sendable(m, out)


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
