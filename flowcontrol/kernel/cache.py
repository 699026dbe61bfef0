"""The compiled kernel on disk: named by what it is made of, loaded without numba."""

from __future__ import annotations

import ctypes
import fcntl
import hashlib
import os
import platform
import shutil
import stat
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import cache
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any, Final

from flowcontrol.files import write_atomically
from flowcontrol.notices import COMPILING_USUALLY, announce_step

# --- Machine code of a kernel: made of numba's modules once, kept as an object file, loaded by
# LLVM.
#
# What loads it imports llvmlite and not numba, whose import and start take longer than a small run.
# It is made for every processor of a kind (``x86-64``, not the one at hand), so that a file may be
# made elsewhere.


ENTRY: Final = "flowcontrol_advance"
"""Name of the entry in an object file."""

BASELINE: Final = {"x86_64": "x86-64", "amd64": "x86-64"}
"""The processor that code is made for, by the name of the machine; others: LLVM's least one."""

OPTIMIZATION: Final = 2
"""Level of LLVM: the third takes as long again, and rounds are no quicker."""


@cache
def _llvm() -> Any:
    import llvmlite.binding as llvm

    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    return llvm


def _machine() -> Any:
    llvm = _llvm()
    processor = BASELINE.get(platform.machine().lower(), "")
    target = llvm.Target.from_triple(llvm.get_process_triple())
    return target.create_target_machine(cpu=processor, opt=OPTIMIZATION, reloc="pic", jit=True)


def object_file(module: Any, entry: str) -> bytes:
    """Optimise a module, and return its machine code as an object file."""
    llvm, machine = _llvm(), _machine()
    for found in (*module.functions, *module.global_variables):
        if not found.is_declaration and found.name != entry:
            found.linkage = "internal"  # nobody else calls it: what is inlined everywhere goes
    module.get_function(entry).name = ENTRY
    options = llvm.create_pipeline_tuning_options(speed_level=OPTIMIZATION)
    options.loop_vectorization = options.slp_vectorization = options.loop_unrolling = False
    builder = llvm.create_pass_builder(machine, options)
    builder.getModulePassManager().run(module, builder)
    code: bytes = machine.emit_object(module)
    return code


def load(code: bytes) -> Callable[[Any, int], int]:
    """Return the entry of an object file: it takes a memory and a round, and returns flags.

    The entry has the form that numba gives a function of an array and a number: places for the
    result and for an exception, the array's owners, size and address, the number. It lets other
    threads run meanwhile.
    """
    llvm = _llvm()
    engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), _machine())
    engine.add_object_file(llvm.ObjectFileRef.from_data(code))
    engine.finalize_object()
    pointer, number = ctypes.c_void_p, ctypes.c_int64
    array = (pointer, pointer, number, number, pointer, number, number)
    form = ctypes.CFUNCTYPE(ctypes.c_int32, pointer, pointer, *array, number)
    entry = form(engine.get_function_address(ENTRY))

    def advance(memory: Any, end: int, _engine: Any = engine) -> int:  # which owns the code
        flags, problem = ctypes.c_int64(), ctypes.c_void_p()
        places = ctypes.addressof(flags), ctypes.addressof(problem)
        cells = None, None, memory.size, 8, memory.ctypes.data, memory.size, 8
        if entry(*places, *cells, end) != 0:
            raise RuntimeError("the compiled kernel ended with an exception")  # it has none
        return flags.value

    return advance


# --- The compiled kernel on disk: named by what it is made of, compiled by one process at a time.
#
# Its folder is named by a hash of every file that is compiled. Whoever finds no kernel there
# compiles it under a lock, while the other processes of the machine wait and then load it. The file
# begins with a hash of what follows: LLVM ends the process over a part of a file, which a power cut
# leaves.
#
# A wheel brings one with all parts along (``scripts/build.sh``), under the name of its folder.


CACHE: Final = "FLOWCONTROL_CACHE"
"""Environment variable: folder of compiled kernels; default ``~/.cache/flowcontrol``."""

UNUSED_S: Final = 30 * 24 * 3600
"""A kernel that was not used for so long is deleted, s."""

KERNEL: Final = "kernel.o"
"""The file of a kernel in its folder."""

_DIGEST_BYTES: Final = hashlib.sha256().digest_size


def folder_named(sources: Mapping[str, bytes], versions: str, end: str = "") -> Path:
    """Return the folder of the kernel of exactly these sources.

    ``versions``: what else decides what is made of them.
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
    """Delete kernels that nobody has used for a month; what cannot be deleted stays."""
    limit = time.time() - UNUSED_S
    with suppress(OSError):
        keep.mkdir(parents=True, exist_ok=True)
        os.utime(keep)
        for folder in root.glob("kernel-*"):
            if folder != keep and folder.stat().st_mtime < limit:
                shutil.rmtree(folder, ignore_errors=True)


def read(folder: Path) -> bytes | None:
    """Return the kernel in a folder, or the package's; None if there is none, or a part of one."""
    for file in (folder / KERNEL, _built() / folder.name):
        with suppress(OSError):
            kept = file.read_bytes()
            digest, code = kept[:_DIGEST_BYTES], kept[_DIGEST_BYTES:]
            if hashlib.sha256(code).digest() == digest:
                return code
    return None


def _built() -> Traversable:
    """Return the folder of kernels that came with the package."""
    return resources.files("flowcontrol.kernel").joinpath("built")


def compiled_once(folder: Path, compile_it: Callable[[], bytes]) -> tuple[bytes, bool]:
    """Return the kernel in a folder, compiled if there is none, and whether it is kept.

    One process compiles, and others wait for it.
    """
    with _locked(folder):
        if (kept := read(folder)) is not None:
            return kept, True
        code = compile_it()
        try:
            write_atomically(folder / KERNEL, hashlib.sha256(code).digest() + code)
        except OSError:  # no room for it, or none may write there
            return code, False
        return code, True


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
    """Whether a compiled kernel stands in a folder, or came with the package."""
    return (folder / KERNEL).is_file() or (_built() / folder.name).is_file()


def ends_of_kernels(folder: Path, name: str) -> set[str]:
    """Return how the names of kernels end that stand beside a folder or came with the package."""
    names = {other.name for other in folder.parent.glob(f"{name}*") if has_kernel(other)}
    with suppress(OSError):
        names |= {other.name for other in _built().iterdir() if other.name.startswith(name)}
    return {other.removeprefix(name) for other in names}
