"""The compiled kernel: the rules as they stand, and one entry, which is kept on disk.

A rule is never written twice: :func:`compile_entry` tells numba to compile the very functions of
:mod:`flowcontrol.protocol`. What it makes is kept and loaded without numba by
:mod:`flowcontrol.kernel.cache`.
"""

import os
import platform
import sys
from collections.abc import Callable, Iterator
from functools import cache
from importlib import import_module, resources
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any, Final, NamedTuple, TypeVar

from flowcontrol.kernel import cache as files
from flowcontrol.kernel.cache import load, object_file
from flowcontrol.memory.cells import ONCE, PARTS
from flowcontrol.memory.parts import EVERYTHING
from flowcontrol.notices import COMPILING_USUALLY, announce_step, warn
from flowcontrol.systems.transports import rules
from flowcontrol.systems.transports.rules import CHOSEN, names
from flowcontrol.version import how_to_install

F = TypeVar("F", bound=Callable[..., Any])

RULES = {
    "protocol": "service event_time",
    "protocol.checkpoints": "alignment barriers",
    "protocol.network": (
        "pool_rules credit_rules subpartition_rules rounds events partition_kinds debloating "
        "partitioners"
    ),
    "protocol.tasks": (
        "processors task checkpointing committing snapshots operators reading event_time windowing"
    ),
    "protocol.requests": (
        "async_sink async_wait blocking common destination entries producer rate_limiting writers"
    ),
    "protocol.windows": "contents triggers firing spark_batches",
    "state": "rows queues windows tasks",
    "systems": "barrier_buffer tcp",
    "systems.throttles": "throttled_source",
    "systems.transports": "record_rounds transport",
}
"""Modules with rules that the kernel compiles, by package; besides those of the transports."""

KERNEL = (
    "ages credits debloat disk ending jobs loop machines messages planning "
    "reading reports requests runs spilling task views waits writing"
)
"""Modules of this package whose functions are the kernel's own."""

_COPIED_RULES = (
    "credit_rules operators pool_rules queues rounds rows service subpartition_rules task"
)
_COPIED_KERNEL = "ages credits loop messages planning runs task views writing"
COPIED = {*_COPIED_RULES.split(), *_COPIED_KERNEL.split()}
"""Modules whose functions are copied to where they are called: what every job under credits runs
in every round. Without the kernel's own a chain takes a fifth longer. What only other systems run
is left out: it would take a fifth longer to compile, and gain nothing."""

_COLD = "draw event_partition is_between log_put_out put_out_event resume_consumption write_mark"
APART = {*_COLD.split()}
"""Functions of theirs that are not: large, called at many places, and not in every round. To call
what moves credits and messages as well would take a tenth longer in every run."""

_PLAIN: Final[dict[str, Any]] = {
    "_nrt": False,
    "error_model": "numpy",
    "no_cfunc_wrapper": True,
    "no_cpython_wrapper": True,
    "no_rewrites": True,
}
"""Options of numba: functions of numbers alone, which Python does not call."""

SWITCHED_OFF: Final = "NUMBA_DISABLE_JIT"
"""Environment variable of numba: 1 has all run interpreted."""

_FAILURES: list[str] = []
"""Why this process cannot compile, once it has tried; empty otherwise."""


def is_compiled() -> bool:
    """Tell whether runs are compiled: numba is there, not switched off, and has not failed."""
    return has_numba() and os.environ.get(SWITCHED_OFF, "0") in ("", "0") and not _FAILURES


@cache
def has_numba() -> bool:
    """Tell whether numba is there, without its import, which takes half a second."""
    return find_spec("numba") is not None


def _rule_modules() -> list[ModuleType]:
    """Modules whose functions the kernel calls."""
    rules = [f"{package}.{name}" for package, found in RULES.items() for name in found.split()]
    own = [f"systems.transports.{name}" for name in names()]
    return [import_module(f"flowcontrol.{name}") for name in (*rules, *own)]


def _sources() -> Iterator[tuple[str, bytes]]:
    """Name and text of every file that is compiled, also of a package in a zip archive."""
    # which transport each part, and where each field is
    yield "parts.yaml", resources.files("flowcontrol.scenario").joinpath("parts.yaml").read_bytes()
    for room in ("state", "memory", "kernel"):
        own = resources.files(f"flowcontrol.{room}").iterdir()
        for file in sorted(own, key=lambda found: found.name):
            if file.name.endswith(".py"):
                yield f"{room}/{file.name}", file.read_bytes()
    for module in (rules, *_rule_modules()):
        yield module.__name__, _text(module)


def _text(module: ModuleType) -> bytes:
    """Return the text of a module's file."""
    loader: Any = module.__loader__
    text: bytes = loader.get_data(module.__file__)
    return text


def cache_folder(parts: int = EVERYTHING) -> Path:
    """Return the folder of the kernel of exactly these sources, of this machine and these parts."""
    return files.folder_named(dict(_sources()), f"{sys.platform} {platform.machine()}", f"-{parts}")


def is_kept(parts: int = EVERYTHING) -> bool:
    """Tell whether a kernel of these sources that has these parts is on this machine's disk."""
    return files.has_kernel(cache_folder(best_parts(parts)))


def best_parts(parts: int) -> int:
    """Return the parts of the smallest kernel on disk that has these; they alone if none does."""
    if not is_compiled():
        return parts
    folder = cache_folder(parts)
    kept = map(int, files.ends_of_kernels(folder, folder.name.removesuffix(f"{parts}")))
    return min((k for k in kept if k & parts == parts), key=int.bit_count, default=parts)


_REGISTERED: set[object] = set()
"""Functions that numba knows."""


def _register() -> None:
    """Register with numba what it does not know: rows, rules, and the kernel's own functions."""
    import numba.extending

    from flowcontrol.kernel import lowering
    from flowcontrol.kernel.lowered_state import LOWERED

    register: Any = numba.extending.register_jitable

    kernel = [import_module(f"flowcontrol.kernel.{name}") for name in KERNEL.split()]
    own = [
        value
        for module in (*_rule_modules(), *kernel)
        for value in vars(module).values()
        if isinstance(value, FunctionType) and value.__module__ == module.__name__
    ]
    if not _REGISTERED:
        lowering.register_methods(_options)
    known = _REGISTERED | LOWERED
    for function in [one for one in (*own, *CHOSEN) if one not in known]:
        _REGISTERED.add(function)
        options = _options(function)
        if function in CHOSEN:
            lowering.register_choice(function, options)
        elif function in PARTS:
            lowering.register_part(function, PARTS[function], options)
        elif function in ONCE:
            lowering.register_plain(function, ONCE[function], options)
        else:
            register(**options)(function)


def _options(function: Any) -> dict[str, Any]:
    """Return how numba compiles a function."""
    from flowcontrol.kernel.lowering import Lean

    is_copied = function.__module__.rsplit(".", 1)[1] in COPIED and function.__name__ not in APART
    return {**_PLAIN, "pipeline_class": Lean, "forceinline": is_copied}


class Kernel(NamedTuple):
    """The entry as machine code."""

    advance: Callable[[Any, int], int]  # Takes the memory and a round
    folder: Path | None  # Where it is kept
    is_new: bool  # Whether this process compiled it

    def __call__(self, memory: Any, end: int) -> int:
        """Run the rounds up to ``end``, or until a flag is raised; return the flags."""
        return self.advance(memory, end)


def compile_entry(entry: F, parts: int = EVERYTHING) -> F | Kernel:
    """Return the entry compiled and kept; as it is without numba, or if that fails.

    The kernel uses what numba does not promise to keep. So a version that was not tried may fail
    in any way; this is said in a line, and the run goes on with the same code interpreted.

    ``entry``: takes the memory and a round. Its global ``PARTS`` is the kernel's parts.
    """
    if not is_compiled():
        return entry
    try:
        return _compiled(entry, parts)
    except Exception as error:
        _FAILURES.append(f"{type(error).__name__}: {str(error).strip().partition(chr(10))[0]}")
        warn(
            f"the virtual clock runs interpreted, slowly: numba {version('numba')} cannot compile"
            f" it ({_FAILURES[0]}); {how_to_install('virtual')} brings one that can"
        )
        return entry


def _compiled(entry: Callable[..., Any], parts: int) -> Kernel:
    """Return the entry's machine code, from disk if it is there."""
    folder = cache_folder(parts)
    files.drop_old_kernels(folder.parent, folder)
    made: list[bytes] = []

    def compile_it() -> bytes:
        announce_step("compiling the virtual clock", COMPILING_USUALLY)
        made.append(_machine_code(entry, parts))
        return made[0]

    code, is_kept = files.compiled_once(folder, compile_it)
    if not is_kept:
        warn(f"what is compiled is not kept: {files.CACHE} names no folder that can be written")
    return Kernel(load(code), folder if is_kept else None, bool(made))


def _machine_code(entry: Callable[..., Any], parts: int) -> bytes:
    """Compile the entry, of a kernel that has these parts."""
    from numba import types

    from flowcontrol.kernel.lowering import linked

    _register()
    assert isinstance(entry, FunctionType)
    own = FunctionType(entry.__code__, {**entry.__globals__, "PARTS": parts}, entry.__name__)
    signature = (types.int64[::1], types.int64)
    return object_file(*linked(own, signature, _options(entry)))
