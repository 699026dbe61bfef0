"""Commits of a run's own tables as files of their logs: a file each, named by a hard link.

delta-rs brings its handle up to date by a listing of the log and commits in a runtime of its own,
some 20 ms of CPU for a commit that adds one small file; a round has three of them. What it writes
then is this file. delta-rs still makes the tables, looks at a log that was not followed, and
writes checkpoints; and it commits wherever a table is not on a disk with hard links, has rivals, or
is for users.

A commit is a file whose name is its version, and a hard link gives a name that is not there: of two
writers one gets it, the other goes on behind it. Nothing else is needed where each writer has an
application id of its own, adds files and removes none but its own.

A name is also free again once its commit was cleaned away, which happens only behind a checkpoint.
So whoever has got a name looks at the newest checkpoint: if that is not older, delta-rs has to say
whether it holds the commit. The age of a log that was followed makes this rare; a machine that
slept brings it about, as does a process that was stopped.
"""

from __future__ import annotations

import json
import os
import socket
import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any, Final

from flowcontrol.ledger.log import NewFile
from flowcontrol.version import __version__

FOLLOWED_S: Final = 20.0
"""How long after its last commit a log counts as followed: commits are kept for a minute."""

OTHERS: Final = {"metaData", "protocol"}
"""Actions after which it is delta-rs that has to say what the table is."""


class Appender:
    """Adds commits to the log of one table.

    - ``app_id``: application id of the only writer that uses it.
    - ``last``: last batch that the log holds of this writer.
    - ``is_in_doubt``: the commit tried last has got its name, but may lie behind a checkpoint
      without it.
    """

    def __init__(self, path: Path, app_id: str, partition_by: Sequence[str]) -> None:
        self._log, self._app_id = Path(path) / "_delta_log", app_id
        self._columns = json.dumps(list(partition_by), separators=(",", ":"))
        self._version, self._at, self.last = -1, float("-inf"), -1
        self.is_in_doubt = False

    def begin(self, version: int, last: int) -> None:
        """Go on behind a version, as of which this writer has committed a batch."""
        self._version, self.last, self._at = version, last, time.monotonic()

    @property
    def is_followed(self) -> bool:
        """Whether the commits since the last one that is known are still there."""
        return self._version >= 0 and time.monotonic() - self._at < FOLLOWED_S

    def append(
        self, batch_id: int, adds: Sequence[NewFile], removes: Sequence[NewFile]
    ) -> bool | None:
        """Commit files as one transaction.

        Returns False if the batch, or a later one, was there; None if delta-rs has to see to it:
        nothing was committed then, unless :attr:`is_in_doubt`.
        """
        if self.last >= batch_id:
            return False
        self.is_in_doubt = False
        part = self._log / f"_commit_{uuid.uuid4()}.json.tmp"
        try:
            part.write_text(self._text(batch_id, adds, removes))
            while True:
                try:
                    os.link(part, self._file(self._version + 1))
                except FileExistsError:
                    if not self._follow():
                        self._version = -1
                        return None
                    if self.last >= batch_id:
                        return False
                else:
                    self._version += 1
                    if self._may_be_covered():
                        self._version, self.is_in_doubt = -1, True
                        return None
                    self.last, self._at = batch_id, time.monotonic()
                    return True
        finally:
            with suppress(OSError):  # it counts, or it does not: a name too many changes neither
                part.unlink()

    def _may_be_covered(self) -> bool:
        """Whether a checkpoint is as new as the commit: it holds it, or was there before."""
        try:
            newest = json.loads((self._log / "_last_checkpoint").read_text())
            return int(newest["version"]) >= self._version
        except FileNotFoundError:
            return False
        except (OSError, ValueError, KeyError, TypeError):
            return True

    def _file(self, version: int) -> Path:
        return self._log / f"{version:020d}.json"

    def _follow(self) -> bool:
        """Read the next commit, another's; False if it changes what the table is, or is damaged."""
        try:
            lines = self._file(self._version + 1).read_text().splitlines()
            actions = [dict(json.loads(line)) for line in lines]
            told = [dict(action["txn"]) for action in actions if "txn" in action]
            own = [int(one["version"]) for one in told if one["appId"] == self._app_id]
        except (OSError, ValueError, KeyError, TypeError):
            return False
        if not actions or any(OTHERS & set(action) for action in actions):
            return False
        self.last = max([self.last, *own])
        self._version += 1
        return True

    def _text(self, batch_id: int, adds: Sequence[NewFile], removes: Sequence[NewFile]) -> str:
        """Return the lines of a commit; the transaction is the last, as readers expect it."""
        now = int(time.time() * 1000)
        told: dict[str, Any] = {
            "timestamp": now,
            "operation": "WRITE",
            "operationParameters": {"mode": "Append", "partitionBy": self._columns},
            "engineInfo": f"flowcontrol:{__version__}",
        }
        actions: list[dict[str, Any]] = [{"commitInfo": told}]
        for file in adds:
            own = {"path": file.path, "partitionValues": dict(file.partition), "size": file.nbytes}
            stats = json.dumps({"numRecords": file.rows, **file.stats}, separators=(",", ":"))
            own |= {"modificationTime": now, "dataChange": True, "stats": stats}
            actions.append({"add": own})
        for file in removes:
            own = {"path": file.path, "deletionTimestamp": now, "dataChange": True}
            own |= {"extendedFileMetadata": True, "partitionValues": dict(file.partition)}
            actions.append({"remove": {**own, "size": file.nbytes}})
        actions.append({"txn": {"appId": self._app_id, "version": batch_id}})
        return "\n".join(json.dumps(action, separators=(",", ":")) for action in actions)


# --- Commits on a file system without hard links: a mount of Databricks, one in user space.
#
# delta-rs gives a commit its name with a hard link, which fails if the name is there. Where there
# are none it can rename, which replaces whatever has the name: of two writers both would win. So
# here a writer first claims the commit's number, with a file that is created exclusively
# (``O_EXCL``), and whoever does not get the claim does not rename.
#
# Claims of one number are tried in order, ``<version>.<attempt>``. The next attempt is open to
# whoever finds that the holder of the last one has given up or is dead, and again only one gets it.
# Claims are deleted only when the commit is there, and who gets one looks for the commit after
# that.
#
# Premise: the file system creates exclusively among all machines that write, and no writer on
# another machine sleeps for :data:`CLAIM_S` between its claim and its rename.


CLAIM_S = 60.0
"""How long a claim of another machine may be without a commit before its writer counts as dead."""

LOOK_S = 0.01
"""Time between two looks at a claim that another has."""

UNLINKED = {"allow_unsafe_rename": "true"}
"""delta-rs's option to rename; safe under a claim."""

FOLDER = "_claims"


def has_hard_links(folder: str | Path) -> bool:
    """Whether a folder's file system has hard links; True where that cannot be tried."""
    probe = Path(folder, f".probe-{uuid.uuid4().hex[:8]}")
    other = probe.with_suffix(".link")
    try:
        probe.touch(exist_ok=False)
    except OSError:  # read-only, full, not there: whoever writes will say so
        return True
    try:
        os.link(probe, other)
    except OSError:
        return False
    finally:
        for path in (probe, other):
            path.unlink(missing_ok=True)
    return True


@contextmanager
def claimed(table: str | Path, version: int) -> Iterator[bool]:
    """Claim a commit's number for the block.

    Yields whether the number is the block's; False if the commit is there: another was first.
    """
    folder, commit = Path(table, FOLDER), Path(table, "_delta_log", f"{version:020d}.json")
    folder.mkdir(parents=True, exist_ok=True)
    claim = _claim(folder, commit, version)
    try:
        yield claim is not None and not commit.exists()
    finally:
        if claim is not None:
            _release(claim, commit)


def _claim(folder: Path, commit: Path, version: int) -> Path | None:
    """Return a claim of one's own; None as soon as the commit is there."""
    attempt, since = 0, time.monotonic()
    while not commit.exists():
        claim = folder / f"{version:020d}.{attempt}"
        try:
            handle = os.open(claim, os.O_CREAT | os.O_EXCL | os.O_WRONLY)
        except FileExistsError:
            if _is_over(claim) or time.monotonic() - since > CLAIM_S:
                attempt, since = attempt + 1, time.monotonic()
            else:
                time.sleep(LOOK_S)
            continue
        with os.fdopen(handle, "w") as file:
            file.write(f"{_machine()} {os.getpid()}")
        return claim
    return None


def _release(claim: Path, commit: Path) -> None:
    """Give a claim up; behind a commit that is there, delete all claims of its number."""
    if not commit.exists():
        claim.with_name(f"{claim.name}.free").touch()
        return
    for path in claim.parent.glob(f"{claim.stem}.*"):
        path.unlink(missing_ok=True)


def _is_over(claim: Path) -> bool:
    """Whether the holder of a claim has given it up, or was a process of this machine and died."""
    if claim.with_name(f"{claim.name}.free").exists():
        return True
    with suppress(FileNotFoundError, ValueError):
        machine, pid = claim.read_text().split()
        if machine == _machine():
            try:
                os.kill(int(pid), 0)
            except ProcessLookupError:
                return True
            except PermissionError:
                return False
    return False


@cache
def _machine() -> str:
    """Return what tells processes apart that cannot see each other: machine, boot, container."""
    parts = [socket.gethostname()]
    with suppress(OSError):
        parts.append(Path("/proc/sys/kernel/random/boot_id").read_text().strip())
        parts.append(str(Path("/proc/self/ns/pid").readlink()))
    return "/".join(parts)
