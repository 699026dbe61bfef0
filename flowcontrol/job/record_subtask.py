"""A subtask whose channels count records: other systems' queues, permits, windows and switches."""

from collections.abc import Sequence
from typing import Any

from flowcontrol.job.exchanged import Incoming, Outgoing
from flowcontrol.job.graph import JobEdge, JobVertex
from flowcontrol.job.job import Job
from flowcontrol.job.routing import Output
from flowcontrol.job.subtask import Subtask
from flowcontrol.protocol.sides import Partition
from flowcontrol.protocol.states import Message
from flowcontrol.protocol.subpartition_rules import hear_resumed
from flowcontrol.systems.transports.record_rounds import (
    close_records,
    note_barriers,
    receive_records,
    send_records,
    write_records,
)
from flowcontrol.systems.transports.restarts import begin_receiver, begin_sender
from flowcontrol.systems.transports.rules import first_grant, is_held, next_grant, rules_of_kind
from flowcontrol.systems.transports.transport import ChannelGrant, RecordTransport, RoundEnd


def new_subtask(job: Job, plan: JobVertex, index: int, **rest: Any) -> Subtask:
    """Return a fresh subtask of the kind that the job's transport wants; see :class:`Subtask`."""
    kind = Subtask if job.record_transport is None else RecordSubtask
    return kind(job, plan, index, **rest)


class RecordSubtask(Subtask):
    """As :class:`Subtask`; a cursor counts records, and a round sends one message a channel.

    Attributes
    ----------
    grants : list of list of ChannelGrant
        Per gate and channel.
    held : int
        1 if its receivers have their senders stopped.
    """

    def __init__(self, job: Job, plan: JobVertex, index: int, **rest: Any) -> None:
        super().__init__(job, plan, index, **rest)
        self._transport = job.record_transport or RecordTransport()
        self.grants = [[ChannelGrant() for _ in own] for _, own in self.in_links]
        self.held = 0
        for (link, _), states in zip(self.in_links, self.grants, strict=True):
            for state in states:
                first_grant(self._transport, state, link.record_bytes)

    @staticmethod
    def _messages_of(state: Incoming) -> int:
        return sum(message.records for message in state.messages)

    def _store(self, number: int, channel: int, message: Message) -> bool:
        gate, withheld = self.gates[number], 0
        if self.checkpoints is not None:
            self.note_arrival(number, channel, message)
            first = sum(len(before.channels) for before in self.gates[:number])
            withheld = self.checkpoints.channels[first + channel].is_withheld
        receive_records(self.task, gate, self.union, number, channel, message, withheld)
        return True

    def _hear(self, outgoing: Sequence[Sequence[Outgoing]]) -> None:
        announces = rules_of_kind(self._transport.kind).announces
        for number, (part, seen) in enumerate(zip(self.partitions, outgoing, strict=True)):
            for row, state in zip(part.channels, seen, strict=True):
                if announces:
                    row.announced = state.announced
                if self.checkpoints is not None:
                    hear_resumed(row, state.resumed)
            self.note_barrier(number)

    def event_partition(self, number: int) -> Partition:
        """Return a result partition with the records queued that are written so far."""
        part = self.partitions[number]
        close_records(part, self.out_links[number][0].record_bytes)
        return part

    def note_barrier(self, number: int) -> None:
        """Have the task wait while a barrier in a partition has no permit."""
        if self.checkpoints is not None:
            note_barriers(self._transport, self.partitions[number])

    def write(self, writer: Output, channel: int, nbytes: int) -> int:
        """Write a record to a channel, or to all; return the bytes left over."""
        count = write_records(self._transport, writer.partition, channel, nbytes, 1)
        return nbytes * (1 - count)

    def write_whole(self, writer: Output, most: int) -> int:
        """Write the records that there is room for to the only channel; return how many."""
        return write_records(self._transport, writer.partition, 0, writer.record_bytes, most)

    def begin_written(self) -> None:
        """Have the channels go on behind what was written to them, of a checkpoint."""
        for (link, _), part in zip(self.out_links, self.partitions, strict=True):
            for channel in part.channels:
                begin_sender(self._transport, channel, link.record_bytes)

    def begin_received(self, number: int, channel: int, written: int) -> None:
        """Have a channel of a gate go on behind so many records, of a checkpoint."""
        record_bytes = self.in_links[number][0].record_bytes
        row, state = self.gates[number].channels[channel], self.grants[number][channel]
        begin_receiver(self._transport, state, row, written, record_bytes)

    def _flush(self, number: int) -> None:
        """Nothing is ever open."""

    def _take(
        self, link: JobEdge, part: Partition, index: int, is_local: bool, message: Message
    ) -> int:
        return send_records(self._transport, part, index, link.record_bytes, message)

    def _announce(self, number: int) -> None:
        transport = self._transport
        self.held = is_held(transport, self.held, self.task.queued, number)
        for (link, _), gate, states in zip(self.in_links, self.gates, self.grants, strict=True):
            end = RoundEnd(number, self.held, link.record_bytes)
            for channel, state in zip(gate.channels, states, strict=True):
                channel.announced = next_grant(transport, state, channel, end)
            gate.dirty_channels[:] = [0] * len(gate.dirty_channels)
