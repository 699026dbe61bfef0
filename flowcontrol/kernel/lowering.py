"""The compiled forms of rows, gates and random numbers, linked once; imports numba.

Imported only by :mod:`flowcontrol.kernel.compiled`, once, before the entry is compiled.
"""

import inspect
import operator
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import numpy as np
from llvmlite import ir
from numba import extending as ext
from numba import types
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler_lock import global_compiler_lock

from flowcontrol.kernel import lowered_state as low
from flowcontrol.kernel.task import KernelWorker, RoundWork, round_work, worker_of
from flowcontrol.kernel.views import GateList, gate_of, gates_of, whole
from flowcontrol.kernel.writing import mix_bits, mix_modulo, uniform
from flowcontrol.memory.cells import PARTS, PLACED, lowest_bit, row, rows
from flowcontrol.memory.parts import transport_kinds
from flowcontrol.protocol.tasks.operators import Selectivity, as_selectivity
from flowcontrol.systems.transports.rules import rules_of_kind

# --- Functions that numba optimises and turns into machine code once: in the kernel they are part
# of.
#
# Numba does both for each function by itself, and again in each caller up to the entry, which
# is a third of the time that a kernel takes. Imports numba.


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


# --- The compiled forms of rows, of lists of gates and of random numbers; imports numba.


# ---- rows

low.placed_at(row, lambda memory: low.ints_type)
low.placed_at(rows, lambda memory: low.int_rows_type)


@low.in_place(lowest_bit)
def _trailing(typing: Any, word: Any) -> Any:
    def code(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        return builder.cttz(values[0], ir.Constant(ir.IntType(1), 0))

    return types.int64(types.int64), code


@low.in_place(whole, prefer_literal=True)
def _whole(typing: Any, memory: Any, parts: Any) -> Any:
    kind = low.MemoryType(parts.literal_value)

    def code(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        given = context.make_array(memory)(context, builder, values[0])
        count = context.cast(builder, given.nitems, types.intp, types.int64)
        return low.made(context, builder, kind, data=given.data, count=count)

    return kind(memory, parts), code


# ---- parts


def register_part(function: Any, part: int, options: dict[str, Any]) -> None:
    """Have a function compiled for kernels with its part; others never call it, and it is 0."""

    @ext.overload(function, jit_options=options, strict=False)
    def present(*values: Any) -> Any:
        return function if _parts_of(values[0]) & part else None

    def absent(typing: Any, m: Any, *values: Any) -> Any:
        if _parts_of(m) & part:
            return None

        def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            return ir.Constant(low.CELL, 0)

        return types.int64(m, *values), code

    low.in_place(function)(low.typed_as(function, absent))


def _parts_of(kind: Any) -> int:
    """Return the parts of a kernel, given the type of its memory, or of what has that: a worker."""
    return int(dict(kind.fields)["m"].parts if isinstance(kind, _ObjectType) else kind.parts)


def register_plain(function: Any, plain: Any, options: dict[str, Any]) -> None:
    """Have a function compiled as another one that it stands for where nothing is compiled."""

    @ext.overload(function, jit_options=options, strict=False)
    def present(*_: Any) -> Any:
        return plain


# ---- objects of several fields


class _ObjectType(types.Type):
    def __init__(self, fields: Any) -> None:
        self.fields = fields
        super().__init__(name=f"{type(self).__name__}({fields})")


class _ObjectModel(ext.models.StructModel):
    def __init__(self, manager: Any, kind: Any) -> None:
        super().__init__(manager, kind, kind.fields)


def _object_of(make: Any, cls: type[Any]) -> Any:
    """Have a function return an object whose fields are its parameters; return its type."""
    names = list(inspect.signature(make).parameters)
    of_class = type(cls.__name__, (_ObjectType,), {})
    ext.register_model(of_class)(_ObjectModel)
    for name in names:
        ext.make_attribute_wrapper(of_class, name, name)

    def found(typing: Any, *given: Any) -> Any:
        fields = [types.int64 if isinstance(one, types.Integer) else one for one in given]
        kind = of_class(tuple(zip(names, fields, strict=True)))

        def code(context: Any, builder: Any, signature: Any, values: Any) -> Any:
            members = map(partial(context.cast, builder), values, given, fields)
            return low.made(context, builder, kind, **dict(zip(names, members, strict=True)))

        return kind(*given), code

    low.in_place(make)(low.typed_as(make, found))
    return of_class


# ---- transports


def register_choice(function: Any, options: dict[str, Any]) -> None:
    """Have the rules of the kernel's own transports compiled in the place of a function.

    It is one of :data:`flowcontrol.systems.transports.rules.CHOSEN`, and its first argument the
    parameters of a transport.
    """
    chains: dict[Any, Any] = {}

    def chain(kinds: Any) -> Any:
        if kinds not in chains:
            rule = getattr(rules_of_kind(kinds[0]), function.__name__)
            chains[kinds] = rule if len(kinds) == 1 else _choice(kinds[0], rule, chain(kinds[1:]))
        return chains[kinds]

    def _choice(kind: int, rule: Any, others: Any) -> Any:
        def choose(transport: Any, *rest: Any) -> Any:
            if transport.kind == kind:
                return rule(transport, *rest)
            return others(transport, *rest)

        return ext.register_jitable(**options)(choose)

    @ext.overload(function, jit_options=options, strict=False)
    def chosen(transport: Any, *rest: Any) -> Any:
        return chain(transport.kinds)


gate_list = _object_of(gates_of, GateList)
worker = _object_of(worker_of, KernelWorker)
_object_of(round_work, RoundWork)


@ext.overload(operator.getitem, strict=False)
def _get(gates: Any, index: Any) -> Any:
    if isinstance(gates, gate_list):
        return lambda gates, index: gate_of(gates.m, gates.first + index)
    return None


def register_methods(options_of: Callable[[str], dict[str, Any]]) -> None:
    """Have the methods of a worker compiled as they stand; the options are by module."""
    options = options_of(KernelWorker.__module__)
    for name, method in vars(KernelWorker).items():
        if not name.startswith("_"):
            _register_method(name, method, options)


def _register_method(name: str, method: Any, options: dict[str, Any]) -> None:
    signature, part = inspect.signature(method), PARTS.get(method, 0)
    absent = eval(f"lambda {', '.join(signature.parameters)}: 0")
    absent.__signature__ = signature  # numba compares it

    def found(*values: Any) -> Any:
        return method if part == 0 or _parts_of(values[0]) & part else absent

    found.__signature__ = signature  # type: ignore[attr-defined]
    ext.overload_method(worker, name, jit_options=options)(found)


# ---- state

_FORMS: dict[str, Callable[[type[Any], Any], Any]] = {
    "state": lambda cls, memory: low.state_type(cls, low.missing_of(cls, memory.parts)),
    "transport": lambda cls, memory: low.StateType(cls, tuple(transport_kinds(memory.parts))),
    "rows": lambda cls, memory: low.rows_type(cls, low.missing_of(cls, memory.parts)),
    "queue": lambda cls, memory: low.QueueType(cls, low.missing_of(cls, memory.parts)),
    "ring": lambda cls, memory: low.QueueType(cls, low.missing_of(cls, memory.parts), is_ring=True),
}
for _function, (_form, _class, _owner) in PLACED.items():
    if _owner is not None:
        low.placed_at(_function, partial(low.rings_type, _class, _owner))
    else:
        low.placed_at(_function, partial(_FORMS[_form], _class))
low.state_as(as_selectivity, Selectivity)


# ---- random numbers

low.LOWERED.update((mix_bits, mix_modulo, uniform))

ONE, K, S, M1, M2 = (
    np.uint64(value)
    for value in (1, 0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB)
)
S30, S27, S31, S11 = (np.uint64(value) for value in (30, 27, 31, 11))


@ext.register_jitable(_nrt=False)
def _mixed(seed: Any, stream: Any, number: Any) -> Any:
    z = np.uint64(seed) * K + np.uint64(stream) * S + np.uint64(number) + ONE
    z = z * K
    z = (z ^ (z >> S30)) * M1
    z = (z ^ (z >> S27)) * M2
    return z ^ (z >> S31)


@ext.overload(mix_modulo, strict=False)
def _mix_modulo(seed: Any, stream: Any, number: Any, width: Any) -> Any:
    def body(seed: Any, stream: Any, number: Any, width: Any) -> Any:
        return np.int64(_mixed(seed, stream, number) % np.uint64(width))

    return body


@ext.overload(mix_bits, strict=False)
def _mix_bits(seed: Any, stream: Any, number: Any) -> Any:
    return lambda seed, stream, number: np.int64(_mixed(seed, stream, number) >> ONE)


@ext.overload(uniform, strict=False)
def _uniform(seed: Any, stream: Any, number: Any) -> Any:
    return lambda seed, stream, number: np.float64(_mixed(seed, stream, number) >> S11) * 2.0**-53
