"""The end of a subtask's round: it flushes what is due, and sends what credit allows."""

from flowcontrol.job.graph import Channel, JobEdge
from flowcontrol.job.job import Job
from flowcontrol.protocol import rounds as r
from flowcontrol.protocol.sides import Partition
from flowcontrol.protocol.states import Message
from flowcontrol.protocol.subpartition_rules import announce_backlog, channel_backlog, head_is_event
from flowcontrol.protocol.times import flush_ticks


class SendingTask:
    """The side of a subtask that its receivers hear of.

    Attributes
    ----------
    partitions : list of Partition
        Its result partitions.
    out_links : list of (JobEdge, tuple of Channel)
        The edge of each, and its channels there.
    messages : list of list of list of Message
        What it sent in the round, by partition and channel.
    """

    job: Job
    partitions: list[Partition]
    out_links: list[tuple[JobEdge, tuple[Channel, ...]]]
    messages: list[list[list[Message]]]
    _flush_us: int
    _flush_phases: list[int]
    _quota: int

    def _flush(self, number: int) -> None:
        """Let the periodic flusher run if its period ends in the round (reference 2.6)."""
        if self._flush_us < 0:
            return
        start = number * self.job.round_us
        for part, phase in zip(self.partitions, self._flush_phases, strict=True):
            if flush_ticks(start, start + self.job.round_us, self._flush_us, phase) > 0:
                for channel in range(len(part.channels)):
                    r.flush(part, channel)

    def _send(self) -> None:
        """Send what credit allows; hand a local consumer what its queue may hold."""
        self.messages = []
        for (link, own), part in zip(self.out_links, self.partitions, strict=True):
            sent: list[list[Message]] = [[] for _ in own]
            for index, channel in enumerate(own):
                message = Message()
                while self._take(link, part, index, channel.is_local, message) > 0:
                    sent[index].append(message)
                    message = Message()
            self.messages.append(sent)

    def _take(
        self, link: JobEdge, part: Partition, index: int, is_local: bool, message: Message
    ) -> int:
        """Take the next message that a subpartition may send, an announcement first; 0: none."""
        row, event = part.channels[index], head_is_event(part.channels[index], part.queues[index])
        if announce_backlog(row, channel_backlog(row), event, message) == 1:
            return 1
        return r.send_message(part, index, self._quota, int(is_local), message)
