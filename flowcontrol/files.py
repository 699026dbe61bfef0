"""Files and folders of results: never half written, and one process at a time in each."""

from __future__ import annotations

import fcntl
import os
import tempfile
from pathlib import Path
from typing import IO, Final

from flowcontrol.errors import Problem, RunError, ScenarioError

__all__ = ["LOCK_FILE", "folder_refused", "take_lock", "write_atomically"]

LOCK_FILE: Final = ".lock"
"""Name of the file that is locked in a folder while a process writes there."""


def write_atomically(path: Path, content: str) -> None:
    """Replace a text file in one step.

    Parameters
    ----------
    path : Path
        The file; its folder must exist.
    content : str
        The whole content, written as UTF-8.

    Notes
    -----
    The text goes to a file beside it, which is then renamed: rename is atomic within a file
    system. The permissions are those of a file newly made, not those of a temporary one.
    """
    handle, temporary = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(content)
        mask = os.umask(0)
        os.umask(mask)
        Path(temporary).chmod(0o666 & ~mask)
        Path(temporary).replace(path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def take_lock(folder: Path, what: str) -> IO[str]:
    """Take a folder's lock; the system lets go of it when the process ends, however.

    Parameters
    ----------
    folder : Path
        It exists.
    what : str
        What another process may be doing there, for the message.

    Returns
    -------
    file
        Locked until it is closed.

    Raises
    ------
    RunError
        If another process has the lock.
    """
    handle = (folder / LOCK_FILE).open("w")
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        handle.close()
        raise RunError(f"{folder}: another process {what} in this folder") from error
    return handle


def folder_refused(text: str) -> ScenarioError:
    """Return the refusal of a folder of results."""
    return ScenarioError([Problem("--out", text)], "command")
