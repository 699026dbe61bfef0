"""Text files that are never half written."""

import os
import secrets
from pathlib import Path


def write_atomically(path: Path, content: str | bytes) -> None:
    """Replace a file in one step.

    Parameters
    ----------
    path : Path
        The file; its folder must exist.
    content : str or bytes
        The whole content; text is written as UTF-8.

    Notes
    -----
    The content goes to a file beside it, reaches the disk, and is then renamed: rename is atomic
    within a file system, and after a power cut the name leads to the old content or to the new one.
    The system applies the process's umask, so the permissions are those of any new file.
    """
    temporary = path.parent / f".{path.name}.{secrets.token_hex(4)}"
    handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content.encode() if isinstance(content, str) else content)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
