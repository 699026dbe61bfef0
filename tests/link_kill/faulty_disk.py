"""The disk of a link, which can be full or read-only: a small file system, or a switch.

Where this process may mount, the link stands on a tmpfs of its own; a tool of the system then
answers as a disk does. Elsewhere the members of the pipeline are told to fail their writes.
"""

from __future__ import annotations

import errno
import os
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

SIZE = "96m"
FULL, READ_ONLY = "full", "read-only"
SWITCH = "disk-is"
BALLAST = "ballast"

TRIES = 50
"""Times that it is tried to make a disk read-only on which files are being written."""


class Disk:
    """Where the link stands.

    Parameters
    ----------
    folder : Path
        Of the pipeline.
    """

    def __init__(self, folder: Path) -> None:
        self.folder, self.path = folder, folder / "disk"
        self.path.mkdir()
        self.is_mounted = self._mount("-t", "tmpfs", "-o", f"size={SIZE}", "tmpfs", str(self.path))

    def _mount(self, *arguments: str) -> bool:
        done = subprocess.run(["mount", *arguments], capture_output=True, check=False)
        return done.returncode == 0

    def become(self, what: str) -> bool:
        """Make it full or read-only; False if that was not possible just now."""
        if not self.is_mounted:
            (self.folder / SWITCH).write_text(what)
            return True
        if what == READ_ONLY:
            return any(self._remounted() for _ in range(TRIES))
        with (self.path / BALLAST).open("ab") as ballast:
            try:
                while True:
                    os.write(ballast.fileno(), bytes(64 << 10))
            except OSError as error:
                return error.errno == errno.ENOSPC

    def _remounted(self) -> bool:
        """Make it read-only; False if somebody is writing a file at this moment."""
        time.sleep(0.02)
        return self._mount("-o", "remount,ro", str(self.path))

    def mend(self) -> None:
        """Make it writable again, with room."""
        if not self.is_mounted:
            (self.folder / SWITCH).unlink(missing_ok=True)
            return
        assert self._mount("-o", "remount,rw", str(self.path))
        (self.path / BALLAST).unlink(missing_ok=True)

    def close(self) -> None:
        """Take the file system away, however busy."""
        if self.is_mounted:
            subprocess.run(["umount", "-l", str(self.path)], check=False)


def obey(folder: Path) -> None:
    """Have this process fail its writes when the switch says so."""
    from flowcontrol.ledger.commit import Writer
    from flowcontrol.ledger.storage import Storage

    def failing(function: Callable[..., Any]) -> Callable[..., Any]:
        def checked(*arguments: Any, **named: Any) -> Any:
            try:
                what = (folder / SWITCH).read_text()
            except FileNotFoundError:
                return function(*arguments, **named)
            number = errno.EROFS if what == READ_ONLY else errno.ENOSPC
            raise OSError(number, os.strerror(number))

        return checked

    if not os.path.ismount(folder / "disk"):
        for owner, name in ((Storage, "open_output"), (Storage, "create"), (Storage, "replace")):
            setattr(owner, name, failing(getattr(owner, name)))
        Writer._transact = failing(Writer._transact)  # type: ignore[method-assign]
