"""A round of a transport that counts records: the effects of a write, a send and an arrival.

The counterpart of :mod:`flowcontrol.protocol.network.rounds`, whose rows it shares; a message holds
all records that a channel sent in a round, up to an event and from it on, and a cursor counts
records. A receiver's queue of messages is merged at its end when it is full, for only the number of
records matters there. Nothing is merged across an event.
"""

from flowcontrol.protocol.checkpoints.barriers import is_barrier
from flowcontrol.protocol.network.rounds import enqueue_message
from flowcontrol.state.network import Message, Subpartition, Task
from flowcontrol.state.queues import (
    DATA,
    Queue,
    append,
    carry,
    drop,
    forget_checkpoint,
    is_event,
    message_at,
    next_slot,
)
from flowcontrol.state.rows import KIND_RECORDS, TAKEN_NONE, Gate, Partition, Row
from flowcontrol.systems.transports.rules import barrier_permits, may_send, room
from flowcontrol.systems.transports.transport import RecordTransport

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
    for other in range(first, last):
        add_records(partition.channels[other], count)
    return count


def add_records(own: Subpartition, count: int) -> None:
    """Write records to a channel that has room for them."""
    own.buffers += count
    own.written += count


def close_records(partition: Partition, record_bytes: int) -> None:
    """Queue the records written since the last event in every channel: an event comes behind."""
    for channel in range(len(partition.channels)):
        queue = partition.queues[channel]
        records = partition.channels[channel].buffers - _queued(queue)
        if records > 0:
            message = next_slot(queue)
            _fill(message, records, record_bytes)
            append(queue)


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
    else:
        _fill(message, row.buffers, record_bytes)
    row.sent += message.records
    row.buffers -= message.records
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


def _fill(message: Message, records: int, record_bytes: int) -> None:
    message.kind = DATA
    message.records = records
    message.nbytes = records * record_bytes
    message.backlog = 0
    forget_checkpoint(message)


def _queued(queue: Queue[Message]) -> int:
    """Return the records in a sender's queue."""
    total = 0
    for place in range(queue.ends.count):
        total += message_at(queue, place).records
    return total


def _barriers(queue: Queue[Message]) -> int:
    """Return the barriers in a sender's queue."""
    total = 0
    for place in range(queue.ends.count):
        total += is_barrier(message_at(queue, place).kind)
    return total
