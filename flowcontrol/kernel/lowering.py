"""The compiled forms of rows, gates and random numbers, linked once; imports numba.

Imported only by :mod:`flowcontrol.kernel.compiled`, once, before the entry is compiled.
"""

import gc
import inspect
import operator
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import llvmlite.binding as ll
import numpy as np
from llvmlite import ir
from numba import extending as ext
from numba import njit, types
from numba.core import typed_passes, untyped_passes
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import CompilerBase
from numba.core.compiler_lock import global_compiler_lock
from numba.core.compiler_machinery import PassManager

from flowcontrol.kernel import lowered_state as low
from flowcontrol.kernel.planning import RoundWork, round_work
from flowcontrol.kernel.task import KernelWorker, worker_of
from flowcontrol.kernel.views import GateList, gate_of, gates_of, whole
from flowcontrol.kernel.writing import mix_bits, mix_modulo, uniform
from flowcontrol.memory.cells import PARTS, PLACED, lowest_bit, row, rows
from flowcontrol.memory.parts import transport_kinds
from flowcontrol.protocol.tasks.operators import Selectivity, as_selectivity
from flowcontrol.systems.transports.rules import rules_of_kind

# --- Functions that are compiled once: in the kernel they are part of.
#
# Numba optimises each function by itself, with all that it calls, and again in each caller up to
# the entry. Here a function stays as it is written until the entry is whole.


class Lean(CompilerBase):
    """The passes of numba that plain functions of numbers need: half of what it usually does."""

    def define_pipelines(self) -> list[PassManager]:
        """Return the passes: from byte code by types to LLVM's language."""
        passes = PassManager("flowcontrol")
        for one in (
            untyped_passes.TranslateByteCode,
            untyped_passes.FixupArgs,
            untyped_passes.IRProcessing,
            untyped_passes.ReconstructSSA,
            typed_passes.NopythonTypeInference,
            typed_passes.PreLowerStripPhis,
            typed_passes.IRLegalization,
            typed_passes.AnnotateTypes,
            typed_passes.NativeLowering,
            typed_passes.NoPythonBackend,
        ):
            passes.add_pass(one, "")
        passes.finalize()
        return [passes]


class _NoEnvironments:
    """A code generator that keeps no environments: nothing raises, and nothing calls Python."""

    def __init__(self, generator: Any) -> None:
        self._generator = generator

    def __getattr__(self, name: str) -> Any:
        return getattr(self._generator, name)

    def set_env(self, name: str, environment: Any) -> None:
        """Keep none."""


class _Unlinked(JITCodeLibrary):
    """The code of one function, neither linked nor optimised, and without machine code."""

    @property
    def codegen(self) -> Any:
        """The code generator, as numba's lowering asks for it."""
        return _NoEnvironments(self._codegen)

    def get_pointer_to_function(self, name: str) -> int:
        """Return 0: Python calls none."""
        return 0

    def finalize(self) -> None:
        """Leave the code as it is."""
        self._finalized = True


def linked(entry: Any, signature: Any, options: dict[str, Any]) -> tuple[Any, str]:
    """Return the module of an entry, linked with all that it calls, and the entry's name in it."""
    dispatcher = njit(**options)(entry)
    generator = dispatcher.targetctx.codegen()
    with global_compiler_lock, _undisturbed():  # functions of other threads come before or after
        generator._library_class = _Unlinked
        try:
            dispatcher.compile(signature)
        finally:
            generator._library_class = JITCodeLibrary
        (found,) = dispatcher.overloads.values()
        module = found.library._final_module.clone()
        for library in _called_by(found.library):
            module.link_in(library._final_module, preserve=True)
    return module, found.fndesc.mangled_name


def _called_by(entry: Any) -> list[Any]:
    """Return the libraries that one needs, directly or not."""
    needed, todo = {entry: None}, [entry]
    while todo:
        fresh = [one for one in dict.fromkeys(todo.pop()._linking_libraries) if one not in needed]
        needed.update(dict.fromkeys(fresh))
        todo += fresh
    return list(needed)[1:]


@contextmanager
def _undisturbed() -> Iterator[None]:
    """Neither look for garbage, of which there is none, nor count calls of LLVM: a fifth of all."""
    callbacks = list(getattr(ll.ffi.lib._lock, "_cblist", ()))
    for enter, leave in callbacks:
        ll.ffi.unregister_lock_callback(enter, leave)
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
        for enter, leave in callbacks:
            ll.ffi.register_lock_callback(enter, leave)


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


def register_methods(options_of: Callable[[Any], dict[str, Any]]) -> None:
    """Have the methods of a worker compiled as they stand; the options are by method."""
    for name, method in vars(KernelWorker).items():
        if not name.startswith("_"):
            _register_method(name, method, options_of(method))


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
