"""A round of a transport that counts records: what a write, a send and an arrival do to rows.

The counterpart of :mod:`flowcontrol.protocol.rounds`, whose rows it shares; a message holds all
records that a channel sent in a round, and a cursor counts records. A receiver's queue of messages
is merged at its end when it is full, for only the number of records matters there.
"""

from flowcontrol.protocol.queues import DATA, EVENT_SLOTS, is_event
from flowcontrol.protocol.rounds import enqueue_message
from flowcontrol.protocol.rows import TAKEN_NONE, Row
from flowcontrol.protocol.sides import KIND_RECORDS, Gate, Partition
from flowcontrol.protocol.states import Message, Task
from flowcontrol.protocol.subpartition_rules import poll_queue
from flowcontrol.systems.transports.rules import may_send, room
from flowcontrol.systems.transports.transport import RecordTransport

QUEUE_MESSAGES = 16
"""Messages of one channel that a receiver keeps apart; later ones join the last."""


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
        partition.channels[other].buffers += count
        partition.channels[other].written += count
    return count


def send_records(
    transport: RecordTransport,
    partition: Partition,
    channel: int,
    record_bytes: int,
    message: Message,
) -> int:
    """Take a channel's next message: all records written, unless a switch has stopped it.

    Returns
    -------
    int
        1, or 0 if there is none. An event behind the records is a message of its own.
    """
    row = partition.channels[channel]
    if row.buffers == 0:
        return 1 if poll_queue(row, partition.queues[channel], message) > 0 else 0
    if may_send(transport, row) == 0:
        return 0
    message.kind = DATA
    message.records = row.buffers
    message.nbytes = row.buffers * record_bytes
    message.backlog = 0
    row.sent += row.buffers
    row.buffers = 0
    return 1


def receive_records(
    task: Task, gate: Gate, union: Row, number: int, channel: int, message: Message
) -> None:
    """Put an arriving message into a channel's queue, and the gate into the task's."""
    queue = gate.queues[channel]
    if is_event(message) == 1:
        enqueue_message(gate, union, number, channel, message, TAKEN_NONE)
        return
    task.queued += message.records
    gate.channels[channel].arrived += message.records
    if queue.ends.count < len(queue.slots) - EVENT_SLOTS:
        enqueue_message(gate, union, number, channel, message, KIND_RECORDS)
        return
    newest = queue.slots[(queue.ends.head + queue.ends.count - 1) % len(queue.slots)]
    newest.records += message.records
    newest.nbytes += message.nbytes
