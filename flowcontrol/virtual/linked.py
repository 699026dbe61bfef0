"""Functions that numba optimises and turns into machine code once: in the kernel they are part of.

Numba does both for each function by itself, and again in each caller up to the entry, which is a
third of the time that a kernel takes. Imports numba.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from numba.core.codegen import JITCodeLibrary
from numba.core.compiler_lock import global_compiler_lock

__all__ = ["linked_only"]

_WRAPPER = "_ZN7cpython"
"""What the name of a function's form for Python begins with: the namespace cpython, mangled."""

_USUAL: Any = JITCodeLibrary


class _LaterEnvironments:
    """A code generator that keeps the environments of code that is not in its engine yet."""

    def __init__(self, generator: Any, kept: dict[str, Any]) -> None:
        self._generator, self._kept = generator, kept

    def __getattr__(self, name: str) -> Any:
        return getattr(self._generator, name)

    def set_env(self, name: str, environment: Any) -> None:
        """Keep an environment under the name of the variable that will hold it."""
        self._kept[name] = environment


class _LinkedLibrary(JITCodeLibrary):
    """The code of a function, and no machine code unless Python can call it."""

    _environments: dict[str, Any]

    @property
    def codegen(self) -> Any:
        """The code generator, as numba's lowering asks for it."""
        if self._is_called:
            return self._codegen
        return _LaterEnvironments(self._codegen, self._environments)

    @property
    def _is_called(self) -> bool:
        """Whether Python can call it: it has a wrapper, or is loaded as machine code."""
        names = (function.name for function in self._final_module.functions)
        return self._disable_inspection or any(name.startswith(_WRAPPER) for name in names)

    def _optimize_final_module(self: Any) -> None:
        if self._is_called:
            _USUAL._optimize_final_module(self)
            return
        passes, builder = self._codegen._module_pass_manager(opt=0, cost="cheap")
        passes.run(self._final_module, builder)

    def _finalize_final_module(self: Any) -> None:
        if self._is_called:
            _USUAL._finalize_final_module(self)
            return
        self._finalize_dynamic_globals()
        self._finalized = True


@contextmanager
def linked_only(generator: Any) -> Iterator[None]:
    """Compile what Python cannot call for its callers only.

    It is inlined where it is small, and optimised with what it stands in. A numba that names its
    libraries otherwise compiles as it always does.

    Parameters
    ----------
    generator : numba.core.codegen.JITCPUCodegen
        Of the dispatcher that compiles meanwhile.
    """
    with global_compiler_lock:  # functions of other threads are compiled before or after
        if getattr(generator, "_library_class", None) is not JITCodeLibrary:
            yield
            return
        kept: dict[str, Any] = {}
        generator._library_class = type("Linked", (_LinkedLibrary,), {"_environments": kept})
        try:
            yield
        finally:
            generator._library_class = JITCodeLibrary
            for name, environment in kept.items():
                if generator._engine.is_symbol_defined(name):
                    generator.set_env(name, environment)
