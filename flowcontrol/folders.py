"""A folder of results, owned by one process: created, continued, replaced or refused.

Two files say what a folder is. The **kind file** (``run.json``, ``sweep.json``) says what it holds
and whether that is finished. The **lock file** is locked while a process writes there; it is never
deleted, so all processes lock the same file, and every decision about the folder is made, and every
file removed, while it is locked.

What is replaced is first marked in the kind file, then removed, then the kind file is rewritten.
So a start that is killed leaves one of three: the old content whole, content that is marked (the
next start removes the rest and begins), or something new that has just begun.
"""

import errno
import fcntl
import json
import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Final

from flowcontrol.errors import LedgerError, Problem, ScenarioError
from flowcontrol.files import write_atomically
from flowcontrol.ledger.paths import local_folder

LOCK_FILE: Final = ".lock"
"""Name of the file that is locked while a process writes to the folder."""

REPLACED: Final = "replaced"
"""Key in the kind file of a folder whose content is being removed."""

_ATTEMPTS: Final = 20
"""Times that a folder is made and locked again that somebody removes meanwhile (``rm -r``)."""


@dataclass(frozen=True)
class Kind:
    """A kind of content of a folder."""

    noun: str  # Name in messages
    file_name: str  # The file that says what it is
    identity: str  # Key in that file that stays the same while the content is continued
    keys: frozenset[str]  # Further keys that the file has


@dataclass
class OwnedFolder:
    """A folder that this process may write to."""

    root: Path  # Absolute: workers have other current folders
    kind: Kind
    described: dict[str, Any]  # What it holds, as its file says it
    is_resumed: bool  # Whether the same was begun, or finished, in it before
    _lock: IO[str]

    @property
    def identity(self) -> str:
        """Identity of what it holds; the same while that is continued."""
        return str(self.described[self.kind.identity])

    def mark(self, *, finished: bool) -> None:
        """Note whether all of it is there."""
        _describe(self.root, self.kind, {**self.described, "finished": finished})

    def close(self) -> None:
        """Let other processes use the folder."""
        self._lock.close()


def open_owned(
    root: Path | str,
    kind: Kind,
    described: dict[str, Any],
    *,
    is_continued: Callable[[Mapping[str, Any]], bool],
    why_kept: Callable[[Mapping[str, Any]], str | None],
) -> OwnedFolder:
    """Prepare a folder of results.

    - ``root``: the folder, as the user names it: ``~`` and ``file:`` mean what they mean elsewhere.
    - ``described``: the content of its file, but for ``finished``.
    - ``is_continued``: given what the folder holds, returns whether it is continued.
    - ``why_kept``: given what the folder holds, returns why it must not be replaced; None if it may
      be.

    Raises ScenarioError if the folder cannot be made, another process writes to it, or it holds
    something that must not be replaced. Nothing was written.
    """
    with _refusing(root):
        absolute = _resolved(root)
        _check_kind(root, absolute, kind)  # before anything is written to a folder of another kind
        lock = _lock(root, absolute)
        try:
            return _decide(root, absolute, kind, described, lock, is_continued, why_kept)
        except BaseException:
            lock.close()
            raise


def open_anew(
    root: Path | str, kind: Kind, described: dict[str, Any], *, named: bool, overwrite: bool
) -> OwnedFolder:
    """Prepare a folder of results that are quick to make, so that nothing is continued.

    - ``described``: the content of its file; ``is_own_place`` is added.
    - ``named``: whether the user named the folder: what it holds is replaced only with
      ``overwrite``.

    Raises ScenarioError as :func:`open_owned`.
    """
    why = None
    if named and not overwrite:
        why = _held(root, kind)
    return open_owned(
        root,
        kind,
        {**described, "is_own_place": not named},
        is_continued=lambda _: False,
        why_kept=lambda _: why,
    )


def check_anew(root: Path | str, kind: Kind, *, overwrite: bool) -> None:
    """Refuse a named folder as :func:`open_anew` will, before any work; write nothing.

    Raises ScenarioError if it holds something that must not be replaced.
    """
    with _refusing(root):
        found = _check_kind(root, _resolved(root), kind)
    if found is not None and REPLACED not in found and not overwrite:
        raise folder_refused(_held(root, kind))


def _held(root: Path | str, kind: Kind) -> str:
    return f"{root} holds a {kind.noun} already; use --overwrite to replace it, or another folder"


def folder_refused(text: str) -> ScenarioError:
    """Return the refusal of a folder of results."""
    return ScenarioError([Problem("--out", text)], "command")


@contextmanager
def _refusing(root: Path | str) -> Iterator[None]:
    """Turn what the system refuses into a refusal of the folder."""
    try:
        yield
    except (NotADirectoryError, FileExistsError) as error:
        absolute = _resolved(root)
        above = [path for path in (absolute, *absolute.parents) if path.is_file()]
        file = above[0] if above else error.filename
        raise folder_refused(
            f"{root} cannot be made, for {file} is a file; name another folder"
        ) from error
    except OSError as error:
        where, reason = error.filename or root, error.strerror or error
        raise folder_refused(
            f"{root} cannot be made or written to ({where}: {reason}); name another folder"
        ) from error


def _resolved(root: Path | str) -> Path:
    try:
        return local_folder(root).resolve()
    except LedgerError as error:
        raise folder_refused(str(error)) from error
    except RuntimeError as error:  # links that lead to each other
        raise folder_refused(f"{root} leads nowhere ({error}); name another folder") from error


def _check_kind(root: Path | str, absolute: Path, kind: Kind) -> dict[str, Any] | None:
    """Return what a folder holds; None if nothing.

    Raises ScenarioError if it holds something that is not of this kind.
    """
    if absolute.exists() and not absolute.is_dir():
        raise folder_refused(f"{root} is a file; name a folder")
    found = _read(absolute, kind)
    if found is None and absolute.exists():
        # Left by a start that was killed before it wrote the kind file.
        firsts = (LOCK_FILE, f".{kind.file_name}.")
        if any(not file.name.startswith(firsts) for file in absolute.iterdir()):
            # Another process may have begun since the first read.
            found = _read(absolute, kind)
            if found is None:
                raise folder_refused(
                    f"{root} holds something that is not a {kind.noun}; name another folder"
                )
    return found


def _decide(
    root: Path | str,
    absolute: Path,
    kind: Kind,
    described: dict[str, Any],
    lock: IO[str],
    is_continued: Callable[[Mapping[str, Any]], bool],
    why_kept: Callable[[Mapping[str, Any]], str | None],
) -> OwnedFolder:
    """Continue, replace or refuse what a locked folder holds."""
    found = _check_kind(root, absolute, kind)
    if found is not None and REPLACED not in found:
        if is_continued(found):
            same = {**described, kind.identity: found[kind.identity]}
            return OwnedFolder(absolute, kind, same, True, lock)
        reason = why_kept(found)
        if reason is not None:
            raise folder_refused(reason)
        _describe(absolute, kind, {**found, REPLACED: True})
    _empty(absolute, kind)
    folder = OwnedFolder(absolute, kind, described, False, lock)
    folder.mark(finished=False)
    return folder


def _describe(root: Path, kind: Kind, content: Mapping[str, Any]) -> None:
    write_atomically(root / kind.file_name, json.dumps(content, indent=1) + "\n")


def _empty(root: Path, kind: Kind) -> None:
    """Take everything out of a locked folder but its lock and the file that says what it is."""
    for path in root.iterdir():
        if path.name in {kind.file_name, LOCK_FILE}:
            continue
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)


def _read(root: Path, kind: Kind) -> dict[str, Any] | None:
    try:
        found = json.loads((root / kind.file_name).read_text())
    except (FileNotFoundError, NotADirectoryError, ValueError):
        return None
    keys = {kind.identity, "finished", *kind.keys}
    return found if isinstance(found, dict) and keys <= set(found) else None


def _lock(root: Path | str, absolute: Path) -> IO[str]:
    """Make a folder and lock it; the system unlocks it when the process ends, however."""
    for _ in range(_ATTEMPTS):
        absolute.mkdir(parents=True, exist_ok=True)
        try:
            handle = (absolute / LOCK_FILE).open("a")
        except FileNotFoundError:
            continue  # somebody has removed the folder
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if _is_there(absolute / LOCK_FILE, handle):
                return handle
        except BlockingIOError as error:
            handle.close()
            raise folder_refused(
                f"{root}: another process runs in this folder; wait for its end, or name another"
            ) from error
        except BaseException:
            handle.close()
            raise
        handle.close()
    raise OSError(errno.ENOENT, "it is removed again and again", str(absolute))


def _is_there(path: Path, handle: IO[str]) -> bool:
    """Whether a name still leads to an open file."""
    try:
        return os.path.samestat(path.stat(), os.fstat(handle.fileno()))
    except FileNotFoundError:
        return False
