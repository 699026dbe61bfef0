"""The exchange log of a plug-in link: rows cut into messages, as files named in commits.

A commit holds the rows of one source batch of one sender. A file's statistics include its
index: per channel the first row, the number of its first record, and the pieces of messages that
lie there in order. A message is cut at the link's size of buffer, may lie in several files of one
commit, and never continues in the next commit: a flushed slice is a message of its own.
"""

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import NamedTuple

import pyarrow as pa

from flowcontrol.errors import DamagedError, FencedError, LinkError
from flowcontrol.ledger.commit import Writer, create_table
from flowcontrol.ledger.link_index import (
    BatchEntry,
    ChannelEnd,
    ChannelLog,
    Extent,
    FileEntry,
    Numbering,
    PackedRows,
)
from flowcontrol.ledger.log import Add, Commit, NewFile, TableView, check_seal, sealed, sweep
from flowcontrol.ledger.storage import RESTORE, Storage, writing

SENDER = "link_sender"
"""Partition column of the log: index of the sender. Few users have a column of that name."""


class LoggedFile(NamedTuple):
    """A file of the log."""

    sender: int
    nbytes: int
    footer: tuple[int, int]  # Size and digest of the file's end
    schema: int  # Version of the link's columns
    ends: dict[int, int]  # Per channel the number of the message after its last one


class Newest(NamedTuple):
    """The last source batch of a sender."""

    batch: int = -1  # Its number; -1 before the first
    rows: int = 0
    source: str | None = None  # What identifies its rows, if that was known
    ends: tuple[ChannelEnd, ...] = ()  # Where the sender's channels end
    files: frozenset[str] = frozenset()  # Its files, as they came into the log

    @property
    def by_channel(self) -> dict[int, ChannelEnd]:
        """The ends by the channel's number."""
        return {end.channel: end for end in self.ends}


class LinkLog(TableView):
    """Index of the records of every channel of a link.

    - ``channels``: by sender and channel.
    - ``files``: the files in the log, by path.
    """

    def __init__(self, storage: Storage) -> None:
        super().__init__(storage)
        self.storage = storage

    def _forget(self) -> None:
        self.channels: dict[tuple[int, int], ChannelLog] = {}
        self.files: dict[str, LoggedFile] = {}
        self._newest: dict[int, Newest] = {}

    def _take(self, commit: Commit) -> None:
        for path in commit.removes:
            self._drop(path)
        entries = [(add, self._read(commit.version, add)) for add in commit.adds]
        entries.sort(key=lambda entry: _place(*entry))
        with self._of(commit.version):
            for add, entry in entries:
                self._note(add, entry)
            self._check(commit, entries)

    def _read(self, version: int, add: Add) -> FileEntry:
        return FileEntry.from_stats(check_seal(self.storage, version, add))

    @contextmanager
    def _of(self, version: int) -> Iterator[None]:
        """Say which commit does not fit to those before it."""
        try:
            yield
        except LinkError as error:
            raise DamagedError(
                f"{self.storage}/_delta_log: commit {version}, or its checkpoint, does not fit to "
                f"what is there: {error}. A commit is missing or damaged. {RESTORE}"
            ) from error

    def _drop(self, path: str) -> None:
        """Forget a file that was trimmed, and the messages that end in it: all consumed."""
        file = self.files.pop(path, None)
        if file is not None:
            for channel, end in file.ends.items():
                self.channel(file.sender, channel).forget(end)

    def _note(self, add: Add, entry: FileEntry) -> None:
        sender = int(add.partition[SENDER])
        ends: dict[int, int] = {}
        for line in entry.lines:
            log = self.channel(sender, line.channel)
            for piece in line.read(add.path):
                log.add(piece)
                ends[line.channel] = piece.number + 1
        self.files[add.path] = LoggedFile(sender, entry.nbytes, entry.footer, entry.schema, ends)

    def _check(self, commit: Commit, entries: list[tuple[Add, FileEntry]]) -> None:
        """Make sure that nothing is missing of what the newest batch of each sender says."""
        newest: dict[int, list[tuple[str, FileEntry]]] = {}
        for add, entry in entries:
            batch = newest.setdefault(int(add.partition[SENDER]), [])
            if batch and batch[-1][1].batch != entry.batch:
                batch.clear()
            batch.append((add.path, entry))
        for sender, batch in newest.items():
            own, paths = [entry for _, entry in batch], frozenset(path for path, _ in batch)
            head = own[0].head
            if head is None or [entry.file for entry in own] != list(range(own[0].files)):
                raise LinkError(
                    f"batch {own[0].batch} of sender {sender} has {own[0].files} files, found are "
                    f"{[entry.file for entry in own]}"
                )
            rows = sum(entry.rows for entry in own)
            self._newest[sender] = Newest(own[0].batch, rows, head.source, tuple(head.ends), paths)
            for end in head.ends:
                self._check_channel(sender, end, is_whole=commit.is_checkpoint)

    def _check_channel(self, sender: int, known: ChannelEnd, *, is_whole: bool) -> None:
        log = self.channel(sender, known.channel)
        log.settle()
        if log.end < known.end <= known.kept:
            log.begin_at(known.end, known.records)
        is_short = is_whole and log.first > known.kept
        if (log.end, log.records) != (known.end, known.records) or is_short:
            raise LinkError(
                f"channel {known.channel} of sender {sender} should have the messages "
                f"{known.kept} to {known.end}, up to record {known.records}; there are "
                f"{log.first} to {log.end}, up to record {log.records}"
            )

    def channel(self, sender: int, channel: int) -> ChannelLog:
        """Return a channel; an empty one if it has never had a record."""
        return self.channels.setdefault((sender, channel), ChannelLog())

    def newest(self, sender: int) -> Newest:
        """Return the last source batch of a sender."""
        return self._newest.get(sender, Newest())

    def check_newest(self, sender: int, batch: int) -> None:
        """Make sure that the newest rows of a sender are those of its last transaction.

        Raises DamagedError if they are of another batch.
        """
        found = self.newest(sender).batch
        if found != batch:
            raise DamagedError(
                f"{self.storage}/_delta_log: the last transaction of sender {sender} is batch "
                f"{batch}, its newest rows are of batch {found}: a commit is missing or damaged. "
                f"{RESTORE}"
            )

    def check_holds(self, sender: int, channel: int, written: int, records: int) -> None:
        """Make sure that the log goes as far as the ledger says.

        Raises DamagedError if it ends before: its newest commits were deleted.
        """
        if self.channel(sender, channel).end < written:
            self.refresh(at_once=True)  # the log may have been cleaned where it was to be read on
        log = self.channel(sender, channel)
        if log.end < written:
            raise DamagedError(
                f"{self.storage}/_delta_log ends with commit {self._log.version}, at record "
                f"{log.records} of channel {channel} of sender {sender}; the ledger knows of "
                f"{records}: {self._log.next_file} was deleted or the folder was put back to an "
                f"earlier time; the files of its rows may still be there. {RESTORE}"
            )

    def extents(self, sender: int, channel: int, start: int, end: int) -> list[Extent]:
        """Return the places of the records ``start`` to ``end`` of a channel.

        Raises LinkError if some of them are not in the log any more.
        """
        if start >= end:
            return []
        log = self.channel(sender, channel)
        if start < log.start or end > log.records:
            raise LinkError(
                f"{self.storage}: the records {start} to {end} of channel {channel} of sender "
                f"{sender} are asked for, the log holds {log.start} to {log.records}: what was "
                "consumed has been trimmed; the checkpoint is older than the link's ledger. Start "
                "the query with a new checkpoint and .option('reset', True)"
            )
        found = log.extents(start, end)
        record = start
        for extent in found:
            if extent.record != record:
                break
            record = extent.end
        if record != end:
            raise DamagedError(
                f"{self.storage}: the records {start} to {end} of channel {channel} of sender "
                f"{sender} are asked for, the log has them up to {record} only: an entry of "
                f"_delta_log is missing. {RESTORE}"
            )
        return found

    def consumed_files(self, sender: int, consumed: Mapping[int, int]) -> list[tuple[str, int]]:
        """Return name and size of a sender's files of which all messages are consumed."""
        return [
            (path, file.nbytes)
            for path, file in self.files.items()
            if file.sender == sender
            and all(consumed.get(c, 0) >= end for c, end in file.ends.items())
        ]


def _place(add: Add, entry: FileEntry) -> tuple[int, int, int]:
    """Sender, batch, and file of the batch: the order in which rows are to be read."""
    return int(add.partition[SENDER]), entry.batch, entry.file


# --- A sender's writes to a link's exchange log: number messages, commit files, trim.


MOST_REMOVES = 256
"""Files trimmed by one commit."""

SWEEP_EVERY_S = 3600.0
"""Time between two sweeps for files that no commit names."""


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
        last, as_of_s = self._writer.last_batch(), time.time()
        self.log.refresh_beyond(self._writer.seen)
        self.log.check_newest(self.sender, last)
        self._sweep(as_of_s)
        return epoch

    def join(self, epoch: int) -> None:
        """Write in a place that another process has claimed.

        Raises FencedError if it was taken over since.
        """
        if not self._writer.join(epoch):
            raise FencedError(
                f"{self.storage}: sender {self.sender} has been taken over since its start began "
                f"with epoch {epoch}: stop one of the two queries"
            )
        self.log.refresh_beyond(self._writer.seen)
        self.log.check_newest(self.sender, self._writer.last_batch())

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
        disk is full, or cannot be written for another reason, or the commit cannot be read again.
        """
        partition, adds = {SENDER: str(self.sender)}, []
        entries = self._entries(batch_id, files, consumed, source)
        for file, entry in zip(files, entries, strict=True):
            stats = sealed(file.path, partition, entry.to_stats())
            adds.append(NewFile(file.path, file.nbytes, file.rows, stats, partition))
        old = self.log.consumed_files(self.sender, consumed)[:MOST_REMOVES]
        removes = [NewFile(path, size, 0, partition=partition) for path, size in old]
        with writing(self.storage, f"batch {batch_id}"):
            done = self._writer.commit(batch_id, adds, removes)
        as_of_s = time.time()
        self.log.refresh_beyond(self._writer.seen)
        if self.log.newest(self.sender).batch < batch_id:  # the log was cleaned behind this view
            self.log.refresh(at_once=True)
        if self.log.newest(self.sender).batch < batch_id:
            raise LinkError(
                f"{self.storage}: batch {batch_id} of sender {self.sender} cannot be read again: "
                "its commit lies behind a checkpoint without it, as this process was held up while "
                "others cleaned the log. Nothing of it counts; start the query again"
            )
        self._sweep(as_of_s)  # now, when no task of this sender is writing
        return done

    def _entries(
        self,
        batch_id: int,
        files: Sequence[PackedRows],
        consumed: Mapping[int, int],
        source: str | None,
    ) -> Iterator[FileEntry]:
        """Yield the entry of each file for the log; the first one's is also the batch's."""
        log, sender = self.log, self.sender
        known = {channel for owner, channel in log.channels if owner == sender}
        known |= {channel for file in files for channel, _ in file.channels}
        numbering = Numbering({c: log.channel(sender, c) for c in known}, self._buffer_bytes)
        lines = numbering.lines(files)
        head = BatchEntry(numbering.ends(consumed, log.newest(sender).by_channel), source)
        for number, (file, own) in enumerate(zip(files, lines, strict=True)):
            found = file.nbytes, file.rows, file.footer, self.schema
            first = None if number else head
            yield FileEntry(batch_id, number, len(files), *found, own, first)

    def _sweep(self, as_of_s: float) -> None:
        """Delete the sender's files that no commit names, from time to time."""
        if time.monotonic() - self._swept_at < SWEEP_EVERY_S:
            return
        self._swept_at = time.monotonic()
        folder = folder_of(self.sender)
        named = {path.removeprefix(f"{folder}/") for path in self.log.files}
        sweep(self.storage.child(folder), named, as_of_s=as_of_s)
