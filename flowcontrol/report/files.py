"""Writing a file so that a reader, or a kill, never meets half of it."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

__all__ = ["write_atomically"]


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
