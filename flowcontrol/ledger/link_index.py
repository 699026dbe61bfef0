"""The entry of a file in a commit of the exchange log: its form, and how messages are numbered.

An entry is part of the file's statistics: its place in the source batch, its digest, and a line
per channel. The first file of a batch also carries where every channel of the sender then ends and
what is kept: a reader that finds less knows that something is missing.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from flowcontrol.errors import LinkError

# --- The messages of one channel of a link: numbers, bytes, and where their rows lie.
#
# Every position is absolute. A piece says which message it belongs to, at which record the message
# starts and ends, and which records the piece itself holds, so that a message of which some pieces
# have been trimmed is recognised and never mistaken for a shorter one.


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


Numbered = list[list[int]]
"""Pieces of a channel in a file: number of the message, rows, bytes."""


class PackedRows(NamedTuple):
    """A file that a task has packed."""

    path: str  # Relative to the log
    nbytes: int  # nbytes, rows: size of the file in bytes, rows in it
    rows: int
    # Per channel, in the order of the file: rows and bytes of each piece, at most a message's size
    # but for a single row that is larger.
    channels: Sequence[tuple[int, Sequence[tuple[int, int]]]]
    # Size and digest of the file's end, which holds the digests of everything before it.
    footer: tuple[int, int] = (0, 0)
    # Latest event time of each piece, in the order of the file, ms; empty without event time.
    latest: Sequence[int | None] = ()


class ChannelEnd(NamedTuple):
    """Where a channel ends after a commit."""

    channel: int
    end: int  # Messages ever written
    records: int  # Records ever written
    kept: int  # Number of a message: it, and all behind it, are in the log


class ChannelLine(NamedTuple):
    """What a file holds of a channel."""

    channel: int
    row: int  # First row of the file
    record: int  # Its number on the channel
    start: int
    end: int  # Where the first message begins and the last one ends, here or in another file
    pieces: Numbered
    # Latest event time of each piece, ms; empty without event time.
    latest: Sequence[int | None] = ()

    def read(self, path: str) -> list[Piece]:
        """Return the pieces of messages, one of each."""
        found: list[Piece] = []
        row, record, start = self.row, self.record, self.start
        for place, (number, rows, nbytes) in enumerate(self.pieces):
            latest = self.latest[place] if self.latest else None
            if found and found[-1].number == number:
                last = found.pop()
                nbytes += last.nbytes
                latest = later_of(latest, last.latest)
                extent = last.extent._replace(rows=last.extent.rows + rows)
            else:
                start = record if found else start
                extent = Extent(path, record, row, rows)
            row, record = row + rows, record + rows
            found.append(Piece(number, start, extent.end, nbytes, extent, latest))
        found[-1] = found[-1]._replace(end=self.end)
        return found


@dataclass(frozen=True)
class BatchEntry:
    """The entry of a source batch, carried by its first file."""

    ends: list[ChannelEnd]  # Of every channel that has ever had a record
    # What identifies the rows: a digest of the source's offsets, if they are known.
    source: str | None = None


@dataclass(frozen=True)
class FileEntry:
    """The entry of a file in a commit."""

    # Source batch, the file's place in it, and how many files it has.
    batch: int
    file: int
    files: int
    nbytes: int  # nbytes, rows: size of the file in bytes, rows in it
    rows: int
    footer: tuple[int, int]  # Size and digest of the file's end
    schema: int  # Version of the link's columns
    lines: list[ChannelLine]  # What it holds of each channel
    head: BatchEntry | None = None  # Of the first file of a batch

    def to_stats(self) -> dict[str, Any]:
        """Return the entry as the log stores it."""
        stats: dict[str, Any] = {
            "numRecords": self.rows,
            "place": [self.batch, self.file, self.files],
            "size": self.nbytes,
            "footer": list(self.footer),
            "schema": self.schema,
            "channels": [list(line if line.latest else line[:-1]) for line in self.lines],
        }
        if self.head is not None:
            stats["ends"] = [list(end) for end in self.head.ends]
            stats["source"] = self.head.source
        return stats

    @classmethod
    def from_stats(cls, stats: Mapping[str, Any]) -> FileEntry:
        """Read an entry of the log."""
        head = None
        if "ends" in stats:
            head = BatchEntry([ChannelEnd(*end) for end in stats["ends"]], stats["source"])
        batch, file, files = stats["place"]
        nbytes, crc = stats["footer"]
        found = stats["size"], stats["numRecords"], (nbytes, crc), stats["schema"]
        lines = [ChannelLine(*line) for line in stats["channels"]]
        return cls(batch, file, files, *found, lines, head)


@dataclass
class _Filling:
    """State of a channel while the files of a batch are numbered."""

    number: int  # Of the message that is being filled
    record: int
    start: int  # First record of that message
    fill: int  # Bytes in it
    # By message of this batch, the record after its last one.
    ends: dict[int, int] = field(default_factory=dict)


class Numbering:
    """Numbers the messages of a source batch: pieces are joined as long as they fit into one.

    ``buffer_bytes``: size of a message, bytes.
    """

    def __init__(self, logs: Mapping[int, ChannelLog], buffer_bytes: int) -> None:
        self._logs, self._size = logs, buffer_bytes
        self._filling: dict[int, _Filling] = {}

    def lines(self, files: Sequence[PackedRows]) -> list[list[ChannelLine]]:
        """Return the lines of each file, in order."""
        drafts = [self._draft(file) for file in files]
        return [[self._closed(line) for line in own] for own in drafts]

    def ends(
        self, consumed: Mapping[int, int], before: Mapping[int, ChannelEnd]
    ) -> list[ChannelEnd]:
        """Return where the channels end now."""
        found = []
        for channel, log in sorted(self._logs.items()):
            kept = min(consumed.get(channel, 0), log.end)
            if channel in before:
                kept = max(kept, before[channel].kept)
            own = self._filling.get(channel)
            end, records = (log.end, log.records) if own is None else (own.number + 1, own.record)
            if end:
                found.append(ChannelEnd(channel, end, records, kept))
        return found

    def _draft(self, file: PackedRows) -> list[ChannelLine]:
        """Return the lines of a file; where their last messages end is not known yet."""
        row, lines, latest = 0, [], iter(file.latest)
        for channel, pieces in file.channels:
            own = self._filling.get(channel) or self._begun(channel)
            first_row, record, numbered = row, own.record, Numbered()
            starts, times = [], list[int | None]()
            for rows, nbytes in pieces:
                more = self._number(own, rows, nbytes)
                numbered += more
                if file.latest:  # of a row in several messages, the one in which it ends
                    times += [*[None] * (len(more) - 1), next(latest)]
                starts.append(own.start)
                row, own.record = row + rows, own.record + rows
                own.ends[own.number] = own.record
            lines.append(ChannelLine(channel, first_row, record, starts[0], 0, numbered, times))
        return lines

    def _begun(self, channel: int) -> _Filling:
        log = self._logs[channel]
        own = _Filling(log.end - 1, log.records, log.records, self._size)
        self._filling[channel] = own
        return own

    def _closed(self, line: ChannelLine) -> ChannelLine:
        """Return a line with the end of its last message."""
        return line._replace(end=self._filling[line.channel].ends[line.pieces[-1][0]])

    def _number(self, own: _Filling, rows: int, nbytes: int) -> Numbered:
        """Number a piece; a row larger than a buffer takes several, and ends in the last one."""
        if own.fill + nbytes <= self._size:
            own.fill += nbytes
            return [[own.number, rows, nbytes]]
        found = Numbered()
        while nbytes > self._size:
            own.number += 1
            found.append([own.number, 0, self._size])
            nbytes -= self._size
        own.number += 1
        own.start, own.fill = own.record, nbytes
        return [*found, [own.number, rows, nbytes]]
