"""The entry of a file in a commit of the exchange log: its form, and how messages are numbered.

An entry is part of the file's statistics: its place in the source batch, its digest, and a line
per channel. The first file of a batch also carries where every channel of the sender then ends and
what is kept: a reader that finds less knows that something is missing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from flowcontrol.ledger.channel_log import ChannelLog, Extent, Piece, later_of

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
        return cls(
            batch,
            file,
            files,
            nbytes=stats["size"],
            rows=stats["numRecords"],
            footer=(nbytes, crc),
            schema=stats["schema"],
            lines=[ChannelLine(*line) for line in stats["channels"]],
            head=head,
        )


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
