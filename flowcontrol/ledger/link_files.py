"""The sender's hand on a link's exchange log: number the messages, commit the files, trim."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import pyarrow as pa

from flowcontrol.ledger.commit import NewFile, Writer, create_table
from flowcontrol.ledger.link_log import SENDER, LinkLog
from flowcontrol.ledger.storage import Storage
from flowcontrol.ledger.writing import writing

__all__ = ["LinkFiles", "PackedRows", "create_log", "folder_of"]

MOST_REMOVES = 256
"""Files trimmed by one commit."""

SWEEP_EVERY_S = 3600.0
"""How often files are looked for that no commit names, and how old they must be: what a failed, a
repeated or a killed task has left."""


class PackedRows(NamedTuple):
    """A file that a task has packed.

    Attributes
    ----------
    path : str
        Relative to the log.
    nbytes, rows : int
        Size of the file in bytes, rows in it.
    channels : sequence of (int, sequence of (int, int))
        Per channel, in the order of the file: rows and bytes of each piece, at most a
        message's size but for a single row that is larger.
    """

    path: str
    nbytes: int
    rows: int
    channels: Sequence[tuple[int, Sequence[tuple[int, int]]]]


def folder_of(sender: int) -> str:
    """Return the folder of a sender's files in the log."""
    return f"{SENDER}={sender}"


def create_log(storage: Storage, schema: pa.Schema) -> None:
    """Create an empty exchange log unless it is there."""
    full = schema.append(pa.field(SENDER, pa.int64()))
    create_table(storage, full, "Rows on their way over a link.", [SENDER])


class LinkFiles:
    """One sender's files.

    Parameters
    ----------
    storage : Storage
        The exchange log's table; it exists.
    app_id : str
        The sender's.
    sender : int
        Its index.
    buffer_bytes : int
        Size of a message, bytes.
    """

    def __init__(self, storage: Storage, app_id: str, sender: int, buffer_bytes: int) -> None:
        self.storage, self.sender = storage, sender
        self.log = LinkLog(storage)
        self._buffer_bytes = buffer_bytes
        self._writer = Writer(storage, app_id)
        self._swept_at = float("-inf")
        self.log.refresh()

    def claim(self) -> int:
        """Take the sender's place over; return the epoch."""
        epoch = self._writer.claim()
        self.log.refresh()
        self._sweep()
        return epoch

    def last_batch(self) -> int:
        """Return the last source batch whose rows are in the log; -1 before the first."""
        return self._writer.last_batch()

    def commit(
        self, batch_id: int, files: Sequence[PackedRows], consumed: Mapping[int, int]
    ) -> bool:
        """Commit the rows of a source batch; False if it was there.

        Parameters
        ----------
        batch_id : int
            Number of the batch; it only grows.
        files : sequence of PackedRows
            In the order in which their rows are to be read.
        consumed : mapping of int to int
            Per channel, messages that all receivers have consumed: what lies wholly before
            them is trimmed.

        Raises
        ------
        FencedError
            If another process has taken the sender's place.
        LinkError
            If the disk is full, or cannot be written for another reason.
        """
        index = self._index(files)
        partition = {SENDER: str(self.sender)}
        adds = []
        for number, (file, channels) in enumerate(zip(files, index, strict=True)):
            stats = {"place": [batch_id, number], "size": file.nbytes, "channels": channels}
            adds.append(NewFile(file.path, file.nbytes, file.rows, stats, partition))
        old = self.log.consumed_files(self.sender, consumed)[:MOST_REMOVES]
        removes = [NewFile(path, size, 0, None, partition) for path, size in old]
        with writing(self.storage, f"batch {batch_id}"):
            done = self._writer.commit(batch_id, adds, removes)
        self.log.refresh()
        for path, _ in old if done else []:
            self.storage.delete(path)
        self._sweep()  # now, when no task of this sender is writing
        return done

    def _sweep(self) -> None:
        """Delete the sender's files that no commit names, from time to time."""
        if time.monotonic() - self._swept_at < SWEEP_EVERY_S:
            return
        self._swept_at = time.monotonic()
        folder = folder_of(self.sender)
        own = self.storage.child(folder)
        for name, written in own.files():
            if f"{folder}/{name}" not in self.log.files and time.time() - written > SWEEP_EVERY_S:
                own.delete(name)

    def _index(self, files: Sequence[PackedRows]) -> list[list[list[Any]]]:
        """Number the messages: pieces are joined as long as they fit into one buffer."""
        fill: dict[int, int] = {}
        number: dict[int, int] = {}
        record: dict[int, int] = {}
        index = []
        for file in files:
            row, entries = 0, []
            for channel, pieces in file.channels:
                log = self.log.channel(self.sender, channel)
                number.setdefault(channel, log.end - 1)
                record.setdefault(channel, log.records)
                fill.setdefault(channel, self._buffer_bytes)
                start, numbered = (row, record[channel]), list[list[int]]()
                for rows, nbytes in pieces:
                    numbered += self._numbered(channel, rows, nbytes, fill, number)
                    row += rows
                    record[channel] += rows
                entries.append([channel, *start, numbered])
            index.append(entries)
        return index

    def _numbered(
        self, channel: int, rows: int, nbytes: int, fill: dict[int, int], number: dict[int, int]
    ) -> list[list[int]]:
        """Number a piece; a row larger than a buffer takes several, and ends in the last one."""
        size = self._buffer_bytes
        if fill[channel] + nbytes <= size:
            fill[channel] += nbytes
            return [[number[channel], rows, nbytes]]
        found = []
        while nbytes > size:
            number[channel] += 1
            found.append([number[channel], 0, size])
            nbytes -= size
        number[channel] += 1
        fill[channel] = nbytes
        return [*found, [number[channel], rows, nbytes]]
