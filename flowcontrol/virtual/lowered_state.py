"""State as numba sees it: an address. Imported once, before the kernel is compiled."""

from __future__ import annotations

import operator
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

from flowcontrol.protocol.state import cell, columns, per_class, width

CELL = ir.IntType(64)


class StateType(types.Type):
    """A state of a class."""

    def __init__(self, cls: type[Any]) -> None:
        self.cls = cls
        super().__init__(name=f"State({cls.__module__}.{cls.__qualname__})")


class RowsType(types.Type):
    """Rows of a class."""

    def __init__(self, cls: type[Any]) -> None:
        self.cls = cls
        super().__init__(name=f"Rows({cls.__module__}.{cls.__qualname__})")


class IntsType(types.Type):
    """A row of integers."""

    def __init__(self) -> None:
        super().__init__(name="Ints")


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


ints_type = IntsType()


@register_model(StateType)
class _StateModel(models.PrimitiveModel):
    def __init__(self, manager: Any, kind: Any) -> None:
        super().__init__(manager, kind, CELL.as_pointer())


@register_model(RowsType)
@register_model(IntsType)
@register_model(MemoryType)
class _RowsModel(models.StructModel):
    def __init__(self, manager: Any, kind: Any) -> None:
        pointer = types.CPointer(types.int64)
        super().__init__(manager, kind, [("data", pointer), ("count", types.int64)])


@infer_getattr
class _Attributes(AttributeTemplate):
    key = StateType

    def generic_resolve(self, kind: Any, name: str) -> Any:
        return types.int64 if name in columns(kind.cls) else None


def _place_of(builder: Any, kind: Any, value: Any, name: str) -> Any:
    return builder.gep(value, [ir.Constant(CELL, cell(kind.cls, name))], inbounds=True)


@lower_getattr_generic(StateType)
def _get(context: Any, builder: Any, kind: Any, value: Any, name: str) -> Any:
    return builder.load(_place_of(builder, kind, value, name))


@lower_setattr_generic(StateType)
def _set(context: Any, builder: Any, signature: Any, arguments: Any, name: str) -> None:
    target, value = arguments
    value = as_int(context, builder, value, signature.args[1])
    builder.store(value, _place_of(builder, signature.args[0], target, name))


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

    @in_place(function)
    def found(typing: Any, memory: Any, at: Any, count: Any) -> Any:
        def code(context: Any, builder: Any, signature: Any, values: Any) -> Any:
            made = cgutils.create_struct_proxy(signature.return_type)(context, builder)
            made.data = _place(context, builder, signature.args, values)
            made.count = as_int(context, builder, values[2], signature.args[2])
            return made._getvalue()

        return rows_type(cls)(memory, at, count), code


def state_at(function: Any, cls: type[Any]) -> None:
    """Have a function return the state of a class at a place of an array or a row."""

    @in_place(function)
    def found(typing: Any, memory: Any, at: Any) -> Any:
        def code(context: Any, builder: Any, signature: Any, values: Any) -> Any:
            return _place(context, builder, signature.args, values)

        return state_type(cls)(memory, at), code


def _place(context: Any, builder: Any, kinds: Any, values: Any) -> Any:
    base = data_of(context, builder, kinds[0], values[0])
    return builder.gep(base, [as_int(context, builder, values[1], kinds[1])], inbounds=True)
