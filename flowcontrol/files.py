"""Files that are never half written, and tables that stand in files of the package."""

import os
import secrets
from importlib import resources
from pathlib import Path
from typing import Any


def package_yaml(package: str, name: str) -> Any:
    """Return what a YAML file of a package holds."""
    import yaml

    # The loader in C takes 2 ms for the largest of them, the one in Python 60.
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    return yaml.load(resources.files(package).joinpath(name).read_text("utf-8"), loader)


def write_atomically(path: Path, content: str | bytes) -> None:
    """Replace a file in one step.

    The content goes to a file beside it, reaches the disk, and is then renamed: rename is atomic
    within a file system, and after a power cut the name leads to the old content or to the new one.
    The system applies the process's umask, so the permissions are those of any new file.

    - ``path``: the file; its folder must exist.
    - ``content``: the whole content; text is written as UTF-8.
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
