"""State as numba sees it: an address. Imported once, before the kernel is compiled."""

import inspect
import operator
from collections.abc import Callable
from functools import cache
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.core.imputils import lower_getattr_generic, lower_setattr_generic
from numba.core.typing import templates
from numba.extending import models, register_model

from flowcontrol.memory.cells import LINE, prefetch, slot_cells
from flowcontrol.memory.fields import KernelRing
from flowcontrol.memory.parts import SWITCHES
from flowcontrol.memory.places import KernelMemory
from flowcontrol.state.declared import cell, members, width
from flowcontrol.state.network import Ring
from flowcontrol.state.queues import FIRST_SPAN, shift, with_room

CELL = ir.IntType(64)

LOWERED: set[Any] = set()
"""Functions that have a compiled form of their own."""


class _PlacedType(types.Type):
    """What stands at a place; a value is an address, and the numbers named in ``counts``."""

    counts: tuple[str, ...] = ()


class StateType(_PlacedType):
    """A state of a class.

    Of a transport's parameters ``kinds`` says whose rules are there; of a class in SWITCHES
    ``missing`` says which parts the kernel lacks, so that fields of theirs are constants.
    """

    def __init__(self, cls: type[Any], kinds: tuple[int, ...] = (), missing: int = 0) -> None:
        self.cls, self.kinds, self.missing = cls, kinds, missing
        super().__init__(name=f"State({cls.__module__}.{cls.__qualname__}{kinds}{missing})")


class QueueType(_PlacedType):
    """A queue of so many states of a class, whose slots stand behind it, or of a ring elsewhere."""

    counts = ("count",)

    def __init__(self, cls: type[Any], missing: int = 0, *, is_ring: bool = False) -> None:
        self.cls, self.missing, self.is_ring = cls, missing, is_ring
        super().__init__(name=f"Queue({cls.__module__}.{cls.__qualname__}{missing}{is_ring})")

    @property
    def ends(self) -> Any:
        """The type of its ends."""
        return state_type(KernelRing if self.is_ring else Ring)

    @property
    def slots(self) -> Any:
        """The type of its slots."""
        each = slot_cells(self.cls) if self.is_ring else width(self.cls)
        return RowType(state_type(self.cls, self.missing), "count", each)


class RowType(_PlacedType):
    """So many things of one type, one behind the other.

    From one to the next are ``fixed`` cells, and ``each`` for every place in one: there are as many
    as the last of ``counts`` says.
    """

    def __init__(self, item: Any, last: str, fixed: int, each: int = 0) -> None:
        self.item, self.fixed, self.each = item, fixed, each
        self.counts = tuple(dict.fromkeys(["count", last]))
        super().__init__(name=f"Row({item}, {fixed}, {each})")


class MemoryType(RowType):
    """The whole memory, of a kernel that has some parts (:mod:`flowcontrol.memory.parts`)."""

    def __init__(self, parts: int) -> None:
        super().__init__(types.int64, "count", 1)
        self.cls, self.parts, self.missing = KernelMemory, parts, ~parts
        self.name = f"Memory({parts})"


@cache
def setting(cls: type[Any]) -> int:
    """Return the parts that set fields of a class, or of a state in it, as a sum."""
    own = sum({part for part, _ in SWITCHES.get(cls, {}).values()})
    for _, inner in members(cls):
        own |= 0 if inner is None else setting(inner)
    return own


def missing_of(cls: type[Any], parts: int) -> int:
    """Return the parts that set fields of a class and that a kernel lacks, as a sum."""
    return setting(cls) & ~parts


@cache
def state_type(cls: type[Any], missing: int = 0) -> StateType:
    """Return the type of a state class."""
    return StateType(cls, missing=missing)


@cache
def rows_type(cls: type[Any], missing: int = 0) -> RowType:
    """Return the type of rows of a state class."""
    return RowType(state_type(cls, missing), "count", width(cls))


def rings_type(cls: type[Any], owner: type[Any], memory: Any) -> RowType:
    """Return the type of the queues of a state class whose rings stand in rows of another."""
    missing = missing_of(cls, memory.parts)
    return RowType(QueueType(cls, missing, is_ring=True), "most", width(owner))


ints_type = RowType(types.int64, "count", 1)
int_rows_type = RowType(ints_type, "width", 0, 1)


@register_model(StateType)
class _StateModel(models.PrimitiveModel):
    def __init__(self, manager: Any, kind: Any) -> None:
        super().__init__(manager, kind, CELL.as_pointer())


@register_model(QueueType)
@register_model(RowType)
@register_model(MemoryType)
class _CountedModel(models.StructModel):
    def __init__(self, manager: Any, kind: Any) -> None:
        counts = [(name, types.int64) for name in kind.counts]
        super().__init__(manager, kind, [("data", types.CPointer(types.int64)), *counts])


def made(context: Any, builder: Any, kind: Any, **members: Any) -> Any:
    """Return a value of a type of several members."""
    value = cgutils.create_struct_proxy(kind)(context, builder)
    for name, member in members.items():
        setattr(value, name, member)
    return value._getvalue()


def _moved(builder: Any, base: Any, cells: Any) -> Any:
    """Return the address so many cells behind another."""
    cells = ir.Constant(CELL, cells) if isinstance(cells, int) else cells
    return builder.gep(base, [cells], inbounds=True)


@templates.infer_getattr
class _QueueAttributes(templates.AttributeTemplate):
    key = QueueType

    def generic_resolve(self, kind: Any, name: str) -> Any:
        return {"ends": kind.ends, "slots": kind.slots}.get(name)


@lower_getattr_generic(QueueType)
def _part_of_queue(context: Any, builder: Any, kind: Any, value: Any, name: str) -> Any:
    queue = cgutils.create_struct_proxy(kind)(context, builder, value)
    if name == "ends":
        return queue.data
    distance = width(Ring)
    if kind.is_ring:
        distance = builder.load(_moved(builder, queue.data, cell(KernelRing, "place")))
    slots = _moved(builder, queue.data, distance)
    return made(context, builder, kind.slots, data=slots, count=queue.count)


def missing_in(inner: type[Any], kind: Any) -> int:
    """Return the parts that set fields of a state in another one and that the kernel lacks."""
    return int(setting(inner) & kind.missing)


@templates.infer_getattr
class _Attributes(templates.AttributeTemplate):
    key = StateType

    def generic_resolve(self, kind: Any, name: str) -> Any:
        found = dict(members(kind.cls))
        if name not in found:
            return None
        inner = found[name]
        return types.int64 if inner is None else state_type(inner, missing_in(inner, kind))


@templates.infer_getattr
class _MemoryAttributes(_Attributes):
    key = MemoryType


def _place_of(context: Any, builder: Any, kind: Any, value: Any, name: str) -> Any:
    base = data_of(context, builder, kind, value)
    return _moved(builder, base, cell(kind.cls, name))


@lower_getattr_generic(StateType)
@lower_getattr_generic(MemoryType)
def _get(context: Any, builder: Any, kind: Any, value: Any, name: str) -> Any:
    if name in SWITCHES.get(kind.cls, ()):
        part, otherwise = SWITCHES[kind.cls][name]
        if kind.missing & part:  # what hangs on it is left out
            return ir.Constant(CELL, otherwise)
    place = _place_of(context, builder, kind, value, name)
    return builder.load(place) if dict(members(kind.cls))[name] is None else place


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
    """Return where an array, a row or a state begins."""
    if isinstance(kind, StateType):
        return value
    if isinstance(kind, types.Array):
        return context.make_array(kind)(context, builder, value).data
    return cgutils.create_struct_proxy(kind)(context, builder, value).data


def in_place(function: Any, *, prefer_literal: bool = False) -> Any:
    """Have calls of a function compiled where they stand, by what is decorated.

    As ``numba.extending.intrinsic``, for a function that is there already: an overload of one
    would be compiled for itself, each time with other types.

    ``prefer_literal``: whether it is handed the values of constants.
    """

    def given(definition: Any) -> Any:
        name = definition.__name__
        template = templates.make_intrinsic_template(
            function, definition, name, prefer_literal=prefer_literal
        )
        templates.infer(template)
        templates.infer_global(function, types.Function(template))
        LOWERED.add(function)
        return definition

    return given


def typed_as(function: Any, typed: Any) -> Any:
    """Give a definition the parameters of a function: numba takes no variable number of them."""
    given = inspect.signature(function)
    context = inspect.Parameter("typing", inspect.Parameter.POSITIONAL_OR_KEYWORD)
    typed.__signature__ = given.replace(parameters=[context, *given.parameters.values()])
    return typed


def _place_in_row(context: Any, builder: Any, signature: Any, values: Any) -> Any:
    """Return a row, and the place in it of the thing of a number."""
    kind = signature.args[0]
    row = cgutils.create_struct_proxy(kind)(context, builder, values[0])
    distance = ir.Constant(CELL, kind.fixed)
    if kind.each > 0:
        places = getattr(row, kind.counts[-1])
        distance = builder.add(distance, builder.mul(places, ir.Constant(CELL, kind.each)))
    index = as_int(context, builder, values[1], signature.args[1])
    return row, _moved(builder, row.data, builder.mul(index, distance))


@in_place(operator.getitem)
def _item_of(typing: Any, row: Any, index: Any) -> Any:
    if not isinstance(row, RowType):
        return None

    def code(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        given, place = _place_in_row(context, builder, signature, values)
        if row.item == types.int64:
            return builder.load(place)
        if isinstance(row.item, StateType):
            return place
        count = getattr(given, row.counts[-1])
        return made(context, builder, row.item, data=place, count=count)

    return row.item(row, index), code


@in_place(operator.setitem)
def _put_int(typing: Any, row: Any, index: Any, value: Any) -> Any:
    if not isinstance(row, RowType) or row.item != types.int64:
        return None

    def code(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        _, place = _place_in_row(context, builder, signature, values)
        builder.store(as_int(context, builder, values[2], signature.args[2]), place)
        return context.get_dummy_value()

    return types.void(row, index, value), code


@in_place(prefetch)
def _asked_for(typing: Any, row: Any, place: Any) -> Any:
    if not isinstance(row, RowType):
        return None

    def code(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        _, first = _place_in_row(context, builder, signature, values)
        flag = ir.IntType(32)
        form = ir.FunctionType(ir.VoidType(), [first.type, flag, flag, flag])
        ask = cgutils.get_or_insert_function(builder.module, form, "llvm.prefetch.p0")
        for line in range(0, row.fixed, LINE):
            address = _moved(builder, first, ir.Constant(CELL, line))
            builder.call(ask, [address, flag(0), flag(3), flag(1)])  # to be read, kept, data
        return ir.Constant(CELL, 1)

    return types.int64(row, place), code


@in_place(len)
def _count_of(typing: Any, row: Any) -> Any:
    if not isinstance(row, RowType):
        return None

    def code(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        return cgutils.create_struct_proxy(signature.args[0])(context, builder, values[0]).count

    return types.int64(row), code


@in_place(shift)
def _shifted(typing: Any, slots: Any, first: Any, after: Any, by: Any) -> Any:
    if not isinstance(slots, RowType):
        return None

    def code(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        kinds = signature.args
        _, old = _place_in_row(context, builder, signature, values)
        first, after, by = (
            as_int(context, builder, value, kind)
            for value, kind in list(zip(values, kinds, strict=True))[1:]
        )
        cells = builder.mul(by, ir.Constant(CELL, slots.fixed))
        new = _moved(builder, old, cells)
        nbytes = builder.mul(builder.sub(after, first), ir.Constant(CELL, 8 * slots.fixed))
        cgutils.raw_memmove(builder, new, old, nbytes, 1)
        return context.get_dummy_value()

    return types.void(slots, first, after, by), code


@in_place(with_room)
def _roomy(typing: Any, ends: Any, slots: Any, count: Any) -> Any:
    if not isinstance(slots, RowType):
        return None

    def code(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        if ends.cls is not KernelRing:
            return values[1]
        ring, room = values[0], cgutils.create_struct_proxy(slots)(context, builder, values[1])
        place, roomy = (_moved(builder, ring, cell(KernelRing, n)) for n in ("place", "room"))
        wanted = as_int(context, builder, values[2], signature.args[2])
        is_large = builder.icmp_signed(">", wanted, ir.Constant(CELL, FIRST_SPAN))
        found = builder.select(is_large, builder.load(roomy), builder.load(place))
        new, span = _moved(builder, ring, found), _moved(builder, ring, cell(KernelRing, "span"))
        nbytes = builder.mul(builder.load(span), ir.Constant(CELL, 8 * slots.fixed))
        cgutils.raw_memmove(builder, new, room.data, nbytes, 1)  # most often it stays where it is
        builder.store(found, place)
        return made(context, builder, slots, data=new, count=room.count)

    return slots(ends, slots, count), code


def placed_at(function: Any, type_in: Callable[[Any], Any]) -> None:
    """Have a function return what stands at a place of an array or a row."""

    def found(typing: Any, memory: Any, *given: Any) -> Any:
        kind = type_in(memory)

        def code(context: Any, builder: Any, signature: Any, values: Any) -> Any:
            pairs = zip(values[1:], signature.args[1:], strict=True)
            at, *counts = (as_int(context, builder, value, one) for value, one in pairs)
            place = _moved(builder, data_of(context, builder, memory, values[0]), at)
            if isinstance(kind, StateType):
                return place
            named = dict(zip(kind.counts, counts, strict=True))
            return made(context, builder, kind, data=place, **named)

        return kind(memory, *given), code

    in_place(function)(typed_as(function, found))


def state_as(function: Any, cls: type[Any]) -> None:
    """Have a function return the state of a class that its argument, of a base class, is."""

    @in_place(function)
    def found(typing: Any, state: Any) -> Any:
        return state_type(cls)(state), lambda context, builder, signature, values: values[0]
