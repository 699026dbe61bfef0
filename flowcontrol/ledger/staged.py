"""Transactions of a sink as staged files: they lie in its table's folder, and no commit names them.

A transaction's rows become visible when one commit of the table names its files, and are gone when
the files are. Which file belongs to which transaction is for the caller to keep, in whatever
survives a kill: :meth:`StagedFiles.state` after each batch.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from flowcontrol.ledger.exchange import PackedFile
from flowcontrol.protocol.commits.two_phase import is_expired

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
