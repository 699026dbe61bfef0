"""Files below a folder: on this machine's disk, or wherever pyarrow and delta-rs reach.

A local folder is read with the standard library, which is several times as fast as any
general file system; everything else goes through ``pyarrow.fs`` (S3, Google, Azure, HDFS).
"""

from __future__ import annotations

import os
import re
import time
import uuid
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from copy import copy
from pathlib import Path
from typing import TYPE_CHECKING, Any

from flowcontrol.errors import DamagedError, LedgerError, LinkError
from flowcontrol.ledger.paths import open_store, read_place

if TYPE_CHECKING:
    import pyarrow as pa
    from pyarrow import fs

LOCAL_WAIT_S = (0.0005, 0.02)
REMOTE_WAIT_S = (0.05, 1.0)
"""Shortest and longest wait between two looks for news: a look at a local folder costs some ten
microseconds, one at an object store a request that is paid for."""


CLAIM_S = 10.0
"""How long a file may be claimed and not there before its maker counts as killed."""


class Storage:
    """A folder and its content.

    - ``root``: a path of this machine, or a URI such as ``s3://bucket/links/orders``.
    - ``options``: what delta-rs is given as ``storage_options``; pyarrow is configured by its URI
      and the environment.

    Raises LedgerError if the path means nothing here; see
    :func:`flowcontrol.ledger.paths.read_place`.
    """

    def __init__(self, root: str | Path, options: Mapping[str, str] | None = None) -> None:
        self.root, self.is_local = read_place(root)
        self.options = dict(options or {})
        self._fs: fs.FileSystem | None = None
        self._base, self._is_checked = self.root, False

    def _system(self) -> fs.FileSystem:
        """Return the store's file system; made when first needed, for it is not pickled."""
        if self._fs is None:
            self._fs, self._base = open_store(self.root, is_checked=self._is_checked)
            self._is_checked = True
        return self._fs

    def __getstate__(self) -> dict[str, Any]:
        """Pickle the place, not the connection."""
        return {**self.__dict__, "_fs": None, "_base": self.root}

    def __str__(self) -> str:
        """Return the place as a user names it."""
        return self.root

    @property
    def waits_s(self) -> tuple[float, float]:
        """Shortest and longest polling interval, seconds."""
        return LOCAL_WAIT_S if self.is_local else REMOTE_WAIT_S

    def child(self, name: str) -> Storage:
        """Return a folder below this one."""
        below = copy(self)
        below.root = f"{self.root}/{name}"
        below._fs, below._base = None, below.root
        return below

    def _remote(self, name: str) -> tuple[fs.FileSystem, str]:
        system = self._system()
        return system, f"{self._base}/{name}"

    def read(self, name: str) -> bytes:
        """Return the bytes of a file.

        Raises FileNotFoundError if it is not there.
        """
        if self.is_local:
            with open(f"{self.root}/{name}", "rb") as file:
                return file.read()
        system, path = self._remote(name)
        with system.open_input_stream(path) as stream:
            return bytes(stream.read())

    def exists(self, name: str) -> bool:
        """Whether a file is there."""
        if self.is_local:
            return Path(self.root, name).exists()
        from pyarrow import fs

        system, path = self._remote(name)
        return bool(system.get_file_info(path).type != fs.FileType.NotFound)

    def names(self) -> list[str]:
        """Return the names of what lies in the folder itself; none if it is not there.

        Raises LedgerError if it is a file, or cannot be read.
        """
        try:
            if self.is_local:
                return sorted(entry.name for entry in Path(self.root).iterdir())
            from pyarrow import fs

            system = self._system()
            found = system.get_file_info(fs.FileSelector(self._base, allow_not_found=True))
            return sorted(info.base_name for info in found)
        except FileNotFoundError:
            return []
        except NotADirectoryError as error:
            raise LedgerError(
                f"{self}: this is a file, or lies below one: name a folder"
            ) from error
        except OSError as error:
            raise LedgerError(f"{self}: cannot be read: {error}") from error

    def create(self, name: str, content: bytes) -> bool:
        """Write a small file whole unless it is there; False if it was.

        On a local disk one of two that create at once is told that it came second, also where the
        file system has no hard links (a mount of Databricks, FUSE); in a store the last one wins,
        and whoever reads the file back sees which.
        """
        if not self.is_local:
            if self.exists(name):
                return False
            system, path = self._remote(name)
            with system.open_output_stream(path) as stream:
                stream.write(content)
            return True
        temporary, file = self._write_temporary(name, content), Path(self.root, name)
        try:
            os.link(temporary, file)
        except FileExistsError:
            return False
        except OSError:  # no hard links here
            return _create_claimed(temporary, file)
        finally:
            temporary.unlink(missing_ok=True)
        return True

    def replace(self, name: str, content: bytes) -> None:
        """Write a small file whole, in place of one that may be there.

        A reader finds the old content or the new one: on a disk by a rename, in a store because
        an object appears when it is whole.
        """
        if self.is_local:
            self._write_temporary(name, content).replace(Path(self.root, name))
            return
        system, path = self._remote(name)
        with system.open_output_stream(path) as stream:
            stream.write(content)

    def remove_empty(self) -> None:
        """Remove the folder and those below it as far as they hold no file; a store has none."""
        if not self.is_local:
            return
        for folder, _, _ in os.walk(self.root, topdown=False):
            with suppress(OSError):  # it holds something, or is gone
                Path(folder).rmdir()

    def _write_temporary(self, name: str, content: bytes) -> Path:
        path = Path(self.root, f"{name}.{uuid.uuid4().hex[:8]}.tmp")
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        return path

    def open_output(self, name: str) -> pa.NativeFile:
        """Open a file for writing; folders above it are made."""
        import pyarrow as pa

        if self.is_local:
            file = Path(self.root, name)
            file.parent.mkdir(parents=True, exist_ok=True)
            return pa.OSFile(str(file), "wb")
        system, path = self._remote(name)
        return system.open_output_stream(path)

    def open_input(self, name: str) -> pa.NativeFile:
        """Open a file for reading at any place of it.

        Raises FileNotFoundError if it is not there.
        """
        import pyarrow as pa

        if self.is_local:
            return pa.OSFile(f"{self.root}/{name}", "rb")
        system, path = self._remote(name)
        return system.open_input_file(path)

    def size(self, name: str) -> int:
        """Return the size of a file, bytes.

        Raises FileNotFoundError if it is not there.
        """
        if self.is_local:
            return Path(self.root, name).stat().st_size
        system, path = self._remote(name)
        info = system.get_file_info(path)
        if info.size is None:
            raise FileNotFoundError(path)
        return int(info.size)

    def delete(self, name: str) -> None:
        """Delete a file; one that is gone already is not an error."""
        try:
            if self.is_local:
                Path(self.root, name).unlink()
            else:
                system, path = self._remote(name)
                system.delete_file(path)
        except FileNotFoundError:
            pass

    def files(self) -> list[tuple[str, float]]:
        """Return every file below the folder: relative name, time last written (Unix, s)."""
        if self.is_local:
            found = list[tuple[str, float]]()
            for path in Path(self.root).rglob("*"):
                with suppress(FileNotFoundError):  # deleted since it was listed
                    if path.is_file():
                        name = str(path.relative_to(self.root))
                        found.append((name, path.stat().st_mtime))
            return found
        from pyarrow import fs

        system = self._system()
        selector = fs.FileSelector(self._base, allow_not_found=True, recursive=True)
        return [
            (info.path[len(self._base) + 1 :], (info.mtime_ns or 0) / 1e9)
            for info in system.get_file_info(selector)
            if info.type == fs.FileType.File
        ]


def as_storage(place: Path | Storage) -> Storage:
    """Return a folder of this machine, or of a store, as a storage."""
    return place if isinstance(place, Storage) else Storage(place)


def _create_claimed(temporary: Path, path: Path) -> bool:
    """Give a whole file its name unless another has it, without hard links.

    Whoever makes the claim, a file of its own that is created exclusively, renames; it looks again
    once it has the claim, so that no file is replaced. A claim of a killed process is removed.
    """
    claim, until = path.with_name(f"{path.name}.claim.tmp"), time.monotonic() + CLAIM_S
    while not path.exists():
        try:
            os.close(os.open(claim, os.O_CREAT | os.O_EXCL | os.O_WRONLY))
        except FileExistsError:
            if time.monotonic() > until:
                claim.unlink(missing_ok=True)
            time.sleep(LOCAL_WAIT_S[1])
            continue
        try:
            if not path.exists():
                temporary.rename(path)
                return True
        finally:
            claim.unlink(missing_ok=True)
    return False


_COLOURS = re.compile(r"\x1b\[[0-9;]*m")


@contextmanager
def writing(place: object, what: str) -> Iterator[None]:
    """Add place and content to the error of a block that cannot write a file.

    Raises LinkError if the block raises an ``OSError``: a full disk, a missing folder, no rights.
    """
    try:
        yield
    except OSError as error:
        # delta-rs draws a tree of causes, in colours.
        text = " ".join(_COLOURS.sub("", str(error)).replace("↳", "").split())
        raise LinkError(
            f"{place}: {what} cannot be written: {text}. Nothing of it is committed and nothing "
            "is lost: free space or repair the storage, and restart the query"
        ) from error


# --- A table that is damaged: the error names the file, and says what to do.

RESTORE_RUN = (
    "Put it back as it was and give the same command again, or begin the run anew with --overwrite"
)
"""Remedy for a missing or damaged file of a run."""


def check_writers(file: str, writers: Iterable[str], run_id: str | None) -> None:
    """Refuse what another run has committed: its rows are not those of this one.

    ``run_id``: identity of the run; None: anybody may write.

    Raises DamagedError if one of them is of another run.
    """
    if run_id is None:
        return
    others = {one for one in writers if one.partition("/")[0] != run_id}
    if others:
        raise DamagedError(
            f"{file} was written by {min(others)!r}: it is of another run, this one is "
            f"{run_id!r}. {RESTORE_RUN}"
        )


RESTORE = (
    "Stop the link's queries and put it back from a copy. Without one the rows that no receiver "
    "has read yet are lost with it: begin a new link in another folder, with new checkpoints"
)
"""Remedy for a missing or damaged file of a link."""


@contextmanager
def damage_named(place: object, name: str) -> Iterator[None]:
    """Raise a DamagedError that names the file if a block cannot read it."""
    try:
        yield
    except FileNotFoundError as error:
        raise DamagedError(
            f"{place}/{name} is missing although the log needs it. {remedy(place)}"
        ) from error
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        text = " ".join(str(error).split()).rstrip(".")
        raise DamagedError(f"{place}/{name} is damaged: {text}. {remedy(place)}") from error


def remedy(place: object) -> str:
    """Return what to do about a damaged table: a run's tables are paths, a link's in a storage."""
    return RESTORE_RUN if isinstance(place, Path) else RESTORE


_GAP = re.compile(r"found gap|Gap between checkpoint version", re.IGNORECASE)
_BEFORE = re.compile(r"(\d{20})\.(?:json|checkpoint)|checkpoint version (\d+)")


def has_gap(error: Exception) -> bool:
    """Whether delta-rs says that a commit is missing between others."""
    return _GAP.search(str(error)) is not None


def damaged(place: object, error: Exception) -> DamagedError:
    """Return the error that says what of a log cannot be read."""
    text = str(error).strip().partition("\n")[0]
    if has_gap(error):
        found = _BEFORE.search(str(error))
        name = f"{int(found[1] or found[2]) + 1:020d}.json" if found else "a commit"
        text = f"{name} is missing between others"
    return DamagedError(
        f"{place}/_delta_log cannot be read: {text}. A commit or a checkpoint is missing "
        f"or damaged. {remedy(place)}"
    )
