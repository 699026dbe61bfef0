"""The compiled kernel on disk: named by what it is made of, compiled by one process at a time.

Numba looks at the file of the entry alone, and at none if it stands in a zip archive, as the
package does on the executors of a cluster. So the folder is named by a hash of every file that is
compiled, a copy of the entry's file stands in it for numba to look at, and whoever finds no kernel
there compiles it under a lock, while the other processes of the machine wait and then load it.
"""

import fcntl
import hashlib
import os
import pickle
import shutil
import stat
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FunctionType
from typing import Any, Final

from flowcontrol.files import write_atomically
from flowcontrol.notices import COMPILING_USUALLY, announce_step

CACHE: Final = "FLOWCONTROL_CACHE"
"""Environment variable: folder of compiled kernels; default ``~/.cache/flowcontrol``."""

UNUSED_S: Final = 30 * 24 * 3600
"""A kernel that was not used for so long is deleted, s."""

_DAMAGED: Final = (OSError, EOFError, pickle.UnpicklingError, ValueError)
"""What numba raises when it loads a file that a power cut has left, or cannot write one."""


def folder_named(sources: Mapping[str, bytes], versions: str, end: str = "") -> Path:
    """Return the folder of the kernel of exactly these sources.

    Parameters
    ----------
    sources : mapping of str to bytes
        Name and text of every file that is compiled.
    versions : str
        Of the compiler and what else decides what it makes.
    end : str, default ""
        What the folder's name ends in.
    """
    digest = hashlib.sha256(versions.encode())
    for name, text in sources.items():
        digest.update(name.encode())
        digest.update(text)
    return _root() / f"kernel-{digest.hexdigest()[:16]}{end}"


def _root() -> Path:
    """Return the folder of all kernels: the first that can be written, else the first."""
    roots = list(_roots())
    return next((root for root in roots if _is_usable(root)), roots[0])


def _roots() -> Iterator[Path]:
    """Yield where kernels may be kept; a user of a container may have no home."""
    if named := os.environ.get(CACHE):
        yield Path(named)
        return
    with suppress(RuntimeError):
        yield Path.home() / ".cache" / "flowcontrol"
    yield Path(tempfile.gettempdir()) / f"flowcontrol-{os.getuid()}"


def _is_usable(root: Path) -> bool:
    """Whether it can be written; in a folder of everybody's also, whether by its owner alone."""
    try:
        root.mkdir(mode=0o700, parents=True, exist_ok=True)
        found = root.lstat()
    except OSError:
        return False
    if root.parent == Path(tempfile.gettempdir()):  # what stands there is run: nobody else's code
        is_own = stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid()
        if not is_own or found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
            return False
    return os.access(root, os.W_OK | os.X_OK)


def drop_old_kernels(root: Path, keep: Path) -> None:
    """Delete kernels that nobody has used for a month; what cannot be deleted stays.

    Parameters
    ----------
    root : Path
        Folder of all kernels.
    keep : Path
        The one in use.
    """
    limit = time.time() - UNUSED_S
    with suppress(OSError):
        keep.mkdir(parents=True, exist_ok=True)
        os.utime(keep)
        for folder in root.glob("kernel-*"):
            if folder != keep and folder.stat().st_mtime < limit:
                shutil.rmtree(folder, ignore_errors=True)


def with_globals(entry: Callable[..., Any], **values: Any) -> Callable[..., Any]:
    """Return a function with some of its module's names standing for other values."""
    assert isinstance(entry, FunctionType)
    return FunctionType(
        entry.__code__,
        {**entry.__globals__, **values},
        entry.__name__,
        entry.__defaults__,
        entry.__closure__,
    )


def addressed(
    entry: Callable[..., Any], source: bytes, folder: Path, **values: Any
) -> Callable[..., Any]:
    """Return a function with a file in a folder as its source, for numba to know it again by.

    Parameters
    ----------
    entry : function
        The kernel's entry, wherever its module was read from.
    source : bytes
        Text of that module.
    folder : Path
        Of the kernel.
    **values
        Names of its module that stand for other values.

    Raises
    ------
    OSError
        If the file cannot be written.
    """
    path = folder / f"{entry.__module__.rpartition('.')[2]}.py"
    if not path.exists():
        write_atomically(path, source.decode())
        os.utime(path, (0, 0))  # the same for whoever else writes it at this moment
    made = with_globals(entry, **values)
    made.__code__ = entry.__code__.replace(co_filename=str(path))
    return made


def compiled_once(dispatcher: Any, folder: Path) -> Any:
    """Return a dispatcher that compiles under a lock, and loads what another has compiled.

    Parameters
    ----------
    dispatcher : numba.core.registry.CPUDispatcher
        With a cache in the folder.
    folder : Path
        Of the kernel.
    """
    from flowcontrol.kernel.lowering import linked_only

    build = dispatcher.compile

    def compile_kept(signature: Any) -> Any:
        with _locked(folder), linked_only(dispatcher.targetctx.codegen()):
            try:
                return build(signature)
            except _DAMAGED:  # a damaged file is made anew
                for path in folder.rglob("*.nb[ci]"):
                    path.unlink(missing_ok=True)
            with suppress(OSError):  # no room for it: it is compiled all the same
                return build(signature)
            return build(signature)

    dispatcher.compile = compile_kept
    return dispatcher


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Hold the folder's lock: alone as long as there is no kernel in it, else with others."""
    try:
        lock = os.open(folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError:
        yield
        return
    try:
        with suppress(OSError):  # a file system without locks
            _take(lock, fcntl.LOCK_SH if has_kernel(folder) else fcntl.LOCK_EX)
        yield
    finally:
        os.close(lock)


def _take(lock: int, kind: int) -> None:
    """Take a lock; say so if another process has to let go of it first."""
    try:
        fcntl.flock(lock, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        announce_step("waiting for another process to compile the virtual clock", COMPILING_USUALLY)
        fcntl.flock(lock, kind)


def has_kernel(folder: Path) -> bool:
    """Whether a compiled kernel stands in a folder; numba writes its code last."""
    return any(folder.rglob("*.nbc"))
