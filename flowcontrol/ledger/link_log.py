"""The exchange log of a plug-in link: rows cut into messages, as files named in commits.

A commit holds the rows of one source batch of one sender. Beside a file's statistics stands its
index: per channel the first row, the number of its first record, and the pieces of messages that
lie there in order. A message is cut at the link's size of buffer, may lie in several files of one
commit, and never continues in the next commit: a flushed slice is a message of its own.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from flowcontrol.errors import LinkError
from flowcontrol.ledger.log import Add, DeltaLog
from flowcontrol.ledger.storage import Storage

__all__ = ["SENDER", "ChannelLog", "Extent", "LinkLog", "Message"]

SENDER = "link_sender"
"""Partition column of the log: index of the sender. Few users have a column of that name."""


class Extent(NamedTuple):
    """Rows of one file, in order."""

    path: str
    """Relative to the log."""
    first_row: int
    rows: int


class Message(NamedTuple):
    """One message of a channel."""

    end: int
    """Number of the record after its last one, on the channel."""
    nbytes: int
    """Size of what it carries in Arrow's memory."""
    extents: tuple[Extent, ...]
    weight: int = 0
    """Size of the records that end in it, with all of the one that began in messages before."""


@dataclass
class ChannelLog:
    """Messages of a channel that are in the log.

    Attributes
    ----------
    first : int
        Number of the oldest message that is kept here.
    start : int
        Number of that message's first record.
    messages : list of Message
        From there on.
    begun : int
        Size of the messages at the end in which no record ends.
    """

    first: int = 0
    start: int = 0
    messages: list[Message] = field(default_factory=list)
    begun: int = 0

    @property
    def end(self) -> int:
        """Messages ever written: the number of the next one."""
        return self.first + len(self.messages)

    @property
    def records(self) -> int:
        """Records ever written."""
        return self.messages[-1].end if self.messages else self.start

    def message(self, number: int) -> Message:
        """Return a message by its number."""
        return self.messages[number - self.first]

    def forget(self, before: int) -> None:
        """Drop the messages before a number."""
        drop = min(before, self.end) - self.first
        if drop > 0:
            self.start = self.messages[drop - 1].end
            del self.messages[:drop]
            self.first += drop

    def align(self, number: int, record: int) -> None:
        """Begin at a message, if all that stood before it has been trimmed from the log."""
        if self.end < number:
            self.first, self.start, self.messages = number, record, []

    def holding(self, record: int) -> int:
        """Return the number of the message in which a record stands, or the next one's."""
        return self.first + bisect_right([message.end for message in self.messages], record)

    def nbytes(self, low: int, high: int) -> int:
        """Return the size of the messages ``low`` to ``high``, the last not included."""
        return sum(m.nbytes for m in self.messages[max(0, low - self.first) : high - self.first])

    def weight(self, low: int, high: int) -> int:
        """Return the size of the records that end in the messages ``low`` to ``high``."""
        return sum(m.weight for m in self.messages[max(0, low - self.first) : high - self.first])

    def add(self, number: int, first_record: int, piece: Message) -> None:
        """Append a piece: a new message, or more of the last one.

        What stands before a gap was consumed: a file is trimmed when all of its messages are,
        and one before it may still hold a message of another channel.
        """
        if number > self.end:
            self.first, self.start, self.messages, self.begun = number, first_record, [], 0
        if number < self.end - 1:
            return
        weight = piece.nbytes + self.begun if piece.end > first_record else 0
        self.begun = 0 if weight else self.begun + piece.nbytes
        if number == self.end:
            self.messages.append(piece._replace(weight=weight))
            return
        last = self.messages[-1]
        self.messages[-1] = Message(
            piece.end,
            last.nbytes + piece.nbytes,
            last.extents + piece.extents,
            last.weight + weight,
        )


class LinkLog:
    """Where the records of every channel of a link stand.

    Parameters
    ----------
    storage : Storage
        The exchange log's table.

    Attributes
    ----------
    channels : dict of (int, int) to ChannelLog
        By sender and channel.
    files : dict of str to (int, int, dict)
        Per file in the log: sender, size in bytes, and per channel the number of the message
        after its last one.
    """

    def __init__(self, storage: Storage) -> None:
        self.storage = storage
        self._log = DeltaLog(storage)
        self._forget()

    def _forget(self) -> None:
        self.channels: dict[tuple[int, int], ChannelLog] = {}
        self.files: dict[str, tuple[int, int, dict[int, int]]] = {}
        self._newest: dict[int, tuple[int, int]] = {}

    def refresh(self) -> None:
        """Take notice of the commits since the last look."""
        ends: dict[tuple[int, int], tuple[int, int]] = {}
        if self._log.restart_if_cut_off():
            ends = {place: (log.end, log.records) for place, log in self.channels.items()}
            self._forget()
        for commit in self._log.poll():
            for path in commit.removes:
                self._drop(path)
            for add in sorted(commit.adds, key=_place):
                if _place(add)[1:] > self._newest.get(int(add.partition[SENDER]), (-1, -1)):
                    self._note(add)
        for place, end in ends.items():  # a channel without a file left does not begin anew
            self.channel(*place).align(*end)

    def _drop(self, path: str) -> None:
        """Forget a file that was trimmed, and the messages that end in it: all consumed."""
        sender, _, ends = self.files.pop(path, (0, 0, {}))
        for channel, end in ends.items():
            self.channel(sender, channel).forget(end)

    def _note(self, add: Add) -> None:
        sender, stats = int(add.partition[SENDER]), add.stats
        self._newest[sender] = _place(add)[1:]
        ends: dict[int, int] = {}
        for channel, row, record, pieces in stats["channels"]:
            log = self.channels.setdefault((sender, channel), ChannelLog())
            for number, rows, nbytes in pieces:
                extents = (Extent(add.path, row, rows),)
                log.add(number, record, Message(record + rows, nbytes, extents))
                row, record = row + rows, record + rows
                ends[channel] = number + 1
        self.files[add.path] = (sender, stats["size"], ends)

    def channel(self, sender: int, channel: int) -> ChannelLog:
        """Return a channel; an empty one if it has never had a record."""
        return self.channels.setdefault((sender, channel), ChannelLog())

    def extents(self, sender: int, channel: int, start: int, end: int) -> list[Extent]:
        """Return where the records ``start`` to ``end`` of a channel stand.

        Raises
        ------
        LinkError
            If some of them are not in the log any more.
        """
        log, found = self.channel(sender, channel), list[Extent]()
        if start >= end:
            return found
        if start < log.start or end > log.records:
            raise LinkError(
                f"{self.storage}: the records {start} to {end} of channel {channel} of sender "
                f"{sender} are asked for, the log holds {log.start} to {log.records}: what was "
                "consumed has been trimmed; the checkpoint is older than the link's ledger. Start "
                "the query with a new checkpoint and .option('reset', True)"
            )
        record = log.start
        for message in log.messages:
            for extent in message.extents:
                low, high = max(start, record), min(end, record + extent.rows)
                if low < high:
                    found.append(Extent(extent.path, extent.first_row + low - record, high - low))
                record += extent.rows
            if record >= end:
                break
        return _joined(found)

    def consumed_files(self, sender: int, consumed: Mapping[int, int]) -> list[tuple[str, int]]:
        """Return name and size of a sender's files of which all messages are consumed."""
        return [
            (path, size)
            for path, (owner, size, ends) in self.files.items()
            if owner == sender and all(consumed.get(c, 0) >= end for c, end in ends.items())
        ]


def _place(add: Add) -> tuple[int, int, int]:
    """Sender, batch, and file of the batch: the order in which rows are to be read."""
    batch, file = add.stats["place"]
    return int(add.partition[SENDER]), batch, file


def _joined(extents: Sequence[Extent]) -> list[Extent]:
    """Join extents that follow each other in one file."""
    found: list[Any] = []
    for extent in extents:
        last = found[-1] if found else None
        if last and last.path == extent.path and last.first_row + last.rows == extent.first_row:
            found[-1] = Extent(last.path, last.first_row, last.rows + extent.rows)
        else:
            found.append(extent)
    return found
