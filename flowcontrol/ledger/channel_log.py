"""The messages of one channel of a link: numbers, bytes, and where their rows lie.

Every position is absolute. A piece says which message it belongs to, at which record the message
starts and ends, and which records the piece itself holds, so that a message of which some pieces
have been trimmed is recognised and never mistaken for a shorter one.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from flowcontrol.errors import LinkError


class Extent(NamedTuple):
    """Rows of one file, in order."""

    path: str  # Relative to the log
    record: int  # Number of the first one on the channel
    first_row: int
    rows: int

    @property
    def end(self) -> int:
        """Number of the record after the last one."""
        return self.record + self.rows


class Piece(NamedTuple):
    """What one file holds of one message."""

    number: int  # The message's
    start: int
    end: int  # Between which records of the channel the whole message lies
    nbytes: int  # Size of this piece in Arrow's memory
    extent: Extent
    latest: int | None = None  # Latest event time of its rows, ms; None if they have none


class Message(NamedTuple):
    """One message of a channel.

    Attributes
    ----------
    end : int
        Number of its first record, and of the record after its last one, on the channel.
    nbytes : int
        Size of what it carries in Arrow's memory.
    weight : int
        Size of the records that end in it, with all of the one that began in messages
        before.
    latest : int or None
        Latest event time of its rows, ms; None if they have none.
    """

    start: int
    end: int
    nbytes: int
    extents: tuple[Extent, ...]
    weight: int = 0
    latest: int | None = None

    @property
    def is_whole(self) -> bool:
        """Whether its extents hold all of its records, without a gap."""
        record = self.start
        for extent in self.extents:
            if extent.record != record:
                return False
            record = extent.end
        return record == self.end


@dataclass
class ChannelLog:
    """Messages of a channel that are in the log."""

    first: int = 0  # Number of the oldest message that is kept here
    start: int = 0  # Number of that message's first record
    messages: list[Message] = field(default_factory=list)  # From there on
    begun: int = 0  # Size of the messages at the end in which no record ends

    @property
    def end(self) -> int:
        """Messages ever written: the number of the next one."""
        return self.first + len(self.messages)

    @property
    def records(self) -> int:
        """Records ever written."""
        return self.messages[-1].end if self.messages else self.start

    def message(self, number: int) -> Message:
        """Return a message by its number.

        Raises LinkError if it is not kept here.
        """
        if not self.first <= number < self.end:
            raise LinkError(
                f"message {number} is asked for, the log holds {self.first} to {self.end}: it has "
                "been trimmed, or a commit is missing"
            )
        return self.messages[number - self.first]

    def forget(self, before: int) -> None:
        """Drop the messages before a number."""
        drop = min(before, self.end) - self.first
        if drop > 0:
            self.start = self.messages[drop - 1].end
            del self.messages[:drop]
            self.first += drop

    def begin_at(self, number: int, record: int) -> None:
        """Begin at a message: everything before it has been consumed and trimmed."""
        self.first, self.start, self.messages, self.begun = number, record, [], 0

    def holding(self, record: int) -> int:
        """Return the number of the message that holds a record, or the next one's."""
        return self.first + bisect_right(self.messages, record, key=lambda message: message.end)

    def nbytes(self, low: int, high: int) -> int:
        """Return the size of the messages ``low`` to ``high``, the last not included."""
        return sum(m.nbytes for m in self.messages[max(0, low - self.first) : high - self.first])

    def weight(self, low: int, high: int) -> int:
        """Return the size of the records that end in the messages ``low`` to ``high``."""
        return sum(m.weight for m in self.messages[max(0, low - self.first) : high - self.first])

    def add(self, piece: Piece) -> None:
        """Append a piece: a new message, or more of the last one.

        Everything before a gap was consumed: a file is trimmed when all of its messages are,
        and one before it may still hold a message of another channel.

        Raises LinkError if the piece does not follow what is here.
        """
        if piece.number == self.end - 1 and self.messages:
            self._extend(piece)
            return
        self.settle()
        if piece.number > self.end:
            self.begin_at(piece.number, piece.start)
        if (piece.number, piece.start) != (self.end, self.records):
            raise LinkError(
                f"message {piece.number} starts at record {piece.start}, but message {self.end} "
                f"at record {self.records} comes next"
            )
        weight = self._weigh(piece)
        self.messages.append(
            Message(
                piece.start, piece.end, piece.nbytes, (piece.extent,), weight, latest=piece.latest
            )
        )

    def _extend(self, piece: Piece) -> None:
        last = self.messages[-1]
        if (piece.start, piece.end) != (last.start, last.end):
            raise LinkError(
                f"one piece of message {piece.number} says that it holds the records {last.start} "
                f"to {last.end}, another {piece.start} to {piece.end}"
            )
        self.messages[-1] = Message(
            last.start,
            last.end,
            last.nbytes + piece.nbytes,
            (*last.extents, piece.extent),
            last.weight + self._weigh(piece),
            later_of(last.latest, piece.latest),
        )

    def _weigh(self, piece: Piece) -> int:
        """Return the size of the records that end in a piece."""
        weight = piece.nbytes + self.begun if piece.extent.rows else 0
        self.begun = 0 if weight else self.begun + piece.nbytes
        return weight

    def settle(self) -> None:
        """Drop the last message if pieces of it are missing, with all before it.

        Its files are of one commit, and one of them is gone: so it was consumed.
        """
        if self.messages and not self.messages[-1].is_whole:
            self.begin_at(self.end, self.messages[-1].end)

    def latest(self, low: int, high: int) -> int | None:
        """Return the latest event time in the messages ``low`` to ``high``, ms; None without."""
        found: int | None = None
        for message in self.messages[max(0, low - self.first) : max(0, high - self.first)]:
            found = later_of(found, message.latest)
        return found

    def extents(self, start: int, end: int) -> list[Extent]:
        """Return where the records ``start`` to ``end`` are, as far as they are here."""
        found = []
        skipped = bisect_right(self.messages, start, key=lambda message: message.end)
        stop = bisect_left(self.messages, end, key=lambda message: message.start)
        for message in self.messages[skipped:stop]:
            for extent in message.extents:
                low, high = max(start, extent.record), min(end, extent.end)
                if low < high:
                    row = extent.first_row + low - extent.record
                    found.append(Extent(extent.path, low, row, high - low))
        return list(joined(found))


def later_of(one: int | None, other: int | None) -> int | None:
    """Return the later of two times, either of which may be unknown."""
    if one is None or other is None:
        return other if one is None else one
    return max(one, other)


def joined(extents: Iterable[Extent]) -> Iterable[Extent]:
    """Yield extents, those that follow each other in one file as one."""
    last: Extent | None = None
    for extent in extents:
        if last is not None and _follows(last, extent):
            last = last._replace(rows=last.rows + extent.rows)
            continue
        if last is not None:
            yield last
        last = extent
    if last is not None:
        yield last


def _follows(last: Extent, extent: Extent) -> bool:
    is_next = last.first_row + last.rows == extent.first_row and last.end == extent.record
    return last.path == extent.path and is_next
