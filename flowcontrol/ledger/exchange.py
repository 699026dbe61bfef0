"""The exchange log of a link: the rows that its channels carry, as files named in commits.

A writer task packs the rows of a round into one Parquet file, sorted by receiver. The commit
that names the file holds its index beside the statistics: per receiver the number of the
first record on that channel, the first row of the file, and how many there are. A buffer of a
channel is then a range of record numbers. Only files named in a commit exist. The table that a sink
writes is committed the same way.

A sender that was restored from a checkpoint numbers its records from its cut on again: what a
later round wrote under a number takes the place of what earlier rounds wrote from it on.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa

from flowcontrol.errors import LedgerError
from flowcontrol.ledger.commit import Writer, create_table
from flowcontrol.ledger.log import Add, Commit, NewFile, TableView, files_of
from flowcontrol.ledger.storage import RESTORE_RUN
from flowcontrol.protocol.commits.transactions import is_expired

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

    def is_before(self, other: Span) -> bool:
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


class ExchangeView(TableView):
    """Positions of the records of every channel."""

    def __init__(self, path: Path, run_id: str | None = None) -> None:
        super().__init__(path, run_id)
        self.path = path

    def _forget(self) -> None:
        self._spans: dict[tuple[int, int], list[_Placed]] = {}

    def _take(self, commit: Commit) -> None:
        for add in sorted(commit.adds, key=_batch):
            for receiver, first, row, rows in add.stats.get("channels", ()):
                channel = (int(add.partition["sender"]), receiver)
                span = Span(str(self.path / add.path), row, rows)
                self._append(self._spans.setdefault(channel, []), first, span)
        if commit.removes:
            gone = {str(self.path / path) for path in commit.removes}
            for channel, spans in self._spans.items():
                self._spans[channel] = [one for one in spans if one.span.path not in gone]

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
        files = files_of(path, run_id).values()
        self._live = {
            add.path: (_named(add), _ends(add.partition, add.stats["channels"])) for add in files
        }
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
        if not self._writer.commit(batch_id, adds, removes):
            return False
        self._trims = (batch_id + 1) // TRIM_EVERY
        for added, file in zip(adds, files, strict=True):
            self._live[file.path] = added, _ends(added.partition, file.index)
        for gone in removes:
            del self._live[gone.path]
        return True

    def _consumed(self, taken: Mapping[tuple[int, int], int]) -> list[NewFile]:
        return [
            file
            for file, ends in self._live.values()
            if all(taken.get(channel, 0) >= end for channel, end in ends.items())
        ]


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


# --- Transactions of a sink as staged files: they lie in its table's folder, and no commit names
# them.
#
# A transaction's rows become visible when one commit of the table names its files, and are gone
# when the files are. Which file belongs to which transaction is for the caller to keep, in whatever
# survives a kill: :meth:`StagedFiles.state` after each batch.


PARTIAL = ".partial"
"""End of a file's name while it is written."""


class StagedFiles:
    """A transaction store of one subtask, whose rows are files.

    The store is that of :mod:`flowcontrol.protocol.commits.transactions`.

    It touches no file: what is to happen to them is done when all subtasks have said what they
    commit and abort. Until that is noted nothing of it is remembered elsewhere, so a kill in
    between repeats all of it; the same names are given again then.

    - ``longest``: a transaction that began more batches ago when it is committed is lost; None:
      never.
    - ``to_show``: files of transactions that were committed: whoever owns the table commits them,
      all subtasks' in one Delta transaction, and empties the list.
    - ``to_delete``: files of transactions that were aborted or lost, likewise.
    """

    def __init__(self, subtask: int, longest: int | None = None) -> None:
        self.subtask, self._longest = subtask, longest
        self.to_show: list[PackedFile] = []
        self.to_delete: list[PackedFile] = []
        self._begun, self._batch = 0, 0
        self._since: dict[str, int] = {}
        self._staged: dict[str, list[PackedFile]] = {}
        self._fresh: list[tuple[str, PackedFile]] = []

    @property
    def files(self) -> list[PackedFile]:
        """Files of all transactions that are neither committed nor aborted."""
        return [file for files in self._staged.values() for file in files]

    def begin_batch(self, number: int) -> None:
        """Note what a batch begins and stages from here on."""
        self._batch, self._fresh = number, []

    def begin(self) -> str:
        """Begin a transaction."""
        self._begun += 1
        name = f"{self.subtask}-{self._begun}"
        self._staged[name], self._since[name] = [], self._batch
        return name

    def write(self, name: str, row: PackedFile, /) -> None:
        """Stage a file in an open transaction."""
        self._staged[name].append(row)
        self._fresh.append((name, row))

    def flush(self, name: str, /) -> None:
        """Do nothing: the file is written, and noted with the batch."""

    def commit(self, name: str, /) -> None:
        """Have a transaction's files shown, or deleted if it is too old; nothing if it is over."""
        if name in self._since and is_expired(self._batch, self._since[name], self._longest):
            self.to_delete += self._end(name)
        else:
            self.to_show += self._end(name)

    def abort(self, name: str, /) -> None:
        """Have what is staged deleted; nothing if there is none."""
        self.to_delete += self._end(name)

    def keep(self, names: Collection[str]) -> None:
        """Abort all transactions but these, as the timeout of another store does in the end."""
        for name in [name for name in self._staged if name not in names]:
            self.abort(name)

    def _end(self, name: str) -> list[PackedFile]:
        self._since.pop(name, None)
        return self._staged.pop(name, [])

    def state(self) -> dict[str, Any]:
        """Return what it remembers as plain JSON: of files those of the batch only."""
        files = [[name, file.path, file.nbytes, file.rows] for name, file in self._fresh]
        return {"begun": self._begun, "since": self._since, "files": files}

    def restore(self, states: Sequence[Mapping[str, Any]]) -> None:
        """Go on from what :meth:`state` returned after a batch.

        ``states``: those after the batches since :func:`oldest_batch` of the last one, in order.
        """
        last = states[-1]
        self._begun, self._since = last["begun"], dict(last["since"])
        self._staged = {name: [] for name in self._since}
        for state in states:
            for name, path, nbytes, rows in state["files"]:
                if name in self._staged:
                    self._staged[name].append(PackedFile(path, self.subtask, nbytes, rows, ()))


def oldest_batch(state: Mapping[str, Any], last: int) -> int:
    """Return the first batch whose files may be staged after the batch ``last``."""
    return min(state["since"].values(), default=last)


def sweep_staged(root: Path, prefix: str) -> int:
    """Delete files that a killed sink has not written to their end; return how many.

    Whatever else it left is staged: a round that is run again gives its files the same names.
    """
    found = list(root.glob(f"{prefix}*{PARTIAL}"))
    for file in found:
        file.unlink(missing_ok=True)
    return len(found)
