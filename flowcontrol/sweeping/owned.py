"""A folder of results that one process at a time owns: made, continued, replaced or refused.

A file in it says what it holds and whether that is finished; another one is locked while somebody
writes. What holds something else, or somebody else's, is left alone.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from flowcontrol.files import LOCK_FILE, folder_refused, take_lock, write_atomically

__all__ = ["Kind", "OwnedFolder", "open_owned"]


@dataclass(frozen=True)
class Kind:
    """What a folder holds.

    Attributes
    ----------
    noun : str
        What people call it.
    file_name : str
        The file that says what it is.
    identity : str
        Key in that file: two are the same if its values are equal.
    keys : frozenset of str
        Further keys that the file has.
    """

    noun: str
    file_name: str
    identity: str
    keys: frozenset[str]


@dataclass
class OwnedFolder:
    """A folder that this process may write to.

    Attributes
    ----------
    root : Path
        Absolute: workers have other current folders.
    described : dict
        What it holds, as its file says it.
    is_resumed : bool
        Whether the same was begun, or finished, in it before.
    """

    root: Path
    kind: Kind
    described: dict[str, Any]
    is_resumed: bool
    _lock: IO[str]

    def mark(self, *, finished: bool) -> None:
        """Note whether all of it is there."""
        text = json.dumps({**self.described, "finished": finished}, indent=1)
        write_atomically(self.root / self.kind.file_name, text + "\n")

    def close(self) -> None:
        """Let other processes use the folder."""
        self._lock.close()


def open_owned(
    root: Path,
    kind: Kind,
    described: dict[str, Any],
    *,
    is_continued: Callable[[Mapping[str, Any]], bool],
    why_kept: Callable[[Mapping[str, Any]], str | None],
) -> OwnedFolder:
    """Make a folder ready.

    Parameters
    ----------
    root : Path
        The folder.
    kind : Kind
        What it is to hold.
    described : dict
        The content of its file, but for ``finished``.
    is_continued : callable
        Given what stands there, say whether it goes on.
    why_kept : callable
        Given what stands there, say why it must not be replaced; None if it may be.

    Returns
    -------
    OwnedFolder
        Locked for this process.

    Raises
    ------
    ScenarioError
        If the folder holds something that must not be replaced. Nothing was written.
    RunError
        If another process writes to it.
    """
    absolute = root.resolve()
    if root.exists() and not root.is_dir():
        raise folder_refused(f"{root} is a file: name a folder")
    found = _read(absolute, kind)
    if found is None:
        firsts = (LOCK_FILE, f".{kind.file_name}.")
        if root.exists() and any(not file.name.startswith(firsts) for file in root.iterdir()):
            raise folder_refused(
                f"{root} holds something that is not a {kind.noun}: name another folder"
            )
        return _new(absolute, kind, described)
    if is_continued(found):
        return OwnedFolder(
            absolute, kind, described, True, take_lock(absolute, f"runs a {kind.noun}")
        )
    with take_lock(absolute, f"runs a {kind.noun}"):
        reason = why_kept(found)
        if reason is not None:
            raise folder_refused(reason)
        _empty(absolute, kind, found)
    return _new(absolute, kind, described)


def _new(root: Path, kind: Kind, described: dict[str, Any]) -> OwnedFolder:
    root.mkdir(parents=True, exist_ok=True)
    folder = OwnedFolder(root, kind, described, False, _lock(root, kind))
    folder.mark(finished=False)
    return folder


def _empty(root: Path, kind: Kind, found: dict[str, Any]) -> None:
    """Take everything out of the folder, the file that says what it is last."""
    # A kill from here on leaves something that nobody takes for their own.
    file = root / kind.file_name
    write_atomically(file, json.dumps({**found, kind.identity: "", "finished": False}))
    for path in root.iterdir():
        if path.is_dir():
            shutil.rmtree(path)
        elif path.name not in {kind.file_name, LOCK_FILE}:
            path.unlink()
    file.unlink()


def _read(root: Path, kind: Kind) -> dict[str, Any] | None:
    try:
        found = json.loads((root / kind.file_name).read_text())
    except (FileNotFoundError, NotADirectoryError, ValueError):
        return None
    keys = {kind.identity, "finished", *kind.keys}
    return found if isinstance(found, dict) and keys <= set(found) else None


def _lock(root: Path, kind: Kind) -> IO[str]:
    return take_lock(root, f"runs a {kind.noun}")
