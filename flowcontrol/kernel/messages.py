"""Messages on their way, and the turns in which senders and receivers are served."""

from typing import Any

from flowcontrol.kernel import views as v
from flowcontrol.kernel.views import out_row, partition_of, task_row, wake
from flowcontrol.memory import fields as f
from flowcontrol.memory.cells import part_of, row
from flowcontrol.memory.parts import BUFFERS, CHECKPOINTS, RECORDS, TCP, WIRES
from flowcontrol.memory.places import FLAG_PROTOCOL, KernelMemory
from flowcontrol.protocol.network.credit_rules import credit_of
from flowcontrol.protocol.network.partition_kinds import PIPELINED
from flowcontrol.protocol.network.rounds import receive, send_message
from flowcontrol.protocol.network.subpartition_rules import (
    announce_backlog,
    channel_backlog,
    head_is_event,
    is_available,
)
from flowcontrol.state.network import Message
from flowcontrol.state.queues import Queue, append, drop, is_event, next_slot
from flowcontrol.state.rows import FIFO_SLOTS, Gate, Partition, fifo_push
from flowcontrol.systems.tcp import close_buffer, closed_buffers, poll_closed
from flowcontrol.systems.transports.record_rounds import receive_records, send_records

# --- Who waits for a turn on a connection; without credits, what a sender hands over


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


# --- Messages from one task to another: sent, under way, received


def receive_all(m: KernelMemory, task: f.KernelTask) -> None:
    """Store the messages that have arrived, gate by gate, channel by channel."""
    for i in range(task.gates):
        number = task.first_gate + i
        g = v.gate_row(m, number)
        count, bits = g.channels, g.arrivals
        channel = v.next_bit(m, bits, count, -1)
        if channel < 0:
            continue
        gate = v.gate_of(m, number)
        while channel >= 0:
            into = v.in_row(m, g.first_channel + channel)
            queue = v.wire_queue(m, g.first_channel + channel)
            nbytes = 0
            while has_arrived(m, g.task, queue) == 1:
                message = drop(queue)
                if is_event(message) == 0:
                    nbytes += message.nbytes
                if m.counts_records == 1:
                    receive_counted(m, task, gate, i, channel, message)
                else:
                    receive_buffer(m, task, gate, i, channel, message)
            if m.has_checkpoints == 1:
                count_bytes(m, into, nbytes)
            if queue.ends.count == 0:
                v.clear_bit(m, bits, channel)
            channel = v.next_bit(m, bits, count, channel)


def has_arrived(m: KernelMemory, number: int, queue: Any) -> int:
    """Tell whether the oldest of what is under way to a task is there: 1; else it is woken then."""
    if queue.ends.count == 0:
        return 0
    at = queue.slots[queue.ends.head].round
    if at > m.now:
        wake(m, number, at)
        return 0
    return 1


@part_of(BUFFERS)
def receive_buffer(
    m: KernelMemory, task: f.KernelTask, gate: Gate, number: int, channel: int, message: Message
) -> None:
    """Store a message that has arrived at a channel of a gate."""
    if receive(task, gate, v.union_of(m, task), number, channel, message) == 0:
        m.flags |= FLAG_PROTOCOL


@part_of(CHECKPOINTS)
def count_bytes(m: KernelMemory, into: f.KernelInputChannel, nbytes: int) -> None:
    """Count the bytes that have arrived in a channel."""
    v.aligned_channel(m, into.aligned).arrived += nbytes


@part_of(RECORDS)
def receive_counted(
    m: KernelMemory, task: f.KernelTask, gate: Gate, number: int, channel: int, message: Message
) -> None:
    """Store records that have arrived at a channel of a gate."""
    withheld = 0
    if m.has_checkpoints == 1:
        into = v.in_row(m, v.gate_row(m, task.first_gate + number).first_channel + channel)
        withheld = is_withheld(m, into)
    receive_records(task, gate, v.union_of(m, task), number, channel, message, withheld)


@part_of(CHECKPOINTS)
def is_withheld(m: KernelMemory, into: f.KernelInputChannel) -> int:
    """Tell whether a task does not read a channel while it aligns barriers: 1 if so."""
    return v.aligned_channel(m, into.aligned).is_withheld


def send(m: KernelMemory, task: f.KernelTask) -> None:
    """Send what credit allows; hand a local consumer what its queue may hold."""
    for i in range(task.partitions):
        number = task.first_partition + i
        p = v.partition_row(m, number)
        count, bits = p.channels, p.dirty
        place = v.next_bit(m, bits, count, -1)
        if place < 0 or p.kind > PIPELINED:  # spilling.send_spilled sends those
            continue
        partition = v.partition_of(m, number)
        while place >= 0:
            v.clear_bit(m, bits, place)
            if m.counts_records == 1:
                task.has_sent |= _send_records(m, p, partition, place)
            else:
                task.has_sent |= _send_buffers(m, p, partition, place)
            place = v.next_bit(m, bits, count, place)


@part_of(RECORDS)
def _send_records(m: KernelMemory, p: f.KernelPartition, partition: Partition, place: int) -> int:
    """Send what a channel of records may: 1 if there was anything."""
    out = v.out_row(m, p.first_channel + place)
    queue, at = wire_of(m, out), m.now + (1 if out.is_local == 1 else m.latency)
    before = queue.ends.count
    message = next_slot(queue)
    transport = v.transport_of(m)
    while send_records(transport, partition, place, p.record_bytes, message) > 0:
        depart(m, queue, message, at)
        message = next_slot(queue)
    if queue.ends.count == before:
        return 0
    expect(m, out, at)
    return 1


@part_of(BUFFERS)
def _send_buffers(m: KernelMemory, p: f.KernelPartition, partition: Partition, place: int) -> int:
    """Send the buffers that a channel may: 1 if any is free again, also one that had nothing."""
    out = v.out_row(m, p.first_channel + place)
    local = out.is_local
    if out.initial == 0 and m.is_tcp == 0:
        event = head_is_event(out, partition.queues[place])
        send_backlog_announcement(m, out, channel_backlog(out), event)
    if out.connection >= 0:
        enqueue(m, p.first_channel + place)
        return 0
    queue, at = wire_of(m, out), m.now + (1 if local == 1 else m.latency)
    before, held = queue.ends.count, out.buffers
    message = next_slot(queue)
    while _poll_next(m, partition, place, local, message) > 0:
        depart(m, queue, message, at)
        message = next_slot(queue)
    if queue.ends.count == before:
        return 1 if out.buffers < held else 0
    expect(m, out, at)
    return 1


def _poll_next(
    m: KernelMemory, partition: Partition, place: int, is_local: int, message: f.KernelMessage
) -> int:
    """Take the next message that a subpartition may send; 0 if there is none."""
    if m.is_tcp == 1:
        return poll(m, partition, place, is_local, message)
    return send_message(partition, place, m.quota, is_local, message)


def send_backlog_announcement(
    m: KernelMemory, out: f.KernelSubpartition, backlog: int, event: int
) -> None:
    """Announce a backlog to a receiver without exclusive buffers, if there is need to."""
    if announce_backlog(out, backlog, event, next_message(m, out)) == 1:
        put(m, out, m.now + m.latency)


def wire_of(m: KernelMemory, out: f.KernelSubpartition) -> Queue[f.KernelMessage]:
    """Return the messages of a channel that are under way."""
    return v.wire_queue(m, out.input)


def next_message(m: KernelMemory, out: f.KernelSubpartition) -> f.KernelMessage:
    """Return the message that a channel's sender puts on its way next, to be filled."""
    return next_slot(wire_of(m, out))


def put(m: KernelMemory, out: f.KernelSubpartition, at: int) -> None:
    """Put the next message on its way; its receiver is looked at when it arrives."""
    queue = wire_of(m, out)
    depart(m, queue, next_slot(queue), at)
    expect(m, out, at)


def depart(
    m: KernelMemory, queue: Queue[f.KernelMessage], message: f.KernelMessage, at: int
) -> None:
    """Have the message in the next slot be under way, to arrive in a round."""
    message.round = at
    append(queue)
    m.transfers += 1 - is_event(message)


def expect(m: KernelMemory, out: f.KernelSubpartition, at: int) -> None:
    """Have a channel's receiver look at it in a round."""
    v.set_bit(m, v.gate_row(m, out.gate).arrivals, out.index)
    wake(m, out.receiver, at)
