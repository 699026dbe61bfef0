"""Follow a Delta table's transaction log, commit by commit.

A neighbour's row must be seen within a millisecond of its commit, so the log is followed
file by file instead of through a table handle (which takes several milliseconds per poll).
Only reading is done here; what is committed goes through delta-rs (:mod:`.commit`).
"""

from __future__ import annotations

import json
import re
import time
import zlib
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from flowcontrol.errors import DamagedError, LedgerError
from flowcontrol.ledger.storage import (
    RESTORE,
    Storage,
    as_storage,
    check_writers,
    damage_named,
    remedy,
)

KNOWN = {
    *("add", "cdc", "checkpointMetadata", "commitInfo", "domainMetadata", "metaData"),
    *("protocol", "remove", "sidecar", "txn"),
}
"""Actions of Delta's protocol. Another word is a damaged one."""

LAST = {"metaData", "protocol", "txn"}
"""One of these is the last action of every commit that a ledger, or a link, makes."""

_COMMIT = re.compile(r"\d{20}\.json")
_CHECKPOINT = re.compile(r"(\d{20})\.checkpoint\.parquet")

ATTEMPTS = 20
"""Attempts to read a log from its newest checkpoint without others cleaning it meanwhile."""

CHECK_EVERY_S = 1.0
"""Interval at which a waiting reader checks whether the log was cleaned, seconds."""

LIST_EVERY_S = 60.0
"""Interval at which it lists a store's log for that, s: the hint may name an older checkpoint."""


@dataclass(frozen=True)
class Add:
    """A file that a commit adds."""

    path: str  # Relative to the table
    partition: dict[str, str]  # Partition values
    stats: dict[str, Any]  # Statistics of the file, with the writer's additions
    added_ms: int = 0  # When the writer added it, Unix time, milliseconds
    nbytes: int = 0  # Size of the file


EPOCH: Final = "/epoch"
"""What follows a writer's application id in that of its epoch."""


@dataclass(frozen=True)
class NewFile:
    """A file to be added."""

    path: str  # Relative to the table
    nbytes: int  # Size of the file
    rows: int  # Rows in it
    # What to keep beside the statistics in the log.
    stats: Mapping[str, object] = field(default_factory=dict)
    partition: Mapping[str, str] = field(default_factory=dict)  # Partition values


@dataclass
class Commit:
    """The content of a commit or a checkpoint."""

    version: int
    adds: list[Add] = field(default_factory=list)
    removes: list[str] = field(default_factory=list)
    is_checkpoint: bool = False
    writers: set[str] = field(default_factory=set)
    """Application ids of its transactions."""
    epochs: dict[str, int] = field(default_factory=dict)
    """Epoch of each writer that it names, by the writer's application id; none of a checkpoint."""
    at_ms: int = 0
    """When it was made, Unix time, milliseconds; 0 for a checkpoint."""


def noted_checkpoint(storage: Storage) -> int:
    """Return a table's newest checkpoint; the file that names it is a hint, and may be damaged."""
    try:
        return int(json.loads(storage.read("_delta_log/_last_checkpoint"))["version"])
    except FileNotFoundError:
        return -1
    except (ValueError, KeyError, TypeError):
        return listed_checkpoint(storage)


def newer_checkpoint(storage: Storage, than: int) -> int:
    """Return a table's newest checkpoint; three looks may find none newer than ``than``.

    A listing on a disk may miss a checkpoint that replaces another meanwhile, and the hint may be
    of one who was slow.
    """
    for _ in range(3):
        found = max(noted_checkpoint(storage), listed_checkpoint(storage))
        if found > than:
            break
    return found


def listed_checkpoint(storage: Storage) -> int:
    """Return the newest checkpoint in a table's log."""
    names = storage.child("_delta_log").names()
    found = [_CHECKPOINT.fullmatch(name) for name in names]
    return max((int(match[1]) for match in found if match), default=-1)


class DeltaLog:
    """A position in a table's log that moves forward.

    - ``run_id``: identity of the run that alone writes it; a commit of another one is refused.
    - ``version``: last commit that was read; -1 before the first.
    """

    def __init__(self, path: Path | Storage, run_id: str | None = None) -> None:
        self.path = path
        self._run_id = run_id
        self.version = -1
        self._checked_at = self._listed_at = float("-inf")
        self._storage = as_storage(path)

    def poll(self) -> Iterator[Commit]:
        """Yield the commits that have not been read.

        In order. The first may be a checkpoint, which replaces all earlier ones. Raises LedgerError
        if the table does not exist, or others clean its log faster than it can be read.
        """
        if self.version < 0:
            yield from self._whole()
        else:
            yield from self._next()
        if self.version < 0:
            raise LedgerError(f"{self.path}: no Delta table stands here")

    def _whole(self) -> list[Commit]:
        """Return all commits, from the newest checkpoint on.

        Others may write a newer one meanwhile and clean away what has not been read yet: then what
        was read is thrown away.
        """
        for attempt in range(ATTEMPTS):
            found = []
            checkpoint = self._newest_checkpoint(lists=attempt > 0)
            if checkpoint is not None:
                self.version = checkpoint.version
                found.append(checkpoint)
            found += self._next()
            if not self._is_cut_off():  # raises if a commit is missing before others
                return found
            self.version = -1
        raise LedgerError(
            f"{self.path}: others cleaned the log {ATTEMPTS} times while it was read; try again"
        )

    def _next(self) -> Iterator[Commit]:
        while True:
            name = self.next_file
            try:
                text = self._storage.read(name)
            except FileNotFoundError:
                break
            self.version += 1
            with damage_named(self.path, name):
                commit = _parse(self.version, text.decode())
            check_writers(f"{self.path}/{name}", commit.writers, self._run_id)
            yield commit

    def is_there(self) -> bool:
        """Whether there is a table; its folder is there before its first commit."""
        if self._storage.exists(self._commit_file(0)):
            return True
        return max(noted_checkpoint(self._storage), listed_checkpoint(self._storage)) >= 0

    def follow(self, forget: Callable[[], None], *, at_once: bool = False) -> Iterator[Commit]:
        """Yield what :meth:`poll` does, from the newest checkpoint on if the log was cleaned.

        ``at_once``: check for missing commits now, even if the last check was less than
        :data:`CHECK_EVERY_S` ago.
        """
        yield from self.poll()
        if self._restart_if_cut_off(at_once):
            forget()
            yield from self.poll()

    def _restart_if_cut_off(self, at_once: bool) -> bool:
        """Begin again at the newest checkpoint if the log was cleaned behind this position."""
        now = time.monotonic()
        if now - self._checked_at < CHECK_EVERY_S and not at_once:
            return False
        self._checked_at = now
        # On an object store a listing is a billed request: not once a second.
        lists = at_once or self._storage.is_local or now - self._listed_at >= LIST_EVERY_S
        if lists:
            self._listed_at = now
        if not self._is_cut_off(lists=lists):
            return False
        self.version = -1
        return True

    @property
    def next_file(self) -> str:
        """Name of the commit that would come next."""
        return self._commit_file(self.version + 1)

    @staticmethod
    def _commit_file(version: int) -> str:
        return f"_delta_log/{version:020d}.json"

    def check_reachable(self) -> None:
        """Make sure that the next commit can still be read, after a long wait.

        Raises LedgerError if the log was cleaned behind this position.
        """
        if self._is_cut_off():
            raise LedgerError(
                f"{self.path}: commit {self.version + 1} was cleaned from the log before it was "
                "read; start again from the table"
            )

    def _is_cut_off(self, *, lists: bool = True) -> bool:
        """Whether the log has later commits although the next one is not there.

        ``lists``: list the log to find any later commit; else check for the one after the next.

        Raises DamagedError if no checkpoint covers the missing one.
        """
        # Later commits first: one that is added between the two checks is no gap.
        is_last = noted_checkpoint(self._storage) <= self.version and not self._has_later(lists)
        if is_last or self._storage.exists(self.next_file):
            return False
        if newer_checkpoint(self._storage, self.version) <= self.version:
            raise DamagedError(
                f"{self.path}/{self.next_file} is missing although later commits are there. "
                f"{remedy(self.path)}"
            )
        return True

    def _has_later(self, lists: bool) -> bool:
        if not lists:
            return self._storage.exists(self._commit_file(self.version + 2))
        folder, _, following = self.next_file.rpartition("/")
        names = self._storage.child(folder).names()
        return any(name > following and _COMMIT.fullmatch(name) for name in names)

    def _newest_checkpoint(self, *, lists: bool) -> Commit | None:
        """Return what the newest checkpoint says, by the log's listing or its hint."""
        version = noted_checkpoint(self._storage)
        if lists:
            version = max(version, listed_checkpoint(self._storage))
        elif version < 0 and not self._storage.exists(self._commit_file(0)):
            version = listed_checkpoint(self._storage)
        while version >= 0:
            try:
                return self._read_checkpoint(version)
            except DamagedError:
                # The other one was cleaned away behind it. Of two who wrote one, the slower may
                # have named its own last: the folder knows.
                newer = newer_checkpoint(self._storage, version)
                if newer <= version:
                    raise
                version = newer
        return None

    def _read_checkpoint(self, version: int) -> Commit:
        import pyarrow.parquet as pq

        name = f"_delta_log/{version:020d}.checkpoint.parquet"
        with damage_named(self.path, name), self._storage.open_input(name) as file:
            commit = Commit(version, is_checkpoint=True)
            columns = ["add"] if self._run_id is None else ["add", "txn"]
            for row in pq.read_table(file, columns=columns).to_pylist():
                if row["add"] is not None:
                    commit.adds.append(_added(row["add"]))
                if row.get("txn") is not None:
                    commit.writers.add(row["txn"]["appId"])
            self._check_count(version, len(commit.adds))
        check_writers(f"{self.path}/{name}", commit.writers, self._run_id)
        return commit

    def _check_count(self, version: int, files: int) -> None:
        """Compare what a checkpoint names with what was noted when it was written."""
        try:
            noted = json.loads(self._storage.read("_delta_log/_last_checkpoint"))
            written = noted["numOfAddFiles"] if noted["version"] == version else files
        except (FileNotFoundError, ValueError, KeyError, TypeError):
            return  # a hint, and it may be damaged
        if written != files:
            raise ValueError(f"it names {files} files, written were {written}")


class TableView:
    """What has been committed to a table as of the last refresh: a ledger, a log, a state table.

    ``run_id``: identity of the run that alone writes it; a commit of another one is refused.
    """

    def __init__(self, place: Path | Storage, run_id: str | None = None) -> None:
        self._log = DeltaLog(place, run_id)
        self._forget()

    def _forget(self) -> None:
        """Begin anew: the next commit that is taken is the first, or a checkpoint."""
        raise NotImplementedError

    def _take(self, commit: Commit) -> None:
        """Note what a commit says."""
        raise NotImplementedError

    def refresh(self, *, at_once: bool = False) -> bool:
        """Read the commits since the last time; whether there were any.

        ``at_once``: check for missing commits now; else the check may be delayed by a second.

        Raises DamagedError if something that was written is missing, or is not what was written.
        """
        before = self._log.version
        for commit in self._log.follow(self._forget, at_once=at_once):
            self._take(commit)
        return self._log.version != before

    def refresh_beyond(self, seen: int) -> None:
        """Read on to a commit behind one that was seen, also if the log was cleaned meanwhile."""
        self.refresh()
        if self._log.version <= seen:
            self.refresh(at_once=True)


def files_of(path: Path | Storage, run_id: str | None = None) -> dict[str, Add]:
    """Return the files that a table has now, by path, in the order in which they were added."""
    found: dict[str, Add] = {}
    for commit in DeltaLog(path, run_id).poll():
        found |= {add.path: add for add in commit.adds}
        for removed in commit.removes:
            found.pop(removed, None)
    return found


SWEEP_AGE_S = 3600.0
"""How old a file is that no commit names when it is deleted."""


def sweep(
    place: Path | Storage,
    named: Collection[str] | None = None,
    prefix: str = "",
    as_of_s: float | None = None,
) -> int:
    """Delete data files that no commit names and that are old; return how many.

    A failed, repeated or killed task leaves a file that was never committed. Age, an hour, keeps
    those of tasks that are still at work.

    - ``named``: names of the files that stay; by default those of the table at ``place``.
    - ``prefix``: begin of the names of the files that may go.
    - ``as_of_s``: when the log was read for ``named``, Unix time; what came later stays.
    """
    folder = as_storage(place)
    limit = (time.time() if as_of_s is None else as_of_s) - SWEEP_AGE_S
    stay = files_of(place) if named is None else named
    found = [
        name
        for name, written in folder.files()
        if name.startswith(prefix) and name.endswith(".parquet") and name not in stay
        if written < limit and not name.startswith("_delta_log/")
    ]
    for name in found:
        folder.delete(name)
    return len(found)


def _parse(version: int, text: str) -> Commit:
    commit, words = Commit(version), set[str]()
    if not text.endswith("}") and not text.endswith("}\n"):
        raise ValueError("it is empty, or was cut off")
    for line in text.splitlines():
        action = json.loads(line)
        words |= set(action)
        if "add" in action:
            commit.adds.append(_added(action["add"]))
        elif "remove" in action:
            commit.removes.append(action["remove"]["path"])
        elif "txn" in action:
            name, epoch = action["txn"]["appId"], action["txn"]["version"]
            commit.writers.add(name)
            if name.endswith(EPOCH):
                commit.epochs[name.removesuffix(EPOCH)] = epoch
        elif "commitInfo" in action:
            commit.at_ms = action["commitInfo"].get("timestamp", 0)
    if words - KNOWN:
        raise ValueError(f"it says {', '.join(sorted(words - KNOWN))}")
    if not words & LAST:
        raise ValueError("it was cut off behind a line")
    return commit


def _added(add: Mapping[str, Any]) -> Add:
    stats = json.loads(add["stats"]) if add.get("stats") else {}
    partition = dict(add.get("partitionValues") or {})
    return Add(add["path"], partition, stats, add["modificationTime"], add["size"])


# --- Digests that show whether data is read as it was written.
#
# A CRC-32 finds every change of up to three bits and every burst of up to 32; zlib's runs at
# several GiB a second, so that no byte of a link is read unchecked.


SEAL = "seal"
"""Key of the digest in a file's entry in the log."""


def digest(content: Any, before: int = 0) -> int:
    """Return the CRC-32 of bytes, or of bytes that follow others."""
    return zlib.crc32(content, before)


def sealed(path: str, partition: Mapping[str, Any], stats: Mapping[str, Any]) -> dict[str, Any]:
    """Return a file's entry for the log with a digest of itself."""
    return {**stats, SEAL: _seal(path, partition, stats)}


def _seal(path: str, partition: Mapping[str, Any], stats: Mapping[str, Any]) -> int:
    text = json.dumps([path, dict(partition), dict(stats)], separators=(",", ":"))
    return digest(text.encode())


def check_seal(place: object, version: int, add: Add) -> dict[str, Any]:
    """Return what a commit says of a file.

    Raises DamagedError if it is not what was written.
    """
    stats = {name: value for name, value in add.stats.items() if name != SEAL}
    try:
        seal = _seal(add.path, add.partition, stats)
    except TypeError:  # a damaged checkpoint may hold anything
        seal = -1
    if add.stats.get(SEAL) != seal:
        raise DamagedError(
            f"{place}/_delta_log: what commit {version}, or its checkpoint, says of {add.path} is "
            f"not what was written: the file is damaged. {RESTORE}"
        )
    return stats


def check_file(place: object, path: str, content: Any, expected: tuple[int, int]) -> None:
    """Make sure that bytes have the size and the digest that they were written with.

    Raises DamagedError if they have not.
    """
    found = len(content), digest(content)
    if found != expected:
        raise DamagedError(
            f"{place}/{path} is damaged: it has {found[0]} bytes with the digest {found[1]:08x}, "
            f"written were {expected[0]} with {expected[1]:08x}. {RESTORE}"
        )
