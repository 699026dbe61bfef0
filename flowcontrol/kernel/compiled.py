"""Numba, where it is: the rules registered as they stand, and one cached entry.

A rule is never written twice: :func:`compile_entry` tells numba to compile the very functions of
:mod:`flowcontrol.protocol`. What it makes is kept on disk (:mod:`.kept`).
"""

from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import cache
from importlib import import_module, resources
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any, TypeVar, cast

from flowcontrol.install import how_to_install
from flowcontrol.kernel import kept as files
from flowcontrol.memory.cells import ONCE, PARTS
from flowcontrol.memory.parts import EVERYTHING
from flowcontrol.notices import COMPILING_USUALLY, announce_step, warn
from flowcontrol.systems.transports import rules
from flowcontrol.systems.transports.rules import CHOSEN, names

F = TypeVar("F", bound=Callable[..., Any])

RULES = {
    "protocol": "service",
    "protocol.checkpoints": "alignment barriers",
    "protocol.event_time": "watermarks valve",
    "protocol.network": (
        "pool_rules credit_rules subpartition_rules rounds events partition_kinds debloating "
        "partitioners"
    ),
    "protocol.tasks": (
        "processors task output checkpointing snapshots operators reading event_time windowing"
    ),
    "protocol.windows": "contents triggers firing spark_batches",
    "state": "rows queues windows tasks",
    "systems": "barrier_buffer tcp",
    "systems.throttles": "throttled_source",
    "systems.transports": "record_rounds transport",
}
"""Modules with rules that the kernel compiles, by package; besides those of the transports."""

KERNEL = (
    "ages barriers credits debloat disk ending jobs loop machines messages planning "
    "reading reports spilling task views writing"
)
"""Modules of this package whose functions are the kernel's own."""

_COPIED_RULES = (
    "credit_rules operators output pool_rules queues rounds rows service subpartition_rules task"
)
_COPIED_KERNEL = "ages credits loop messages planning task views writing"
COPIED = {*_COPIED_RULES.split(), *_COPIED_KERNEL.split()}
"""Modules whose functions are copied to where they are called: what every job under credits runs
in every round. Without the kernel's own a chain takes a fifth longer. What only other systems run
is left out: it would take a fifth longer to compile, and gain nothing."""


_FAILURES: list[str] = []
"""Why this process cannot compile, once it has tried; empty otherwise."""


def is_compiled() -> bool:
    """Tell whether runs are compiled: numba is there, not switched off, and has not failed."""
    settings = _settings()
    return settings is not None and not settings.DISABLE_JIT and not _FAILURES


@cache
def _settings() -> Any:
    """Numba's settings, which its type information does not list; None without numba."""
    try:
        return import_module("numba.core.config")
    except ImportError:
        return None


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
    """Return the folder of the kernel of exactly these sources, this numba and these parts."""
    import numba
    import numpy

    versions = f"{numba.__version__} {numpy.__version__}"
    return files.folder_named(dict(_sources()), versions, f"-{parts}")


def is_kept(parts: int = EVERYTHING) -> bool:
    """Tell whether a kernel of these sources that has these parts is on this machine's disk."""
    return files.has_kernel(cache_folder(best_parts(parts)))


def best_parts(parts: int) -> int:
    """Return the parts of the smallest kernel on disk that has these; they alone if none does."""
    if not is_compiled():
        return parts
    folder = cache_folder(parts)
    name = folder.name.removesuffix(f"{parts}")
    kept = [int(other.name.removeprefix(name)) for other in folder.parent.glob(f"{name}*")]
    larger = sorted((other for other in kept if other & parts == parts), key=int.bit_count)
    return next((k for k in larger if files.has_kernel(folder.with_name(f"{name}{k}"))), parts)


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
        options = _options(function.__module__)
        if function in CHOSEN:
            lowering.register_choice(function, options)
        elif function in PARTS:
            lowering.register_part(function, PARTS[function], options)
        elif function in ONCE:
            lowering.register_plain(function, ONCE[function], options)
        else:
            register(**options)(function)


def _options(module: str) -> dict[str, Any]:
    """Return how numba compiles the functions of a module.

    Only the entry is called from outside, so no other function needs a C wrapper; and none has an
    expression of arrays, which is what numba would rewrite.
    """
    return {
        "_nrt": False,
        "error_model": "numpy",
        "no_cfunc_wrapper": True,
        "no_rewrites": True,
        "forceinline": module.rsplit(".", 1)[1] in COPIED,
    }


def compile_entry(entry: F, parts: int = EVERYTHING) -> F:
    """Return the entry compiled and cached; as it is without numba, or if that fails.

    The kernel uses what numba does not promise to keep. So a version that was not tried may fail
    in any way; this is said in a line, and the run goes on with the same code interpreted.

    Parameters
    ----------
    entry : function
        Takes the memory and a round. Its global ``PARTS`` is the kernel's parts.
    parts : int, default EVERYTHING
        Parts that the kernel has, a sum.
    """
    if not is_compiled():
        return entry
    try:
        return _compiled(entry, parts)
    except Exception as error:
        _FAILURES.append(f"{type(error).__name__}: {str(error).strip().partition(chr(10))[0]}")
        warn(
            f"the virtual clock runs interpreted, slowly: numba {_version()} cannot compile it "
            f"({_FAILURES[0]}); {how_to_install('virtual')} brings one that can"
        )
        return entry


def _version() -> str:
    return str(import_module("numba").__version__)


def _compiled(entry: F, parts: int) -> F:
    """Return the entry with its machine code, from disk if it is there."""
    from numba import njit, types

    signature = (types.int64[::1], types.int64)
    options: dict[str, Any] = {"nogil": True, "error_model": "numpy"}
    folder = cache_folder(parts)
    if not files.has_kernel(folder):
        announce_step("compiling the virtual clock", COMPILING_USUALLY)
    _register()
    files.drop_old_kernels(folder.parent, folder)
    with suppress(OSError):
        module = import_module(entry.__module__)
        found = _cached(files.addressed(entry, _text(module), folder, PARTS=parts), folder, options)
        # Where it must not write, numba takes another folder, whose name says nothing of rules.
        if Path(found.stats.cache_path).is_relative_to(folder):
            files.compiled_once(found, folder).compile(signature)
            return cast(F, found)
    warn(f"what is compiled is not kept: {files.CACHE} names no folder that can be written")
    made = njit(**options)(files.with_globals(entry, PARTS=parts))
    made.compile(signature)
    return cast(F, made)


def _cached(entry: Callable[..., Any], folder: Path, options: dict[str, Any]) -> Any:
    """Return an entry that numba keeps in a folder."""
    from numba import njit

    config = _settings()
    before = config.CACHE_DIR
    try:
        config.CACHE_DIR = str(folder)
        return njit(cache=True, **options)(entry)
    finally:
        config.CACHE_DIR = before
