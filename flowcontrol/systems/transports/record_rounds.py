"""A round of a transport that counts records: what a write, a send and an arrival do to rows.

The counterpart of :mod:`flowcontrol.protocol.rounds`, whose rows it shares; a message holds all
records that a channel sent in a round, and a cursor counts records. A receiver's queue of messages
is merged at its end when it is full, for only the number of records matters there.
"""

from __future__ import annotations

from flowcontrol.protocol.queues import is_full
from flowcontrol.protocol.rounds import (
    KIND_RECORDS,
    Gate,
    Partition,
    enqueue_message,
)
from flowcontrol.protocol.rows import Row
from flowcontrol.protocol.states import Message, Task
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


def send_records(transport: RecordTransport, partition: Partition, channel: int) -> int:
    """Send all that was written, if it may be sent; return how many records."""
    row = partition.channels[channel]
    if may_send(transport, row) == 0:
        return 0
    count = row.buffers
    row.sent += count
    row.buffers = 0
    return count


def receive_records(
    task: Task, gate: Gate, union: Row, number: int, channel: int, message: Message
) -> None:
    """Put arriving records into a channel's queue, and the gate into the task's."""
    task.queued += message.records
    gate.channels[channel].arrived += message.records
    queue = gate.queues[channel]
    if is_full(queue) == 0:
        enqueue_message(gate, union, number, channel, message, KIND_RECORDS)
        return
    newest = queue.slots[(queue.ends.head + queue.ends.count - 1) % len(queue.slots)]
    newest.records += message.records
    newest.nbytes += message.nbytes
