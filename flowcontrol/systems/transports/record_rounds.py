"""A round of a transport that counts records: the effects of a write, a send and an arrival.

The counterpart of :mod:`flowcontrol.protocol.network.rounds`, whose rows it shares; a message holds
all records that a channel sent in a round, up to an event and from it on, and a cursor counts
records. A receiver's queue of messages is merged at its end when it is full, for only the number of
records matters there. Nothing is merged across an event.
"""

from flowcontrol.protocol.checkpoints.barriers import is_barrier
from flowcontrol.protocol.network.rounds import enqueue_message
from flowcontrol.state.network import Message, Subpartition, Task
from flowcontrol.state.queues import Queue, append, carry, drop, is_event, message_at, next_slot
from flowcontrol.state.rows import KIND_RECORDS, TAKEN_NONE, Gate, Partition, Row
from flowcontrol.systems.transports.rules import (
    barrier_permits,
    flush,
    make_room,
    may_send,
    pull,
    room,
    written,
)
from flowcontrol.systems.transports.transport import RecordTransport, fill_message

QUEUE_MESSAGES = 16
"""Messages of one channel that a receiver keeps apart; later ones join the last."""


def sent_slots(events: int) -> int:
    """Return the messages that wait at a sender with so many events: records before each."""
    return 2 * events


def received_slots(events: int) -> int:
    """Return the messages that wait at a receiver with so many events: records behind each."""
    return QUEUE_MESSAGES + 2 * events


def write_records(
    transport: RecordTransport, partition: Partition, channel: int, record_bytes: int, most: int
) -> int:
    """Write up to ``most`` records to a channel, or to all if it broadcasts; return how many."""
    first, last = channel, channel + 1
    if partition.is_broadcast == 1:
        first, last = 0, len(partition.channels)
    count = most
    for other in range(first, last):
        count = min(count, room(transport, partition.channels[other], record_bytes))
    is_made = 0
    if count == 0:
        is_made = count = make_room(transport, partition, first, last, record_bytes)
    for other in range(first, last):
        add_records(partition.channels[other], count)
    if is_made == 1:
        written(transport, partition, first, last, record_bytes)
    return count


def add_records(own: Subpartition, count: int) -> None:
    """Write records to a channel that has room for them."""
    own.buffers += count
    own.written += count


def close_records(transport: RecordTransport, partition: Partition, record_bytes: int) -> None:
    """Queue the records written since the last event in every channel: an event comes behind."""
    for channel in range(len(partition.channels)):
        flush(transport, partition, channel, record_bytes)
        row, queue = partition.channels[channel], partition.queues[channel]
        records = row.buffers - row.closed
        if records > 0:
            message = next_slot(queue)
            fill_message(message, records, record_bytes)
            append(queue)
            row.closed += records


def note_barriers(transport: RecordTransport, partition: Partition) -> None:
    """Have the task wait while a barrier in one of its channels has no permit (``pool.free``)."""
    partition.pool.free = 1
    for channel in range(len(partition.channels)):
        row = partition.channels[channel]
        if row.events > 0 and _barriers(partition.queues[channel]) > barrier_permits(
            transport, row
        ):
            partition.pool.free = 0


def send_records(
    transport: RecordTransport,
    partition: Partition,
    channel: int,
    record_bytes: int,
    message: Message,
) -> int:
    """Take a channel's next message: the records up to an event, an event, or all records written.

    1, or 0 if there is none, a switch has stopped it, or it is a barrier without a permit.
    """
    row, queue = partition.channels[channel], partition.queues[channel]
    pulled = pull(transport, partition, channel, record_bytes)
    if pulled > 0:
        fill_message(message, pulled, record_bytes)
        return _sent(row, message, pulled)
    if queue.ends.count > 0 and is_event(message_at(queue, 0)) == 1:
        if is_barrier(message_at(queue, 0).kind) == 1:
            if barrier_permits(transport, row) <= 0:
                return 0
            row.blocks += 1
        carry(message, drop(queue))
        row.events -= 1
        return 1
    if row.buffers == 0 or may_send(transport, row) == 0:
        return 0
    if queue.ends.count > 0:
        carry(message, drop(queue))
        return _sent(row, message, message.records)
    fill_message(message, row.buffers, record_bytes)
    return _sent(row, message, 0)


def _sent(row: Subpartition, message: Message, closed: int) -> int:
    """Count a message of records as sent; ``closed`` of these stood in one already."""
    row.sent += message.records
    row.buffers -= message.records
    row.closed -= closed
    return 1


def receive_records(
    task: Task,
    gate: Gate,
    union: Row,
    number: int,
    channel: int,
    message: Message,
    is_withheld: int = 0,
) -> None:
    """Put an arriving message into a channel's queue, and the gate into the task's.

    - ``gate``: the gate, ``number`` of its task.
    - ``union``: gates with data, in the order in which they are polled.
    - ``message``: what arrives; it is copied.
    - ``is_withheld``: 1: the task does not read the channel.
    """
    queue = gate.queues[channel]
    buffer = TAKEN_NONE
    if is_event(message) == 0:
        buffer = KIND_RECORDS
        task.queued += message.records
        gate.channels[channel].arrived += message.records
        if is_withheld == 1:
            task.withheld += message.records
        if queue.ends.count >= QUEUE_MESSAGES:
            newest = message_at(queue, queue.ends.count - 1)
            if is_event(newest) == 0:
                newest.records += message.records
                newest.nbytes += message.nbytes
                return
    if is_withheld == 0:
        enqueue_message(gate, union, number, channel, message, buffer)
        return
    slot = next_slot(queue)
    carry(slot, message)
    slot.buffer = buffer
    append(queue)


def _barriers(queue: Queue[Message]) -> int:
    """Return the barriers in a sender's queue."""
    total = 0
    for place in range(queue.ends.count):
        total += is_barrier(message_at(queue, place).kind)
    return total
