"""A subtask whose channels count records: other systems' queues, permits, windows and switches."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from flowcontrol.job.graph import JobVertex
from flowcontrol.job.job import Job
from flowcontrol.job.outputs import Output
from flowcontrol.job.subtask import Incoming, Outgoing, Subtask
from flowcontrol.protocol.states import InputChannel, Message
from flowcontrol.systems import record_transport as g
from flowcontrol.systems.grants import after_period, after_taking, after_trip, first_grant, is_held
from flowcontrol.systems.record_rounds import receive_records, send_records, write_records

__all__ = ["RecordSubtask", "new_subtask"]


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
        self._transport = job.record_transport or g.RecordTransport()
        self.grants = [[g.ChannelGrant() for _ in own] for _, own in self.in_links]
        self.held = 0
        for (link, _), states in zip(self.in_links, self.grants, strict=True):
            for state in states:
                first_grant(self._transport, state, link.record_bytes)

    @staticmethod
    def _messages_of(state: Incoming) -> int:
        return sum(message.records for message in state.messages)

    def _store(self, number: int, channel: int, message: Message) -> bool:
        receive_records(self.task, self.gates[number], self.union, number, channel, message)
        return True

    def _hear(self, outgoing: Sequence[Sequence[Outgoing]]) -> None:
        if self._transport.kind == g.UNBOUNDED:
            return
        for part, seen in zip(self.partitions, outgoing, strict=True):
            for row, state in zip(part.channels, seen, strict=True):
                row.announced = state.announced

    def write(self, writer: Output, channel: int, nbytes: int) -> int:
        """Write a record to a channel, or to all; return the bytes left over."""
        count = write_records(self._transport, writer.partition, channel, nbytes, 1)
        return nbytes * (1 - count)

    def write_whole(self, writer: Output, most: int) -> int:
        """Write the records that there is room for to the only channel; return how many."""
        return write_records(self._transport, writer.partition, 0, writer.record_bytes, most)

    def _flush(self, number: int) -> None:
        """Nothing is ever open."""

    def _send(self) -> None:
        self.messages = []
        for (link, own), part in zip(self.out_links, self.partitions, strict=True):
            counts = [send_records(self._transport, part, index) for index in range(len(own))]
            size = link.record_bytes
            sent = [[Message(records=n, nbytes=n * size)] if n > 0 else [] for n in counts]
            self.messages.append(sent)

    def _announce(self, number: int) -> None:
        transport = self._transport
        if transport.kind == g.HOP_HYSTERESIS:
            self.held = is_held(transport, self.held, self.task.queued, number)
        for (link, _), gate, states in zip(self.in_links, self.gates, self.grants, strict=True):
            for channel, state in zip(gate.channels, states, strict=True):
                before = channel.announced
                channel.announced = self._granted(channel, state, before, link.record_bytes, number)
            gate.news[:] = [0] * len(gate.news)

    def _granted(
        self, channel: InputChannel, state: g.ChannelGrant, before: int, size: int, number: int
    ) -> int:
        """Return the grant of a channel after a round."""
        transport, kind = self._transport, self._transport.kind
        arrived, taken = channel.arrived, channel.processed
        if kind == g.UNBOUNDED:
            return before
        if kind == g.HOP_HYSTERESIS:
            return 0 if self.held else g.FREE
        if kind == g.RATE_WINDOW:
            if (number + 1) % transport.period > 0:
                return before
            return after_period(transport, state, taken, int(arrived == taken), size)
        if kind == g.BDP_WINDOW:
            after_trip(transport, state, arrived, number, size)
        return after_taking(transport, state, before, taken, size)
