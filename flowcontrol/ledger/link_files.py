"""A sender's writes to a link's exchange log: number messages, commit files, trim."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace

import pyarrow as pa

from flowcontrol.ledger.commit import NewFile, Writer, create_table
from flowcontrol.ledger.link_index import BatchEntry, FileEntry, Numbering, PackedRows
from flowcontrol.ledger.link_log import SENDER, LinkLog
from flowcontrol.ledger.seals import sealed
from flowcontrol.ledger.storage import Storage, writing

MOST_REMOVES = 256
"""Files trimmed by one commit."""

SWEEP_EVERY_S = 3600.0
"""Time between two sweeps for files that no commit names, and their least age: failed, repeated and
killed tasks leave some."""


def folder_of(sender: int) -> str:
    """Return the folder of a sender's files in the log."""
    return f"{SENDER}={sender}"


def create_log(storage: Storage, schema: pa.Schema) -> None:
    """Create an empty exchange log unless it is there."""
    full = schema.append(pa.field(SENDER, pa.int64()))
    create_table(storage, full, "Rows on their way over a link.", [SENDER])


class LinkFiles:
    """One sender's files.

    - ``storage``: the exchange log's table; it exists.
    - ``buffer_bytes``: size of a message, bytes.
    - ``schema``: version of the link's columns that the rows have.
    """

    def __init__(self, storage: Storage, app_id: str, sender: int, buffer_bytes: int) -> None:
        self.storage, self.sender, self.schema = storage, sender, 0
        self.log = LinkLog(storage)
        self._buffer_bytes = buffer_bytes
        self.log.refresh()  # first: it names a file that is damaged
        self._writer = Writer(storage, app_id)
        self._swept_at = float("-inf")

    def claim(self) -> int:
        """Take the sender's place over; return the epoch."""
        with writing(self.storage, f"the claim of sender {self.sender}"):
            epoch = self._writer.claim()
        last = self._writer.last_batch()
        self.log.refresh()
        self.log.check_newest(self.sender, last)
        self._sweep()
        return epoch

    def last_batch(self) -> int:
        """Return the last source batch whose rows are in the log; -1 before the first."""
        return self._writer.last_batch()

    def commit(
        self,
        batch_id: int,
        files: Sequence[PackedRows],
        consumed: Mapping[int, int],
        source: str | None = None,
    ) -> bool:
        """Commit the rows of a source batch; False if it was there.

        - ``batch_id``: number of the batch; it only grows.
        - ``files``: in the order in which their rows are to be read.

        Raises FencedError if another process has taken the sender's place. Raises LinkError if the
        disk is full, or cannot be written for another reason.
        """
        partition = {SENDER: str(self.sender)}
        head = BatchEntry([], source)
        adds = [
            NewFile(
                file.path,
                file.nbytes,
                file.rows,
                sealed(file.path, partition, entry.to_stats()),
                partition,
            )
            for file, entry in zip(
                files, self._entries(batch_id, files, consumed, head), strict=True
            )
        ]
        old = self.log.consumed_files(self.sender, consumed)[:MOST_REMOVES]
        removes = [NewFile(path, size, 0, partition=partition) for path, size in old]
        with writing(self.storage, f"batch {batch_id}"):
            done = self._writer.commit(batch_id, adds, removes)
        self.log.refresh()
        for path, _ in old if done else []:
            self.storage.delete(path)
        self._sweep()  # now, when no task of this sender is writing
        return done

    def _entries(
        self,
        batch_id: int,
        files: Sequence[PackedRows],
        consumed: Mapping[int, int],
        head: BatchEntry,
    ) -> list[FileEntry]:
        """Return the entry of each file for the log."""
        log, sender = self.log, self.sender
        known = {channel for owner, channel in log.channels if owner == sender}
        known |= {channel for file in files for channel, _ in file.channels}
        numbering = Numbering({c: log.channel(sender, c) for c in known}, self._buffer_bytes)
        lines = numbering.lines(files)
        head = replace(head, ends=numbering.ends(consumed, log.newest(sender).by_channel))
        return [
            FileEntry(
                batch_id,
                number,
                len(files),
                file.nbytes,
                file.rows,
                file.footer,
                self.schema,
                own,
                None if number else head,
            )
            for number, (file, own) in enumerate(zip(files, lines, strict=True))
        ]

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
