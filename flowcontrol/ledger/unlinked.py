"""Commits on a file system without hard links: a mount of Databricks, one in user space.

delta-rs gives a commit its name with a hard link, which fails if the name is there. Where there are
none it can rename, which replaces whatever has the name: of two writers both would win. So here a
writer first claims the commit's number, with a file that is created exclusively (``O_EXCL``), and
whoever does not get the claim does not rename.

Claims of one number are tried in order, ``<version>.<attempt>``. The next attempt is open to
whoever finds that the holder of the last one has given up or is dead, and again only one gets it.
Claims are deleted only when the commit is there, and who gets one looks for the commit after that.

Premise: the file system creates exclusively among all machines that write, and no writer on another
machine sleeps for :data:`CLAIM_S` between its claim and its rename.
"""

from __future__ import annotations

import os
import socket
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path

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
