"""State as numba sees it: an address. Imported once, before the kernel is compiled."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.core.imputils import lower_getattr_generic, lower_setattr_generic
from numba.core.typing.templates import (
    AttributeTemplate,
    infer,
    infer_getattr,
    infer_global,
    make_intrinsic_template,
)
from numba.extending import models, register_model

from flowcontrol.protocol.state import cell, members, per_class, width
from flowcontrol.protocol.states import Ring
from flowcontrol.virtual.header import KernelMemory
from flowcontrol.virtual.parts import SWITCHES, transport_kinds

CELL = ir.IntType(64)


class _ClassType(types.Type):
    """A type that goes with a state class."""

    def __init__(self, cls: type[Any]) -> None:
        self.cls = cls
        super().__init__(name=f"{type(self).__name__}({cls.__module__}.{cls.__qualname__})")


class StateType(_ClassType):
    """A state of a class."""


class TransportType(StateType):
    """The parameters of a transport, in a kernel that has the rules of some."""

    def __init__(self, cls: type[Any], kinds: tuple[int, ...]) -> None:
        self.cls, self.kinds = cls, kinds
        types.Type.__init__(self, name=f"Transport{kinds}")


class RowsType(_ClassType):
    """Rows of a class."""


class IntsType(types.Type):
    """A row of integers."""

    def __init__(self) -> None:
        super().__init__(name="Ints")


class QueueType(_ClassType):
    """A queue of states of a class."""


class QueuesType(_ClassType):
    """Queues of states of a class, one behind the other."""


class MemoryType(IntsType):
    """The whole memory, of a kernel that has some parts (:mod:`.parts`)."""

    def __init__(self, parts: int) -> None:
        self.parts = parts
        types.Type.__init__(self, name=f"Memory({parts})")


@per_class
def state_type(cls: type[Any]) -> StateType:
    """Return the type of a state class."""
    return StateType(cls)


@per_class
def rows_type(cls: type[Any]) -> RowsType:
    """Return the type of rows of a state class."""
    return RowsType(cls)


@per_class
def queue_type(cls: type[Any]) -> QueueType:
    """Return the type of a queue of a state class."""
    return QueueType(cls)


@per_class
def queues_type(cls: type[Any]) -> QueuesType:
    """Return the type of queues of a state class."""
    return QueuesType(cls)


ints_type = IntsType()


@register_model(StateType)
@register_model(TransportType)
class _StateModel(models.PrimitiveModel):
    def __init__(self, manager: Any, kind: Any) -> None:
        super().__init__(manager, kind, CELL.as_pointer())


@register_model(RowsType)
@register_model(QueueType)
@register_model(IntsType)
@register_model(MemoryType)
class _RowsModel(models.StructModel):
    def __init__(self, manager: Any, kind: Any) -> None:
        pointer = types.CPointer(types.int64)
        super().__init__(manager, kind, [("data", pointer), ("count", types.int64)])


@register_model(QueuesType)
class _QueuesModel(models.StructModel):
    def __init__(self, manager: Any, kind: Any) -> None:
        members = [("data", types.CPointer(types.int64)), ("count", types.int64)]
        super().__init__(manager, kind, [*members, ("most", types.int64)])


@infer_getattr
class _QueueAttributes(AttributeTemplate):
    key = QueueType

    def generic_resolve(self, kind: Any, name: str) -> Any:
        return {"ends": state_type(Ring), "slots": rows_type(kind.cls)}.get(name)


@lower_getattr_generic(QueueType)
def _part_of_queue(context: Any, builder: Any, kind: Any, value: Any, name: str) -> Any:
    queue = cgutils.create_struct_proxy(kind)(context, builder, value)
    if name == "ends":
        return queue.data
    slots = cgutils.create_struct_proxy(rows_type(kind.cls))(context, builder)
    slots.data = builder.gep(queue.data, [ir.Constant(CELL, width(Ring))], inbounds=True)
    slots.count = queue.count
    return slots._getvalue()


@infer_getattr
class _Attributes(AttributeTemplate):
    key = StateType

    def generic_resolve(self, kind: Any, name: str) -> Any:
        return _type_of(kind.cls, name)


@infer_getattr
class _MemoryAttributes(AttributeTemplate):
    key = MemoryType

    def generic_resolve(self, kind: Any, name: str) -> Any:
        return _type_of(KernelMemory, name)


def _type_of(cls: type[Any], name: str) -> Any:
    """Return the type of a field; None if there is none of that name."""
    found = dict(members(cls))
    if name not in found:
        return None
    inner = found[name]
    return types.int64 if inner is None else state_type(inner)


def _place_of(context: Any, builder: Any, kind: Any, value: Any, name: str) -> Any:
    cls = KernelMemory if isinstance(kind, MemoryType) else kind.cls
    base = data_of(context, builder, kind, value)
    return builder.gep(base, [ir.Constant(CELL, cell(cls, name))], inbounds=True)


@lower_getattr_generic(StateType)
@lower_getattr_generic(MemoryType)
def _get(context: Any, builder: Any, kind: Any, value: Any, name: str) -> Any:
    cls = KernelMemory if isinstance(kind, MemoryType) else kind.cls
    if isinstance(kind, MemoryType) and name in SWITCHES:
        part, otherwise = SWITCHES[name]
        if kind.parts & part == 0:  # what hangs on it is left out
            return ir.Constant(CELL, otherwise)
    place = _place_of(context, builder, kind, value, name)
    return builder.load(place) if dict(members(cls))[name] is None else place


@lower_setattr_generic(StateType)
@lower_setattr_generic(MemoryType)
def _set(context: Any, builder: Any, signature: Any, arguments: Any, name: str) -> None:
    target, value = arguments
    value = as_int(context, builder, value, signature.args[1])
    builder.store(value, _place_of(context, builder, signature.args[0], target, name))


def as_int(context: Any, builder: Any, value: Any, kind: Any) -> Any:
    """Return an integer of any width as a cell."""
    return context.cast(builder, value, kind, types.int64)


def data_of(context: Any, builder: Any, kind: Any, value: Any) -> Any:
    """Return where an array, rows, a row of integers or a state begin."""
    if isinstance(kind, StateType):
        return value
    if isinstance(kind, types.Array):
        return context.make_array(kind)(context, builder, value).data
    return cgutils.create_struct_proxy(kind)(context, builder, value).data


def in_place(function: Any, *, prefer_literal: bool = False) -> Any:
    """Have calls of a function compiled where they stand, by what is decorated.

    As ``numba.extending.intrinsic``, for a function that is there already: an overload of one
    would be compiled for itself, each time with other types.

    Parameters
    ----------
    function : callable
        What the kernel calls.
    prefer_literal : bool, default False
        Whether it is handed the values of constants.
    """

    def given(definition: Any) -> Any:
        name = definition.__name__
        template = make_intrinsic_template(
            function, definition, name, prefer_literal=prefer_literal
        )
        infer(template)
        infer_global(function, types.Function(template))
        return definition

    return given


@in_place(operator.getitem)
def _state_of(typing: Any, rows: Any, index: Any) -> Any:
    if not isinstance(rows, RowsType):
        return None

    def code(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        given = cgutils.create_struct_proxy(signature.args[0])(context, builder, values[0])
        index = as_int(context, builder, values[1], signature.args[1])
        cells = builder.mul(index, ir.Constant(CELL, width(rows.cls)))
        return builder.gep(given.data, [cells], inbounds=True)

    return state_type(rows.cls)(rows, index), code


@in_place(operator.getitem)
def _queue_of(typing: Any, queues: Any, index: Any) -> Any:
    if not isinstance(queues, QueuesType):
        return None

    def code(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        given = cgutils.create_struct_proxy(signature.args[0])(context, builder, values[0])
        index = as_int(context, builder, values[1], signature.args[1])
        each = builder.mul(given.most, ir.Constant(CELL, width(queues.cls)))
        each = builder.add(each, ir.Constant(CELL, width(Ring)))
        made = cgutils.create_struct_proxy(signature.return_type)(context, builder)
        made.data = builder.gep(given.data, [builder.mul(index, each)], inbounds=True)
        made.count = given.most
        return made._getvalue()

    return queue_type(queues.cls)(queues, index), code


@in_place(operator.getitem)
def _int_of(typing: Any, row: Any, index: Any) -> Any:
    if not isinstance(row, IntsType):
        return None

    def code(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        given = cgutils.create_struct_proxy(signature.args[0])(context, builder, values[0])
        index = as_int(context, builder, values[1], signature.args[1])
        return builder.load(builder.gep(given.data, [index], inbounds=True))

    return types.int64(row, index), code


@in_place(operator.setitem)
def _put_int(typing: Any, row: Any, index: Any, value: Any) -> Any:
    if not isinstance(row, IntsType):
        return None

    def code(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        given = cgutils.create_struct_proxy(signature.args[0])(context, builder, values[0])
        index = as_int(context, builder, values[1], signature.args[1])
        place = builder.gep(given.data, [index], inbounds=True)
        builder.store(as_int(context, builder, values[2], signature.args[2]), place)
        return context.get_dummy_value()

    return types.void(row, index, value), code


@in_place(len)
def _count_of(typing: Any, rows: Any) -> Any:
    if not isinstance(rows, RowsType | IntsType):
        return None

    def code(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        return cgutils.create_struct_proxy(signature.args[0])(context, builder, values[0]).count

    return types.int64(rows), code


def rows_at(function: Any, cls: type[Any]) -> None:
    """Have a function return rows of a class at a place of an array or a row."""
    _counted_at(function, rows_type(cls))


def queue_at(function: Any, cls: type[Any]) -> None:
    """Have a function return a queue of a class at a place, of so many slots."""
    _counted_at(function, queue_type(cls))


def _counted_at(function: Any, kind: Any) -> None:
    @in_place(function)
    def found(typing: Any, memory: Any, at: Any, count: Any) -> Any:
        def code(context: Any, builder: Any, signature: Any, values: Any) -> Any:
            made = cgutils.create_struct_proxy(signature.return_type)(context, builder)
            made.data = _place(context, builder, signature.args, values)
            made.count = as_int(context, builder, values[2], signature.args[2])
            return made._getvalue()

        return kind(memory, at, count), code


def queues_at(function: Any, cls: type[Any]) -> None:
    """Have a function return so many queues of a class at a place, of so many slots each."""

    @in_place(function)
    def found(typing: Any, memory: Any, at: Any, count: Any, most: Any) -> Any:
        def code(context: Any, builder: Any, signature: Any, values: Any) -> Any:
            made = cgutils.create_struct_proxy(signature.return_type)(context, builder)
            made.data = _place(context, builder, signature.args, values)
            made.count = as_int(context, builder, values[2], signature.args[2])
            made.most = as_int(context, builder, values[3], signature.args[3])
            return made._getvalue()

        return queues_type(cls)(memory, at, count, most), code


def state_at(function: Any, cls: type[Any]) -> None:
    """Have a function return the state of a class at a place of an array or a row."""
    _state_at(function, lambda memory: state_type(cls))


def transport_at(function: Any, cls: type[Any]) -> None:
    """Have a function return a transport's parameters; their type knows the kernel's rules."""
    _state_at(function, lambda memory: TransportType(cls, tuple(transport_kinds(memory.parts))))


def _state_at(function: Any, type_in: Callable[[Any], Any]) -> None:
    @in_place(function)
    def found(typing: Any, memory: Any, at: Any) -> Any:
        def code(context: Any, builder: Any, signature: Any, values: Any) -> Any:
            return _place(context, builder, signature.args, values)

        return type_in(memory)(memory, at), code


def state_as(function: Any, cls: type[Any]) -> None:
    """Have a function return the state of a class that its argument, of a base class, is."""

    @in_place(function)
    def found(typing: Any, state: Any) -> Any:
        def code(context: Any, builder: Any, signature: Any, values: Any) -> Any:
            return values[0]

        return state_type(cls)(state), code


def _place(context: Any, builder: Any, kinds: Any, values: Any) -> Any:
    base = data_of(context, builder, kinds[0], values[0])
    return builder.gep(base, [as_int(context, builder, values[1], kinds[1])], inbounds=True)
