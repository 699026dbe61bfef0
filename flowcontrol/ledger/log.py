"""Follow a Delta table's transaction log, commit by commit.

A neighbour's row must be seen within a millisecond of its commit, so the log is followed
file by file instead of through a table handle (which costs several milliseconds a look).
Only reading is done here; what is committed goes through delta-rs (:mod:`.commit`).
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from flowcontrol.errors import LedgerError
from flowcontrol.ledger.storage import Storage

__all__ = ["Add", "Commit", "DeltaLog"]

CHECK_EVERY_S = 1.0
"""How often it is asked whether the log was cleaned away in front of a reader that waits."""


@dataclass(frozen=True)
class Add:
    """A file that a commit adds.

    Attributes
    ----------
    path : str
        Relative to the table.
    partition : dict of str to str
        Partition values.
    stats : dict
        Statistics of the file, with whatever the writer put beside them.
    added_ms : int
        When the writer added it, Unix time, milliseconds.
    """

    path: str
    partition: dict[str, str]
    stats: dict[str, Any]
    added_ms: int = 0


@dataclass
class Commit:
    """What one commit (or one checkpoint) says."""

    version: int
    adds: list[Add] = field(default_factory=list)
    removes: list[str] = field(default_factory=list)


class DeltaLog:
    """A position in a table's log that moves forward.

    Parameters
    ----------
    path : Path or Storage
        The table.

    Attributes
    ----------
    version : int
        Last commit that was read; -1 before the first.
    """

    def __init__(self, path: Path | Storage) -> None:
        self.path = path
        self.version = -1
        self._checked_at = float("-inf")
        self._storage = path if isinstance(path, Storage) else Storage(path)

    def poll(self) -> Iterator[Commit]:
        """Yield the commits that are there and have not been read.

        Yields
        ------
        Commit
            In order. The first may be a checkpoint, which stands for all before it.

        Raises
        ------
        LedgerError
            If the table does not exist.
        """
        if self.version < 0:
            checkpoint = self._checkpoint_version()
            if checkpoint >= 0:
                self.version = checkpoint
                yield self._read_checkpoint(checkpoint)
        while True:
            try:
                text = self._storage.read(self._commit_file(self.version + 1))
            except FileNotFoundError:
                break
            self.version += 1
            yield _parse(self.version, text.decode())
        if self.version < 0:
            raise LedgerError(f"{self.path}: no Delta table stands here")

    def restart_if_cut_off(self) -> bool:
        """Begin again at the newest checkpoint if the log was cleaned behind this position.

        Returns
        -------
        bool
            Whether it did: what was learned from the log before must be forgotten, since what
            was removed meanwhile is not told.
        """
        now = time.monotonic()
        if now - self._checked_at < CHECK_EVERY_S:
            return False
        self._checked_at = now
        if not self._is_cut_off():
            return False
        self.version = -1
        return True

    @staticmethod
    def _commit_file(version: int) -> str:
        return f"_delta_log/{version:020d}.json"

    def check_reachable(self) -> None:
        """Make sure that the next commit can still come; for who has waited long.

        Raises
        ------
        LedgerError
            If the log was cleaned behind this position.
        """
        if self._is_cut_off():
            raise LedgerError(
                f"{self.path}: commit {self.version + 1} was cleaned from the log before it was "
                "read; start again from the table"
            )

    def _checkpoint_version(self) -> int:
        try:
            return int(json.loads(self._storage.read("_delta_log/_last_checkpoint"))["version"])
        except FileNotFoundError:
            return -1

    def _is_cut_off(self) -> bool:
        """Whether later commits stand in the log although the next one does not."""
        if self._storage.exists(self._commit_file(self.version + 1)):
            return False
        return self._checkpoint_version() > self.version

    def _read_checkpoint(self, version: int) -> Commit:
        import pyarrow.parquet as pq

        with self._storage.open_input(f"_delta_log/{version:020d}.checkpoint.parquet") as file:
            table = pq.read_table(file, columns=["add"])
        commit = Commit(version)
        for add in table.column("add").to_pylist():
            if add is not None:
                partition, stats = dict(add["partitionValues"]), _stats(add["stats"])
                commit.adds.append(Add(add["path"], partition, stats, add["modificationTime"]))
        return commit


def _parse(version: int, text: str) -> Commit:
    commit = Commit(version)
    for line in text.splitlines():
        action = json.loads(line)
        if "add" in action:
            add = action["add"]
            partition, stats = add.get("partitionValues") or {}, _stats(add.get("stats"))
            commit.adds.append(Add(add["path"], partition, stats, add["modificationTime"]))
        elif "remove" in action:
            commit.removes.append(action["remove"]["path"])
    return commit


def _stats(text: str | None) -> dict[str, Any]:
    return json.loads(text) if text else {}
