"""The exchange log of a link: the rows that its channels carry, as files named in commits.

A writer task packs the rows of a round into one Parquet file, sorted by receiver. The commit
that names the file holds its index beside the statistics: per receiver the number of the
first record on that channel, the first row of the file, and how many there are. A buffer of a
channel is then a range of record numbers. Only files named in a commit exist. The table that a sink
writes is committed the same way.

A sender that was restored from a checkpoint numbers its records from its cut on again: what a
later round wrote under a number takes the place of what earlier rounds wrote from it on.
"""

import time
from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa

from flowcontrol.errors import LedgerError
from flowcontrol.ledger.commit import NewFile, Writer, create_table
from flowcontrol.ledger.log import Add, DeltaLog, files_of
from flowcontrol.ledger.run_tables import RESTORE_RUN

TRIM_EVERY = 32
"""Rounds between trims: a trim takes the consumed files out in the round's own commit."""

PARTITIONS = ("batch_id", "sender")


@dataclass(frozen=True)
class PackedFile:
    """A file that a writer task has packed."""

    path: str  # Relative to the exchange log
    sender: int  # Subtask that wrote it
    nbytes: int  # nbytes, rows: size of the file in bytes, rows in it
    rows: int
    # Per receiver: receiver, number of its first record on the channel, first row, rows.
    index: tuple[tuple[int, int, int, int], ...]


@dataclass(frozen=True)
class Span:
    """Rows of one file, in order: a part of what a channel carries."""

    path: str  # The file
    first_row: int  # first_row, rows: where they begin in it, and how many
    rows: int
    # What counts as the round of their emission; None: what the rows say.
    emitted: int | None = None

    def is_before(self, other: "Span") -> bool:
        """Tell whether other rows are the next ones of the file, and of the same emission."""
        behind = self.first_row + self.rows
        return (self.path, behind, self.emitted) == (other.path, other.first_row, other.emitted)


class _Placed(NamedTuple):
    """A span, by the number of its first record on the channel."""

    first: int
    span: Span

    @property
    def end(self) -> int:
        """Number of the record after its last one."""
        return self.first + self.span.rows


class ExchangeView:
    """Positions of the records of every channel.

    ``run_id``: identity of the run; a commit of another one is refused.
    """

    def __init__(self, path: Path, run_id: str | None = None) -> None:
        self.path = path
        self._log = DeltaLog(path, run_id)
        self._spans: dict[tuple[int, int], list[_Placed]] = {}

    def refresh(self) -> None:
        """Read the commits since the last refresh."""
        for commit in self._log.poll():
            for add in sorted(commit.adds, key=_batch):
                for receiver, first, row, rows in add.stats.get("channels", ()):
                    channel = (int(add.partition["sender"]), receiver)
                    span = Span(str(self.path / add.path), row, rows)
                    self._append(self._spans.setdefault(channel, []), first, span)
            if commit.removes:
                self._forget({str(self.path / path) for path in commit.removes})

    @staticmethod
    def _append(spans: list[_Placed], first: int, span: Span) -> None:
        """Add what a later round wrote: it takes the place of all numbers from its first one on."""
        while spans and spans[-1].first >= first:
            spans.pop()
        if spans and spans[-1].end > first:
            before = spans.pop()
            cut_off = replace(before.span, rows=first - before.first)
            spans.append(_Placed(before.first, cut_off))
        spans.append(_Placed(first, span))

    def _forget(self, paths: set[str]) -> None:
        """Forget files that were trimmed."""
        for channel, spans in self._spans.items():
            self._spans[channel] = [one for one in spans if one.span.path not in paths]

    def end_of(self, sender: int, receiver: int) -> int:
        """Return the number of the record behind the last one that is known of a channel."""
        spans = self._spans.get((sender, receiver))
        return spans[-1].end if spans else 0

    def locate(self, sender: int, receiver: int, first: int, count: int) -> list[Span]:
        """Return the positions of the records ``first`` to ``first + count`` of a channel.

        Raises LedgerError if some of them are not in the log (any more).
        """
        found, wanted = [], first
        spans = self._spans.get((sender, receiver), [])
        place = max(0, bisect_right(spans, first, key=lambda one: one.first) - 1)
        while place < len(spans) and spans[place].first <= wanted < first + count:
            span, skip = spans[place].span, wanted - spans[place].first
            rows = min(span.rows - skip, first + count - wanted)
            if rows > 0:
                found.append(Span(span.path, span.first_row + skip, rows))
                wanted += rows
            place += 1
        if wanted < first + count:
            raise LedgerError(
                f"{self.path}: channel {sender}->{receiver} holds no records "
                f"{wanted} to {first + count}: they were trimmed or never written, or a commit is "
                f"gone. {RESTORE_RUN}"
            )
        return found


class Exchange:
    """The exchange log as the sender writes it.

    - ``path``: the table; created if it is not there.
    - ``schema``: columns of the rows, hidden ones included, partition columns not.
    """

    def __init__(self, path: Path, schema: pa.Schema, run_id: str) -> None:
        full = schema
        for name in PARTITIONS:
            full = full.append(pa.field(name, pa.int64()))
        create_table(path, full, "Rows on their way over a link.", PARTITIONS)
        self.path = path
        self._writer = Writer(path, f"{run_id}/exchange", appends=True)
        self._live: deque[tuple[NewFile, dict[tuple[int, int], int]]] = deque()
        files = sorted(files_of(path, run_id).values(), key=_batch)
        for add in files:
            self._live.append((_named(add), _ends(add.partition, add.stats["channels"])))
        # Rounds without rows have no commit, so a trim cannot wait for one of a certain number.
        last = max((_batch(add) for add in files), default=-1)
        self._trims = (last + 1) // TRIM_EVERY

    def is_committed(self, batch_id: int) -> bool:
        """Whether the rows of a batch are in the log."""
        return self._writer.last_batch() >= batch_id

    def commit(
        self,
        batch_id: int,
        files: Sequence[PackedFile],
        taken: Callable[[], Mapping[tuple[int, int], int]],
    ) -> bool:
        """Commit the files of a round; False if the round was there.

        ``taken``: asked when the log is to be trimmed. Returns, per channel (sender, receiver), the
        records that the receiver has taken up for good: what lies wholly before them goes.
        """
        adds = []
        for file in files:
            partition = {"batch_id": str(batch_id), "sender": str(file.sender)}
            stats = {"channels": [list(entry) for entry in file.index]}
            adds.append(NewFile(file.path, file.nbytes, file.rows, stats, partition))
        removes: list[NewFile] = []
        if (batch_id + 1) // TRIM_EVERY > self._trims:
            removes = self._consumed(taken())
        done = self._writer.commit(batch_id, adds, removes)
        if not done:
            return False
        self._trims = (batch_id + 1) // TRIM_EVERY
        for added, file in zip(adds, files, strict=True):
            self._live.append((added, _ends({"sender": str(file.sender)}, file.index)))
        gone = {file.path for file in removes}
        self._live = deque(live for live in self._live if live[0].path not in gone)
        for path in gone:
            (self.path / path).unlink(missing_ok=True)
        return True

    def _consumed(self, taken: Mapping[tuple[int, int], int]) -> list[NewFile]:
        return [
            file
            for file, ends in self._live
            if all(taken.get(channel, 0) >= end for channel, end in ends.items())
        ]


def sweep(path: Path, older_than_s: float = 3600.0) -> int:
    """Delete data files that no commit names and that are old; return how many.

    A failed or retried task leaves a file that was never committed. Age keeps the files of
    tasks that are still at work.
    """
    named = files_of(path)
    swept, limit = 0, time.time() - older_than_s
    for file in path.rglob("*.parquet"):
        relative = file.relative_to(path)
        if relative.parts[0] == "_delta_log" or str(relative) in named:
            continue
        if file.stat().st_mtime < limit:
            file.unlink(missing_ok=True)
            swept += 1
    return swept


def _batch(add: Add) -> int:
    return int(add.partition["batch_id"])


def _named(add: Add) -> NewFile:
    return NewFile(add.path, add.nbytes, add.stats["numRecords"], add.stats, add.partition)


def _ends(
    partition: Mapping[str, str], index: Sequence[Sequence[int]]
) -> dict[tuple[int, int], int]:
    """Number of the record after the last one in a file, per channel."""
    sender = int(partition["sender"])
    return {(sender, receiver): first + rows for receiver, first, _, rows in index}


class OutputTable:
    """A sink's table.

    - ``path``: the table; created if it is not there.
    - ``app_id``: application id; the batch id is the version, so that a repeated batch adds nothing
      (Delta: idempotent writes in foreachBatch).
    """

    def __init__(self, path: Path, schema: pa.Schema, app_id: str) -> None:
        create_table(path, schema, "Rows that a sink has written.", for_users=True)
        self.path = path
        self._writer = Writer(path, app_id, for_users=True)

    def commit(self, batch_id: int, files: Sequence[PackedFile]) -> bool:
        """Commit the files of a batch; False if the batch was there."""
        adds = [NewFile(file.path, file.nbytes, file.rows) for file in files]
        return self._writer.commit(batch_id, adds)
