"""A trace of messages, replayed by somebody who knows what the messages mean and nothing else.

It imports no rule of the emulator: a channel begins with the credit in its PartitionRequest, each
data message takes one, AddCredit brings more when it arrives, an event takes none, and what the
sender holds back is what the last message said.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

Name = tuple[str, int, int]
"""Edge, sender and receiver of a channel."""

FROM_THE_START = {"PartitionRequest", "CancelPartitionRequest", "ErrorResponse", "CloseRequest"}
"""Messages that may be sent at the start of a round, so a sample of that time is before them."""


def us(t_s: float) -> int:
    """A time in whole microseconds."""
    return round(t_s * 1e6)


@dataclass
class Ends:
    """Both ends of a channel, as far as messages show them."""

    credit: int = 0
    announced: int = 0
    sent: int = 0
    expected: int = 0
    data_bytes: int = 0
    backlog: int | None = None
    told_us: int = -1
    under_way: list[tuple[int, int]] = field(default_factory=list)
    is_open: bool = False

    def hear(self, now_us: int) -> None:
        """Let the credit come in that has arrived."""
        while self.under_way and self.under_way[0][0] <= now_us:
            self.credit += self.under_way.pop(0)[1]


class Replay:
    """Takes messages in their order, up to one moment after another.

    Parameters
    ----------
    messages : iterable of message
        Of a whole run.
    trip_us : int
        How long a message takes, microseconds.

    Attributes
    ----------
    channels : dict
        By channel.
    seen : Counter of str
        What has happened.
    """

    def __init__(self, messages: Iterable[Any], trip_us: int) -> None:
        self._messages, self._place = list(messages), 0
        self._trip_us = trip_us
        self._last = {
            us(one.t_s): place
            for place, one in enumerate(self._messages)
            if one.name not in FROM_THE_START
        }
        self.channels: dict[Name, Ends] = {}
        self.seen: Counter[str] = Counter()

    def until(self, t_s: float) -> None:
        """Take all messages up to a sample; what is sent at the start of the next round is not."""
        now_us = us(t_s)
        while self._place < len(self._messages):
            message = self._messages[self._place]
            is_past = us(message.t_s) < now_us or self._place <= self._last.get(now_us, -1)
            if not is_past:
                break
            self._take(message)
            self._place += 1
        for ends in self.channels.values():
            ends.hear(now_us)

    def _take(self, message: Any) -> None:
        name = message.edge, message.sender, message.receiver
        if message.name == "PartitionRequest":
            self.seen["restart"] += name in self.channels
            self.channels[name] = Ends(message.credit, message.credit, is_open=True)
            return
        own, at_us = self.channels[name], us(message.t_s)
        if message.name == "BufferResponse":
            # What a sender knows in a round is what had arrived before it.
            own.hear(at_us)
            assert message.sequence_number == own.expected, message
            own.expected += 1
            self.seen["event"] += message.credit == 0
            self.seen["event at credit 0"] += message.credit == 0 and own.credit == 0
            own.credit -= message.credit
            own.sent += message.credit
            own.data_bytes += message.bytes * message.credit
            own.backlog, own.told_us = message.backlog, at_us
            assert own.credit >= 0, message
            self.seen["credit 0"] += own.credit == 0
        elif message.name == "BacklogAnnouncement":
            assert own.credit == 0, message
            own.backlog, own.told_us = message.backlog, at_us
        elif message.name == "AddCredit":
            own.announced += message.credit
            own.under_way.append((at_us + self._trip_us, message.credit))
        elif message.name in FROM_THE_START:
            own.is_open = False
        self.seen[message.name] += 1
