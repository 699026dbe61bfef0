"""delta-rs in memory: the calls that the product makes of it, and how delta-rs 1.6 answers them.

``test_stand_in.py`` holds it against delta-rs itself.
"""

from __future__ import annotations

import functools
import json
import pickle
import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from deltalake.exceptions import CommitFailedError, DeltaError, TableNotFoundError

from .files import STORE, UNLINKED
from .machine import Clock, World, folder_of
from .tables import Table

RETRIES = 15
KEPT_S = 60.0
"""How long commits stay in the log: what the product sets."""

_COMMIT = re.compile(r"(\d{20})\.json")
_CHECKPOINT = re.compile(r"(\d{20})\.checkpoint\.parquet")


@functools.cache
def commit_of(name: str) -> int:
    """Return the version of a commit's file; -1 if it is none."""
    match = _COMMIT.fullmatch(name)
    return int(match[1]) if match else -1


@functools.cache
def checkpoint_of(name: str) -> int:
    """Return the version of a checkpoint's file; -1 if it is none."""
    match = _CHECKPOINT.fullmatch(name)
    return int(match[1]) if match else -1


class Parsed(NamedTuple):
    """What a commit says."""

    adds: dict[str, Any]
    removes: frozenset[str]
    versions: dict[str, int]


_parsed: dict[bytes, Parsed] = {}


def parse(content: bytes) -> Parsed:
    found = _parsed.get(content)
    if found is None:
        adds, removes, versions = {}, set(), {}
        for line in content.splitlines():
            action = json.loads(line)
            if "add" in action:
                adds[action["add"]["path"]] = action["add"]
            elif "remove" in action:
                removes.add(action["remove"]["path"])
            elif "txn" in action:
                versions[action["txn"]["appId"]] = action["txn"]["version"]
        if len(_parsed) > 5000:
            _parsed.clear()
        found = _parsed[content] = Parsed(adds, frozenset(removes), versions)
    return found


class Snapshot(NamedTuple):
    """A table as of a version."""

    version: int
    checkpoint: int  # The one it was read from; -1 without
    files: Mapping[str, Any]
    versions: Mapping[str, int]


def _not_found(path: str) -> DeltaError:
    return DeltaError(f"Kernel error: File not found: Object at location {path} not found")


class DeltaTable:
    """``deltalake.DeltaTable``."""

    def __init__(self, table: str, storage_options: Mapping[str, str] | None = None) -> None:
        self._log = f"{folder_of(table)}/_delta_log"
        self._renames = "allow_unsafe_rename" in (storage_options or {})
        self._now = self._read(None)

    # ------------------------------------------------------------------ reading

    def _read(self, before: Snapshot | None) -> Snapshot:
        """Return the newest snapshot."""
        files = World.files
        has_hint = before is None and self._hint() >= 0
        names = files.listing(self._log)
        newest = max(map(checkpoint_of, names), default=-1)
        least = newest if before is None else max(newest, before.version)
        commits = sorted(number for name in names if (number := commit_of(name)) > least)
        if before is not None and not commits and newest <= before.version:
            if not any(name[0] == "0" for name in names):
                raise TableNotFoundError(f"{self._log}: no log files")
            return before
        if not commits and newest < 0:
            raise TableNotFoundError(f"{self._log}: no log files")
        if has_hint and newest < 0:
            raise DeltaError(
                "Kernel error: Invalid Checkpoint: Had a _last_checkpoint hint but didn't find any "
                "checkpoints"
            )
        if before is not None and newest <= before.version:
            version, checkpoint = before.version, before.checkpoint
            found, versions = dict(before.files), dict(before.versions)
        else:
            version = checkpoint = newest
            found, versions = self._checkpoint(newest) if newest >= 0 else ({}, {})
        for number in commits:
            if number != version + 1:
                raise DeltaError(
                    "Kernel error: Generic delta kernel error: Expected contiguous commit files, "
                    f"but found gap: {version:020d}.json -> {number:020d}.json"
                )
            commit = parse(self._content(self._file(number)))
            for path in commit.removes:
                found.pop(path, None)
            found.update(commit.adds)
            versions.update(commit.versions)
            version = number
        return Snapshot(version, checkpoint, found, versions)

    def _hint(self) -> int:
        try:
            return int(json.loads(World.files.read(f"{self._log}/_last_checkpoint"))["version"])
        except (FileNotFoundError, ValueError, KeyError):
            return -1

    def _content(self, path: str) -> bytes:
        try:
            return World.files.read(path)
        except FileNotFoundError:
            raise _not_found(path) from None

    def _checkpoint(self, version: int) -> tuple[dict[str, Any], dict[str, int]]:
        content = self._content(self._checkpoint_file(version))
        try:
            adds, versions = pickle.loads(content)
        except Exception:
            raise DeltaError("Kernel error: Arrow error: Parquet error: Corrupt footer") from None
        return dict(adds), dict(versions)

    def _file(self, version: int) -> str:
        return f"{self._log}/{version:020d}.json"

    def _checkpoint_file(self, version: int) -> str:
        return f"{self._log}/{version:020d}.checkpoint.parquet"

    def update_incremental(self) -> None:
        self._now = self._read(self._now)

    def transaction_version(self, app_id: str) -> int | None:
        """Return the last version of an application: commits are read, from the newest on."""
        now, files = self._now, World.files

        def look() -> int | None:
            for version in range(now.version, now.checkpoint, -1):
                file = files.find(self._file(version))
                if file is None:
                    raise _not_found(self._file(version))
                if app_id in (found := parse(file.content).versions):
                    return found[app_id]
            if now.checkpoint >= 0 and files.find(self._checkpoint_file(now.checkpoint)) is None:
                raise _not_found(self._checkpoint_file(now.checkpoint))
            return now.versions.get(app_id)

        found: int | None = files.call("read transactions of", self._log, look)
        return found

    def version(self) -> int:
        return self._now.version

    def schema(self) -> None:
        """Nobody looks at it."""

    def metadata(self) -> Any:
        return _METADATA

    # ------------------------------------------------------------------ committing

    def create_write_transaction(
        self, actions: Sequence[Any], *, commit_properties: CommitProperties, **_: Any
    ) -> None:
        files, now = World.files, self._now
        content = _text(actions, commit_properties.app_transactions)
        own = {one.app_id for one in commit_properties.app_transactions}
        retries = commit_properties.max_commit_retries
        most = RETRIES if retries is None else retries
        gone = {one.path for one in actions if isinstance(one, RemoveAction)}
        version, live = now.version, {*now.files, *gone}
        for _attempt in range(most + 1):
            names = files.listing(self._log)
            newest = max(map(commit_of, names), default=-1)
            if newest > version and not most:
                raise CommitFailedError("Failed to commit transaction: 0")
            if newest > version and f"{version:020d}.json" not in names:
                raise DeltaError(f"Invalid table version: {version + 1}")
            for number in range(version + 1, newest + 1):
                self._check(number, own, live)
            version = max(version, newest)
            if self._put(version + 1, content):
                break
        else:
            raise CommitFailedError(f"Failed to commit transaction: {most}")
        self._read(now)  # it looks at the log behind its commit, and may fail then

    def _check(self, number: int, own: set[str], live: set[str]) -> None:
        """Compare with a commit that was made since the snapshot."""
        try:
            winner = parse(World.files.read(self._file(number)))
        except FileNotFoundError:
            raise DeltaError(f"Invalid table version: {number}") from None
        if own & set(winner.versions):
            raise CommitFailedError("Failed to commit transaction: Concurrent transaction failed.")
        if winner.removes & live:
            raise CommitFailedError(
                "Failed to commit transaction: Commit failed: a concurrent transaction deleted "
                "data this operation read."
            )

    def _put(self, version: int, content: bytes) -> bool:
        files, path = World.files, self._file(version)
        if files.kind == STORE:
            return files.create(path, content)
        files.write(f"{self._log}/_commit_{World.count}.json.tmp", content)
        if files.kind != UNLINKED:
            return files.create(path, content)
        if not self._renames:
            raise OSError(1, "Operation not permitted", path)

        def rename() -> None:
            if files.find(path) is not None:
                files.met["REPLACED A COMMIT"] += 1
            files.drop(path) if files.find(path) else None
            files.put_new(path, content)

        files.call("rename to", path, rename, is_write=True)
        return True

    # ------------------------------------------------------------------ keeping the log short

    def create_checkpoint(self) -> None:
        now = self._now
        content = pickle.dumps((dict(now.files), dict(now.versions)), 5)
        World.files.put_whole(self._checkpoint_file(now.version), content)
        hint = {"version": now.version, "size": 1, "numOfAddFiles": len(now.files)}
        World.files.put_whole(f"{self._log}/_last_checkpoint", json.dumps(hint).encode())

    def cleanup_metadata(self) -> None:
        files, limit = World.files, Clock.time() - KEPT_S
        names = files.listing(self._log)
        known = [found for found in map(checkpoint_of, names) if found <= self._now.version]
        newest = max(known, default=-1)
        for name, file in names.items():
            version = max(commit_of(name), checkpoint_of(name))
            if 0 <= version < newest and file.written < limit:
                files.delete(f"{self._log}/{name}")
                files.met["a commit was cleaned away"] += 1

    # ------------------------------------------------------------------ making

    @staticmethod
    def is_deltatable(table: str, storage_options: Any = None) -> bool:
        log = f"{folder_of(table)}/_delta_log"
        names = World.files.listing(log)
        return any(commit_of(name) >= 0 or checkpoint_of(name) >= 0 for name in names)

    @staticmethod
    def create(table: str, storage_options: Any = None, **named: Any) -> None:
        if DeltaTable.is_deltatable(table):
            return
        own = DeltaTable.__new__(DeltaTable)
        own._log = f"{folder_of(table)}/_delta_log"
        own._renames = "allow_unsafe_rename" in (storage_options or {})
        lines = [{"protocol": {"minReaderVersion": 1}}, {"metaData": {"id": "x"}}]
        if not own._put(0, "\n".join(map(json.dumps, lines)).encode()):
            raise CommitFailedError(
                "Failed to commit transaction: Protocol changed since last commit: protocol changed"
            )


class _Metadata(NamedTuple):
    partition_columns: list[str]


_METADATA = _Metadata([])


class Transaction(NamedTuple):
    """``deltalake.Transaction``."""

    app_id: str
    version: int


class CommitProperties(NamedTuple):
    """``deltalake.CommitProperties``."""

    max_commit_retries: int | None
    app_transactions: list[Transaction]


class AddAction(NamedTuple):
    """``deltalake.transaction.AddAction``."""

    path: str
    size: int
    partition_values: Mapping[str, str]
    modification_time: int
    data_change: bool
    stats: str


class RemoveAction(NamedTuple):
    """``deltalake.transaction.RemoveAction``."""

    path: str
    data_change: bool
    deletion_timestamp: int
    size: int
    partition_values: Mapping[str, str]


def PostCommitHookProperties(**_: Any) -> None:
    """``deltalake.PostCommitHookProperties``: all are off."""


def _text(actions: Sequence[Any], versions: Sequence[Transaction]) -> bytes:
    lines: list[dict[str, Any]] = [{"commitInfo": {"timestamp": int(Clock.time() * 1000)}}]
    for one in actions:
        if isinstance(one, AddAction):
            own = {
                "path": one.path,
                "partitionValues": dict(one.partition_values),
                "size": one.size,
                "modificationTime": one.modification_time,
                "dataChange": True,
                "stats": one.stats,
            }
            lines.append({"add": own})
        else:
            lines.append({"remove": {"path": one.path, "dataChange": True}})
    lines += [{"txn": {"appId": one.app_id, "version": one.version}} for one in versions]
    return "\n".join(json.dumps(line) for line in lines).encode()


def read_table(file: Any, columns: Sequence[str]) -> Table:
    """``pyarrow.parquet.read_table`` of a checkpoint."""
    try:
        adds, versions = pickle.loads(file.content)
    except Exception as error:
        raise ValueError(f"Couldn't deserialize: {error}") from error
    rows: list[dict[str, Any]] = [{"add": add, "txn": None} for add in adds.values()]
    rows += [{"add": None, "txn": {"appId": app}} for app in versions]
    return Table([{name: row[name] for name in columns} for row in rows])
