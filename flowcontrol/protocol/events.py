"""Events of a task: put into all its outputs, taken from its inputs, and the end of a partition.

An event needs no segment, no credit and no place in a backlog. What it does to one subpartition is
in :mod:`flowcontrol.protocol.subpartition_rules`.
"""

from collections.abc import Sequence

from flowcontrol.protocol.queues import (
    END_OF_PARTITION,
    TIMEOUTABLE_BARRIER,
    bytes_before,
    find_kind,
    has_priority,
    message_at,
    remove_received,
)
from flowcontrol.protocol.rows import FIFO_COUNT, Row, fifo_push, fifo_remove
from flowcontrol.protocol.sides import Gate, Partition
from flowcontrol.protocol.states import Message, Task
from flowcontrol.protocol.subpartition_rules import add_event, finish_buffer, overtake_data

END_BYTES = 4
"""Size of the end of a partition, bytes (reference section 13)."""

END_OF_DATA_BYTES = 5
"""Size of the end of the data, bytes."""


def finish_task(task: Task) -> int:
    """Finish a task without pending outputs, if its inputs have ended: 1 if it does so now.

    The caller then calls :func:`finish_partition` for each of its result partitions.
    """
    if task.open_inputs > 0 or task.is_finished == 1:
        return 0
    task.is_finished = 1
    return 1


def finish_partition(partition: Partition) -> None:
    """Queue the end of the partition behind the data of each subpartition.

    Notes
    -----
    ``BufferWritingResultPartition.finish`` and ``PipelinedSubpartition.finish``: the open buffers
    are closed, and nothing may be added behind the event.
    """
    broadcast_event(partition, END_OF_PARTITION, END_BYTES, 0, 0)


def broadcast_event(
    partition: Partition, kind: int, nbytes: int, checkpoint: int, created: int
) -> int:
    """Queue an event in every subpartition.

    Parameters
    ----------
    partition : Partition
        Whose open buffers are closed.
    kind, nbytes : int
        Of the event: a number of :data:`~flowcontrol.protocol.queues.KINDS`, and its size.
    checkpoint, created : int
        Of a barrier or of a marker that cancels one; else 0.

    Returns
    -------
    int
        Bytes that it overtakes, which its checkpoint has to persist.

    Notes
    -----
    ``BufferWritingResultPartition.broadcastEvent`` (section 2.6). It needs no segment, so a task
    sends it whether or not its output is available.
    """
    overtaken = 0
    for channel in range(len(partition.channels)):
        own, queue = partition.channels[channel], partition.queues[channel]
        if own.is_open == 1:
            finish_buffer(own, queue)
        if has_priority(kind) == 1:
            own.persisted = bytes_before(queue, queue.ends.count)
            overtaken += own.persisted
        elif checkpoint > 0:
            own.persisted = 0
        add_event(own, queue, kind, nbytes, checkpoint, created)
    return overtaken


def overtake_partition(partition: Partition, checkpoint: int) -> int:
    """Have every timeoutable barrier of a checkpoint that has not been sent overtake.

    Returns
    -------
    int
        Bytes overtaken, which the checkpoint has to persist.
    """
    overtaken = 0
    for channel in range(len(partition.channels)):
        own = partition.channels[channel]
        nbytes = overtake_data(own, partition.queues[channel], checkpoint)
        if nbytes >= 0:
            own.persisted = nbytes
            overtaken += nbytes
    return overtaken


def holds_barrier(partition: Partition, checkpoint: int) -> int:
    """Tell whether a timeoutable barrier of a checkpoint waits to be sent: 1 if so."""
    for channel in range(len(partition.channels)):
        queue = partition.queues[channel]
        place = find_kind(queue, TIMEOUTABLE_BARRIER)
        if place >= 0 and message_at(queue, place).checkpoint == checkpoint:
            return 1
    return 0


def polled_event(task: Task, gates: Sequence[Gate]) -> Message:
    """Return the event that :func:`next_input` polled last; its slot is free to be used again."""
    queue = gates[task.gate].queues[task.channel]
    head = queue.ends.head
    return queue.slots[head - 1 if head > 0 else queue.ends.span - 1]


def remove_event(gate: Gate, union: Row, number: int, channel: int, place: int) -> None:
    """Take an event out of a channel's queue before its turn.

    Parameters
    ----------
    gate : Gate
        The gate, ``number`` of its task.
    union : row
        Gates with data, in the order in which they are polled.
    channel : int
        Channel of the gate.
    place : int
        Messages before it.
    """
    remove_received(gate.queues[channel], place)
    if gate.queues[channel].ends.count > 0:
        lose_turn(gate, union, number, channel)
        return
    fifo_remove(gate.order, channel)
    if gate.order[FIFO_COUNT] == 0:
        fifo_remove(union, number)


def lose_turn(gate: Gate, union: Row, number: int, channel: int) -> None:
    """Put a channel with data, and its gate, behind all others: an event has overtaken in it.

    Parameters
    ----------
    gate, union, number, channel
        As of :func:`remove_event`.

    Notes
    -----
    ``PrioritizedDeque.prioritize`` takes a channel with a priority event, an announcement too, out
    of its place; once that is polled, ``SingleInputGate`` and ``UnionInputGate`` add the channel
    and the gate at the end.
    """
    fifo_remove(gate.order, channel)
    fifo_push(gate.order, channel)
    fifo_remove(union, number)
    fifo_push(union, number)
