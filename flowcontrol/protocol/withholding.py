"""Channels that a task leaves unread while it aligns barriers, where their senders go on.

Flink's sender stops behind a barrier that blocks. Elsewhere it knows nothing of that: what it sends
waits in the channel's queue at the receiver and keeps its slots or permits.
"""

from collections.abc import Sequence

from flowcontrol.protocol.queues import Queue, is_event, message_at
from flowcontrol.protocol.rows import FIFO_COUNT, Row, fifo_push, fifo_remove
from flowcontrol.protocol.sides import Gate
from flowcontrol.protocol.states import AlignedChannel, ReceivedMessage, Task


def follow_alignment(
    task: Task, gates: Sequence[Gate], count: int, union: Row, channels: Sequence[AlignedChannel]
) -> None:
    """Leave the channels unread that an alignment has blocked; read those again that it resumed.

    Parameters
    ----------
    task : Task
        Of the subtask.
    gates : sequence of Gate
        Its gates, ``count`` of them.
    count : int
        How many.
    union : row
        Gates with data, in the order in which they are polled.
    channels : sequence of AlignedChannel
        The channels of all gates, in order.
    """
    index = 0
    for number in range(count):
        gate = gates[number]
        for channel in range(len(gate.channels)):
            aligned = channels[index]
            if aligned.is_blocked == 1 and aligned.is_withheld == 0:
                _withhold(task, gate, union, number, channel)
            elif aligned.is_blocked == 0 and aligned.is_withheld == 1:
                _release(task, gate, union, number, channel)
            aligned.is_withheld = aligned.is_blocked
            index += 1


def queued_records(queue: Queue[ReceivedMessage]) -> int:
    """Return the records in a receiver's queue of a channel."""
    total = 0
    for place in range(queue.ends.count):
        message = message_at(queue, place)
        if is_event(message) == 0:
            total += message.records
    return total


def _withhold(task: Task, gate: Gate, union: Row, number: int, channel: int) -> None:
    task.withheld += queued_records(gate.queues[channel])
    if gate.queues[channel].ends.count == 0:
        return
    fifo_remove(gate.order, channel)
    if gate.order[FIFO_COUNT] == 0:
        fifo_remove(union, number)


def _release(task: Task, gate: Gate, union: Row, number: int, channel: int) -> None:
    """Put a channel behind all others that have data."""
    task.withheld -= queued_records(gate.queues[channel])
    if gate.queues[channel].ends.count == 0:
        return
    fifo_push(gate.order, channel)
    if gate.order[FIFO_COUNT] == 1:
        fifo_push(union, number)
