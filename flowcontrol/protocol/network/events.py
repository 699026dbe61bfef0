"""Events in channels, and the frames of messages: bytes, sequence numbers, what is held back.

An event needs no segment, no credit and no place in a backlog. What it does to one subpartition is
in :mod:`flowcontrol.protocol.network.subpartition_rules`.
"""

from collections.abc import Mapping, Sequence
from enum import StrEnum
from types import MappingProxyType
from typing import Final, Self

from flowcontrol.errors import ProtocolError
from flowcontrol.protocol.network.subpartition_rules import add_event, finish_buffer, overtake_data
from flowcontrol.state.network import AlignedChannel, Message, ReceivedMessage, Task
from flowcontrol.state.queues import (
    END_OF_PARTITION,
    TIMEOUTABLE_BARRIER,
    Queue,
    bytes_before,
    find_kind,
    has_priority,
    is_event,
    message_at,
    remove_received,
)
from flowcontrol.state.rows import FIFO_COUNT, Gate, Partition, Row, fifo_push, fifo_remove

# --- What the messages of Flink's network stack are called, and what they weigh on a wire.
#
# Every message is a frame (`NettyMessage`, reference section 13): 9 bytes that all have, the
# fields of its kind and, of a `BufferResponse`, the data or the event. Frame and fields are
# its header here, so that header and data together are all of its bytes.


FRAME_BYTES: Final = 9
"""Length, magic number and kind, in front of every message."""


class Frame(StrEnum):
    """A message of the network stack, by its class in ``NettyMessage``."""

    fields: int  # Bytes of its fields

    def __new__(cls, called: str, fields: int) -> Self:
        """Make a message with the size of its fields."""
        own = str.__new__(cls, called)
        own._value_ = called
        own.fields = fields
        return own

    PARTITION_REQUEST = "PartitionRequest", 88
    """Receiver: a channel begins; it carries the initial credit."""
    BUFFER_RESPONSE = "BufferResponse", 34
    """Sender: data or an event, with its sequence number and the backlog behind it."""
    BACKLOG_ANNOUNCEMENT = "BacklogAnnouncement", 20
    """Sender: a backlog, to a receiver without exclusive buffers."""
    ERROR_RESPONSE = "ErrorResponse", 17
    """Sender: its task has failed, and why."""
    ADD_CREDIT = "AddCredit", 20
    """Receiver: buffers that it has gained."""
    RESUME_CONSUMPTION = "ResumeConsumption", 16
    """Receiver: the barrier that blocks the channel is aligned."""
    NEW_BUFFER_SIZE = "NewBufferSize", 20
    """Receiver: how large it wishes buffers to be."""
    ACK_ALL_USER_RECORDS_PROCESSED = "AckAllUserRecordsProcessed", 16
    """Receiver: it has read the end of the data."""
    CANCEL_PARTITION_REQUEST = "CancelPartitionRequest", 16
    """Receiver: the channel is released."""
    CLOSE_REQUEST = "CloseRequest", 0
    """Receiver: the last channel of a connection is released, and nobody uses it again."""


HEADER_BYTES: Final[Mapping[Frame, int]] = MappingProxyType(
    {frame: FRAME_BYTES + frame.fields for frame in Frame}
)
"""Bytes of each message besides data, of Flink 1.19 and 1.20; the cause in an ErrorResponse, which
it carries as a serialised exception, is not among them."""


# --- The sequence numbers of a channel at its receiver (`RemoteInputChannel`, reference 1.1, 4)


class ExpectedSequence:
    """What a receiver expects of a channel's sequence numbers.

    ``expected``: number of the next data or event.
    """

    def __init__(self, expected: int = 0) -> None:
        self.expected = expected

    def receive(self, number: int) -> None:
        """Take note of data or an event.

        Raises ProtocolError if it is not the one expected: something was lost, doubled or
        overtaken. Nothing has changed then.
        """
        if number != self.expected:
            raise ProtocolError(
                f"Buffer re-ordering: expected buffer with sequence number {self.expected}, but "
                f"received {number}"
            )
        self.expected += 1


# --- Channels that a task leaves unread while it aligns barriers, where their senders go on.
#
# Flink's sender stops behind a barrier that blocks. Elsewhere it knows nothing of that: what
# it sends waits in the channel's queue at the receiver and keeps its slots or permits.


def follow_alignment(
    task: Task, gates: Sequence[Gate], count: int, union: Row, channels: Sequence[AlignedChannel]
) -> None:
    """Leave the channels unread that an alignment has blocked; read those again that it resumed.

    - ``gates``: its gates, ``count`` of them.
    - ``union``: gates with data, in the order in which they are polled.
    - ``channels``: the channels of all gates, in order.
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


# --- Events of a task: put into all its outputs, taken from its inputs, and the end of a
# partition.


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

    ``BufferWritingResultPartition.finish`` and ``PipelinedSubpartition.finish``: the open buffers
    are closed, and nothing may be added behind the event.
    """
    broadcast_event(partition, END_OF_PARTITION, END_BYTES, 0, 0)


def broadcast_event(
    partition: Partition, kind: int, nbytes: int, checkpoint: int, created: int
) -> int:
    """Queue an event in every subpartition.

    ``BufferWritingResultPartition.broadcastEvent`` (section 2.6). It needs no segment, so a task
    sends it whether or not its output is available.

    - ``kind``, ``nbytes``: of the event: a number of :data:`~flowcontrol.state.queues.KINDS`, and
      its size.
    - ``checkpoint``, ``created``: of a barrier or of a marker that cancels one; else 0.
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
    """Have every timeoutable barrier of a checkpoint that has not been sent overtake."""
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
    """Return the event that ``next_input`` polled last; its slot is free to be used again."""
    queue = gates[task.gate].queues[task.channel]
    head = queue.ends.head
    return queue.slots[head - 1 if head > 0 else queue.ends.span - 1]


def remove_event(gate: Gate, union: Row, number: int, channel: int, place: int) -> None:
    """Take an event out of a channel's queue before its turn.

    - ``gate``: the gate, ``number`` of its task.
    - ``union``: gates with data, in the order in which they are polled.
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

    ``PrioritizedDeque.prioritize`` takes a channel with a priority event, an announcement too, out
    of its place; once that is polled, ``SingleInputGate`` and ``UnionInputGate`` add the channel
    and the gate at the end.

    ``gate``, ``union``, ``number``, ``channel``: as of :func:`remove_event`.
    """
    fifo_remove(gate.order, channel)
    fifo_push(gate.order, channel)
    fifo_remove(union, number)
    fifo_push(union, number)
