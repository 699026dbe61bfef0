"""Rows of one flat memory: views that cost nothing in the compiled kernel.

The rules index rows (``row[i]``), rows of rows (``rows[i][j]``) and ask for ``len``. Interpreted,
a row is a view of an array. Compiled, it is an address and a length, for a view of an array
counts references, which costs more than the rule that uses it. Nothing checks a bound there, so
a row never outlives the call of the kernel that holds the memory.
"""

from __future__ import annotations

import operator
from typing import Any

__all__ = ["PyRows", "row", "rows"]


class PyRows:
    """Rows at a fixed distance, interpreted: ``rows[i]`` is a view."""

    def __init__(self, memory: Any, offset: int, count: int, width: int) -> None:
        self._memory, self._offset, self._count, self._width = memory, offset, count, width

    def __getitem__(self, index: int) -> Any:
        first = self._offset + index * self._width
        return self._memory[first : first + self._width]

    def __len__(self) -> int:
        return self._count


def row(memory: Any, offset: int, length: int) -> Any:
    """Return ``length`` integers of the memory from ``offset`` on."""
    return memory[offset : offset + length]


def rows(memory: Any, offset: int, count: int, width: int) -> Any:
    """Return ``count`` rows from ``offset`` on, ``width`` integers apart."""
    return PyRows(memory, offset, count, width)


def _register() -> None:
    """Teach numba the compiled forms of the two functions above."""
    from llvmlite import ir
    from numba import types
    from numba.core import cgutils
    from numba.extending import intrinsic, models, overload, register_model

    pointer = types.CPointer(types.int64)

    class RowType(types.Type):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__(name="flowcontrol.Row")

    class RowsType(types.Type):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__(name="flowcontrol.Rows")

    row_type, rows_type = RowType(), RowsType()

    @register_model(RowType)
    class RowModel(models.StructModel):  # type: ignore[misc]
        def __init__(self, manager: Any, kind: Any) -> None:
            super().__init__(manager, kind, [("data", pointer), ("length", types.int64)])

    @register_model(RowsType)
    class RowsModel(models.StructModel):  # type: ignore[misc]
        def __init__(self, manager: Any, kind: Any) -> None:
            members = [("data", pointer), ("count", types.int64), ("width", types.int64)]
            super().__init__(manager, kind, members)

    def data_of(context: Any, builder: Any, kind: Any, value: Any) -> Any:
        if isinstance(kind, types.Array):
            return context.make_array(kind)(context, builder, value).data
        return cgutils.create_struct_proxy(kind)(context, builder, value).data

    def as_int(context: Any, builder: Any, value: Any, kind: Any) -> Any:
        return context.cast(builder, value, kind, types.int64)

    @intrinsic  # type: ignore[misc]
    def make_row(typing: Any, memory: Any, offset: Any, length: Any) -> Any:
        def code(context: Any, builder: Any, signature: Any, values: Any) -> Any:
            kinds = signature.args
            base = data_of(context, builder, kinds[0], values[0])
            made = cgutils.create_struct_proxy(row_type)(context, builder)
            made.data = builder.gep(base, [as_int(context, builder, values[1], kinds[1])])
            made.length = as_int(context, builder, values[2], kinds[2])
            return made._getvalue()

        return row_type(memory, offset, length), code

    @intrinsic  # type: ignore[misc]
    def make_rows(typing: Any, memory: Any, offset: Any, count: Any, width: Any) -> Any:
        def code(context: Any, builder: Any, signature: Any, values: Any) -> Any:
            kinds = signature.args
            base = data_of(context, builder, kinds[0], values[0])
            made = cgutils.create_struct_proxy(rows_type)(context, builder)
            made.data = builder.gep(base, [as_int(context, builder, values[1], kinds[1])])
            made.count = as_int(context, builder, values[2], kinds[2])
            made.width = as_int(context, builder, values[3], kinds[3])
            return made._getvalue()

        return rows_type(memory, offset, count, width), code

    @intrinsic  # type: ignore[misc]
    def load(typing: Any, memory: Any, index: Any) -> Any:
        def code(context: Any, builder: Any, signature: Any, values: Any) -> Any:
            base = data_of(context, builder, signature.args[0], values[0])
            index = as_int(context, builder, values[1], signature.args[1])
            return builder.load(builder.gep(base, [index]))

        return types.int64(memory, index), code

    @intrinsic  # type: ignore[misc]
    def store(typing: Any, memory: Any, index: Any, value: Any) -> Any:
        def code(context: Any, builder: Any, signature: Any, values: Any) -> Any:
            kinds = signature.args
            base = data_of(context, builder, kinds[0], values[0])
            place = builder.gep(base, [as_int(context, builder, values[1], kinds[1])])
            builder.store(as_int(context, builder, values[2], kinds[2]), place)
            return context.get_dummy_value()

        return types.void(memory, index, value), code

    @intrinsic  # type: ignore[misc]
    def row_in(typing: Any, memory: Any, index: Any) -> Any:
        def code(context: Any, builder: Any, signature: Any, values: Any) -> Any:
            given = cgutils.create_struct_proxy(rows_type)(context, builder, values[0])
            index = as_int(context, builder, values[1], signature.args[1])
            made = cgutils.create_struct_proxy(row_type)(context, builder)
            made.data = builder.gep(given.data, [builder.mul(index, given.width)])
            made.length = given.width
            return made._getvalue()

        return row_type(memory, index), code

    @intrinsic  # type: ignore[misc]
    def length_of(typing: Any, memory: Any) -> Any:
        name = "length" if isinstance(memory, RowType) else "count"

        def code(context: Any, builder: Any, signature: Any, values: Any) -> Any:
            made = cgutils.create_struct_proxy(signature.args[0])(context, builder, values[0])
            return getattr(made, name)

        return types.int64(memory), code

    @intrinsic  # type: ignore[misc]
    def trailing(typing: Any, word: Any) -> Any:
        def code(context: Any, builder: Any, signature: Any, values: Any) -> Any:
            return builder.cttz(values[0], ir.Constant(ir.IntType(1), 0))

        return types.int64(types.int64), code

    @overload(row, strict=False)  # type: ignore[misc]
    def _row(memory: Any, offset: Any, length: Any) -> Any:
        return lambda memory, offset, length: make_row(memory, offset, length)

    @overload(rows, strict=False)  # type: ignore[misc]
    def _rows(memory: Any, offset: Any, count: Any, width: Any) -> Any:
        return lambda memory, offset, count, width: make_rows(memory, offset, count, width)

    @overload(operator.getitem, strict=False)  # type: ignore[misc]
    def _get(memory: Any, index: Any) -> Any:
        if isinstance(memory, RowType):
            return lambda memory, index: load(memory, index)
        if isinstance(memory, RowsType):
            return lambda memory, index: row_in(memory, index)
        return None

    @overload(operator.setitem, strict=False)  # type: ignore[misc]
    def _set(memory: Any, index: Any, value: Any) -> Any:
        if isinstance(memory, RowType):
            return lambda memory, index, value: store(memory, index, value)
        return None

    @overload(len, strict=False)  # type: ignore[misc]
    def _len(memory: Any) -> Any:
        if isinstance(memory, RowType | RowsType):
            return lambda memory: length_of(memory)
        return None

    @overload(lowest_bit, strict=False)  # type: ignore[misc]
    def _lowest(word: Any) -> Any:
        return lambda word: trailing(word)


def lowest_bit(word: int) -> int:
    """Return the number of the lowest bit that is set; the word is not 0."""
    return (int(word) & -int(word)).bit_length() - 1
