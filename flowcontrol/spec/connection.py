"""The sender's side of a connection: a credit per channel, first in first out over channels.

What lives here: ``CreditBasedSequenceNumberingViewReader`` and ``PartitionRequestQueue``
(reference sections 2.1 to 2.3). What must not: sockets, bandwidth, clocks: whoever drives a
connection asks for one message at a time, when it can be written.
"""

from collections import deque
from dataclasses import dataclass, replace

from flowcontrol.errors import ProtocolError
from flowcontrol.protocol.network import credit_rules
from flowcontrol.spec.subpartition import DATA, Message, Subpartition


def credit_after_send(credit: int, is_event: int) -> int:
    """Credit after a message: data costs 1, events nothing; below 0 is a violation (2.1)."""
    return credit if is_event == 1 else credit - 1


def credit_after_resume(credit: int, initial_credit: int) -> int:
    """Credit after consumption resumed: 0 without initial credit (section 2.1)."""
    return 0 if initial_credit == 0 else credit


class SequenceNumberingReader:
    """A sender's credit for one channel.

    - ``subpartition``: what is read; its ``initial_credit`` is the credit at the start.
    - ``sequence_number``: number of the next message, events included.
    - ``is_registered``: it stands in a connection's queue.
    """

    def __init__(self, subpartition: Subpartition) -> None:
        self.subpartition = subpartition
        subpartition.state.announced = subpartition.state.sent + subpartition.initial_credit
        self.sequence_number = 0
        self.is_registered = False

    @property
    def credit(self) -> int:
        """Data messages that may still be sent; never negative."""
        state = self.subpartition.state
        return credit_rules.credit_of(state.announced, state.sent)

    @property
    def is_available(self) -> bool:
        """It can be served: data and credit, or an event at the head."""
        return self.subpartition.is_available(self.credit)

    @property
    def needs_backlog_announcement(self) -> bool:
        """Its backlog can only be told in a message of its own (section 2.2)."""
        needed = credit_rules.needs_backlog_announcement(
            self.subpartition.initial_credit,
            self.credit,
            self.subpartition.backlog,
            int(self.is_available),
        )
        return needed == 1

    def add_credit(self, credit: int) -> None:
        """Add announced credit.

        Raises ValueError if it is below 1: such a message is never sent.
        """
        if credit < 1:
            raise ValueError(f"credit announced is {credit}, must be at least 1")
        self.subpartition.state.announced += credit

    def resume(self) -> None:
        """Unblock the subpartition; without initial credit the credit becomes 0.

        Raises ProtocolError if the subpartition is not blocked; nothing has changed then.
        """
        self.subpartition.resume()
        state = self.subpartition.state
        state.announced = state.sent + credit_after_resume(self.credit, state.initial)

    def poll(self) -> Message | None:
        """Take the next message; ``more_available`` is as this reader's credit sees it.

        Raises ProtocolError if it is data and there is no credit; nothing has changed then.
        """
        kind = self.subpartition.peek()
        is_event = int(kind is not None and kind != DATA)
        if kind is not None and credit_after_send(self.credit, is_event) < 0:
            raise ProtocolError("no credit available for a data message")
        message = self.subpartition.poll()
        if message is None:
            return None
        self.sequence_number += 1
        return replace(message, more_available=self.is_available)


@dataclass(frozen=True)
class BacklogAnnouncement:
    """A backlog in a message of its own, for a channel without any credit (section 2.2)."""

    reader: SequenceNumberingReader
    backlog: int


class ConnectionQueue:
    """First in, first out over the readers of one connection; one message per turn.

    A reader stands in the queue while it can be served, and goes back to the tail after its
    message if it still can: round robin over the channels of the connection.

    ``announcements``: due, oldest first; whoever sends them removes them.
    """

    def __init__(self) -> None:
        self.announcements: deque[BacklogAnnouncement] = deque()
        self._queue: deque[SequenceNumberingReader] = deque()

    @property
    def readers(self) -> tuple[SequenceNumberingReader, ...]:
        """Readers that can be served, the next one first."""
        return tuple(self._queue)

    def add_reader(self, reader: SequenceNumberingReader) -> None:
        """Connect a reader: its subpartition's notifications come here from now on.

        Raises ValueError if its subpartition is connected already; it can be consumed only once.
        """
        if reader.subpartition.listener is not None:
            raise ValueError("the subpartition is consumed already")
        reader.subpartition.listener = lambda: self.notify(reader)
        self.notify(reader)

    def notify(self, reader: SequenceNumberingReader) -> None:
        """Put a reader at the tail if it can be served and does not stand there yet."""
        if reader.is_registered:
            return
        if reader.is_available:
            self._register(reader)
        elif reader.needs_backlog_announcement:
            backlog = reader.subpartition.backlog
            self.announcements.append(BacklogAnnouncement(reader, backlog))

    def add_credit(self, reader: SequenceNumberingReader, credit: int) -> None:
        """Note an AddCredit message: :meth:`SequenceNumberingReader.add_credit`, then notify."""
        reader.add_credit(credit)
        self.notify(reader)

    def resume(self, reader: SequenceNumberingReader) -> None:
        """Note a ResumeConsumption message: :meth:`SequenceNumberingReader.resume`, notify."""
        reader.resume()
        self.notify(reader)

    def next_message(self) -> tuple[SequenceNumberingReader, Message] | None:
        """Take the head reader's message; readers that turn out to have none are skipped."""
        while self._queue:
            reader = self._queue[0]
            message = reader.poll()  # first, so that an error changes nothing
            self._queue.popleft()
            reader.is_registered = False
            if message is not None:
                if message.more_available:
                    self._register(reader)
                return reader, message
        return None

    def remove_reader(self, reader: SequenceNumberingReader) -> None:
        """Disconnect a reader; an unknown one is ignored."""
        if reader.is_registered:
            self._queue.remove(reader)
            reader.is_registered = False
        reader.subpartition.listener = None

    def _register(self, reader: SequenceNumberingReader) -> None:
        reader.is_registered = True
        self._queue.append(reader)
