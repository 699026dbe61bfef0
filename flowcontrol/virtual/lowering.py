"""The compiled forms of rows, of lists of gates and of random numbers; imports numba.

Imported only by :mod:`flowcontrol.virtual.compiled`, once, before the entry is compiled.
"""

from __future__ import annotations

import inspect
import operator
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import (
    make_attribute_wrapper,
    models,
    overload,
    overload_method,
    register_jitable,
    register_model,
)

from flowcontrol.operators.selectivity import Selectivity
from flowcontrol.operators.states import Operator
from flowcontrol.operators.table import as_selectivity
from flowcontrol.protocol.state import cell
from flowcontrol.protocol.states import GlobalPool, LocalPool, Message, ReceivedMessage
from flowcontrol.systems.record_transport import ChannelGrant, RecordTransport
from flowcontrol.systems.tcp_connection import TcpConnection, TcpMessage
from flowcontrol.systems.throttled_source import ThrottledSource
from flowcontrol.virtual.fields import (
    Age,
    KernelCredit,
    KernelGate,
    KernelInputChannel,
    KernelMessage,
    KernelPartition,
    KernelSubpartition,
    KernelTask,
    Run,
)
from flowcontrol.virtual.header import FLAG_PARTS, KernelMemory
from flowcontrol.virtual.lowered_state import (
    CELL,
    MemoryType,
    as_int,
    data_of,
    in_place,
    ints_type,
    queue_at,
    queues_at,
    rows_at,
    state_as,
    state_at,
)
from flowcontrol.virtual.pointers import lowest_bit, row, rows
from flowcontrol.virtual.randoms import mix_modulo, uniform
from flowcontrol.virtual.spill_fields import (
    ConsumerRegion,
    SpilledBuffer,
    SpillingPartition,
    SpillingSubpartition,
)
from flowcontrol.virtual.spilled import (
    consumer_region,
    spilled_buffers,
    spilling_partition,
    spilling_subpartition,
)
from flowcontrol.virtual.task import KernelWorker, worker_of
from flowcontrol.virtual.tcp import tcp_connection, tcp_messages
from flowcontrol.virtual.views import (
    GateList,
    age_rows,
    channel_grants,
    credit_queue,
    finished_queues,
    gate_of,
    gate_rows,
    gates_of,
    global_pool,
    in_rows,
    local_pool,
    operator_at,
    out_rows,
    partition_rows,
    received_queues,
    record_transport,
    run_rows,
    task_rows,
    throttled_source,
    whole,
    wire_queue,
)

# ---- rows

pointer = types.CPointer(types.int64)


class _RowsType(types.Type):
    def __init__(self) -> None:
        super().__init__(name="flowcontrol.Rows")


rows_type = _RowsType()


@register_model(_RowsType)
class _RowsModel(models.StructModel):
    def __init__(self, manager: Any, kind: Any) -> None:
        members = [("data", pointer), ("count", types.int64), ("width", types.int64)]
        super().__init__(manager, kind, members)


@in_place(row)
def _row(typing: Any, memory: Any, offset: Any, length: Any) -> Any:
    def code(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        kinds = signature.args
        base = data_of(context, builder, kinds[0], values[0])
        made = cgutils.create_struct_proxy(ints_type)(context, builder)
        made.data = builder.gep(base, [as_int(context, builder, values[1], kinds[1])])
        made.count = as_int(context, builder, values[2], kinds[2])
        return made._getvalue()

    return ints_type(memory, offset, length), code


@in_place(rows)
def _rows(typing: Any, memory: Any, offset: Any, count: Any, width: Any) -> Any:
    def code(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        kinds = signature.args
        base = data_of(context, builder, kinds[0], values[0])
        made = cgutils.create_struct_proxy(rows_type)(context, builder)
        made.data = builder.gep(base, [as_int(context, builder, values[1], kinds[1])])
        made.count = as_int(context, builder, values[2], kinds[2])
        made.width = as_int(context, builder, values[3], kinds[3])
        return made._getvalue()

    return rows_type(memory, offset, count, width), code


@in_place(operator.getitem)
def _row_in(typing: Any, memory: Any, index: Any) -> Any:
    if not isinstance(memory, _RowsType):
        return None

    def code(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        given = cgutils.create_struct_proxy(rows_type)(context, builder, values[0])
        index = as_int(context, builder, values[1], signature.args[1])
        made = cgutils.create_struct_proxy(ints_type)(context, builder)
        made.data = builder.gep(given.data, [builder.mul(index, given.width)])
        made.count = given.width
        return made._getvalue()

    return ints_type(memory, index), code


@in_place(len)
def _count_of(typing: Any, memory: Any) -> Any:
    if not isinstance(memory, _RowsType):
        return None

    def code(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        return cgutils.create_struct_proxy(rows_type)(context, builder, values[0]).count

    return types.int64(memory), code


@in_place(lowest_bit)
def _trailing(typing: Any, word: Any) -> Any:
    def code(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        return builder.cttz(values[0], ir.Constant(ir.IntType(1), 0))

    return types.int64(types.int64), code


@in_place(whole, prefer_literal=True)
def _whole(typing: Any, memory: Any, parts: Any) -> Any:
    kind = MemoryType(parts.literal_value)

    def code(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        given = context.make_array(memory)(context, builder, values[0])
        made = cgutils.create_struct_proxy(kind)(context, builder)
        made.data = given.data
        made.count = context.cast(builder, given.nitems, types.intp, types.int64)
        return made._getvalue()

    return kind(memory, parts), code


# ---- parts


def register_part(function: Any, part: int, options: dict[str, Any]) -> None:
    """Have a function compiled for kernels with its part; in others it raises a flag."""

    @overload(function, jit_options=options, strict=False)
    def present(*values: Any) -> Any:
        return function if values[0].parts & part else None

    def absent(typing: Any, m: Any, *values: Any) -> Any:
        if m.parts & part:
            return None

        def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            base = data_of(context, builder, signature.args[0], arguments[0])
            flags = builder.gep(
                base, [ir.Constant(CELL, cell(KernelMemory, "flags"))], inbounds=True
            )
            raised = builder.or_(builder.load(flags), ir.Constant(CELL, FLAG_PARTS))
            builder.store(raised, flags)
            return ir.Constant(CELL, 0)

        return types.int64(m, *values), code

    in_place(function)(_typed_as(function, absent))


# ---- objects of several fields


class _ObjectType(types.Type):
    def __init__(self, fields: Any) -> None:
        self.fields = fields
        super().__init__(name=f"{type(self).__name__}({fields})")


class _ObjectModel(models.StructModel):
    def __init__(self, manager: Any, kind: Any) -> None:
        super().__init__(manager, kind, kind.fields)


def _object_of(make: Any, cls: type[Any]) -> Any:
    """Have a function return an object whose fields are its parameters; return its type."""
    names = list(inspect.signature(make).parameters)
    of_class = type(cls.__name__, (_ObjectType,), {})
    register_model(of_class)(_ObjectModel)
    for name in names:
        make_attribute_wrapper(of_class, name, name)

    def made(typing: Any, *given: Any) -> Any:
        fields = [types.int64 if isinstance(one, types.Integer) else one for one in given]
        kind = of_class(tuple(zip(names, fields, strict=True)))

        def code(context: Any, builder: Any, signature: Any, values: Any) -> Any:
            found = cgutils.create_struct_proxy(kind)(context, builder)
            for name, value, one, field in zip(names, values, given, fields, strict=True):
                setattr(found, name, context.cast(builder, value, one, field))
            return found._getvalue()

        return kind(*given), code

    in_place(make)(_typed_as(make, made))
    return of_class


def _typed_as(function: Any, typed: Any) -> Any:
    """Give a definition the parameters of a function: numba takes no variable number of them."""
    given = inspect.signature(function)
    context = inspect.Parameter("typing", inspect.Parameter.POSITIONAL_OR_KEYWORD)
    typed.__signature__ = given.replace(parameters=[context, *given.parameters.values()])
    return typed


gate_list = _object_of(gates_of, GateList)
worker = _object_of(worker_of, KernelWorker)


@overload(operator.getitem, strict=False)
def _get(gates: Any, index: Any) -> Any:
    if isinstance(gates, gate_list):
        return lambda gates, index: gate_of(gates.m, gates.first + index)
    return None


def register_methods(options: dict[str, Any]) -> None:
    """Have the methods of a worker compiled as they stand."""
    for name, method in vars(KernelWorker).items():
        if not name.startswith("_"):
            _register_method(name, method, options)


def _register_method(name: str, method: Any, options: dict[str, Any]) -> None:
    def found(*values: Any) -> Any:
        return method

    found.__signature__ = inspect.signature(method)  # type: ignore[attr-defined]
    overload_method(worker, name, jit_options=options)(found)


# ---- state

state_at(operator_at, Operator)
state_as(as_selectivity, Selectivity)
state_at(local_pool, LocalPool)
state_at(global_pool, GlobalPool)
rows_at(gate_rows, KernelGate)
rows_at(partition_rows, KernelPartition)
rows_at(run_rows, Run)
rows_at(age_rows, Age)
queue_at(wire_queue, KernelMessage)
queue_at(credit_queue, KernelCredit)
queues_at(finished_queues, Message)
queues_at(received_queues, ReceivedMessage)
rows_at(in_rows, KernelInputChannel)
rows_at(out_rows, KernelSubpartition)
rows_at(task_rows, KernelTask)
state_at(record_transport, RecordTransport)
state_at(spilling_partition, SpillingPartition)
state_at(spilling_subpartition, SpillingSubpartition)
state_at(consumer_region, ConsumerRegion)
state_at(tcp_connection, TcpConnection)
state_at(throttled_source, ThrottledSource)
rows_at(channel_grants, ChannelGrant)
rows_at(tcp_messages, TcpMessage)
rows_at(spilled_buffers, SpilledBuffer)


# ---- random numbers

ONE, K, S, M1, M2 = (
    np.uint64(value)
    for value in (
        1,
        0x9E3779B97F4A7C15,
        0xBF58476D1CE4E5B9,
        0xBF58476D1CE4E5B9,
        0x94D049BB133111EB,
    )
)
S30, S27, S31, S11 = (np.uint64(value) for value in (30, 27, 31, 11))


@register_jitable(_nrt=False)
def _mixed(seed: Any, stream: Any, number: Any) -> Any:
    z = np.uint64(seed) * K + np.uint64(stream) * S + np.uint64(number) + ONE
    z = z * K
    z = (z ^ (z >> S30)) * M1
    z = (z ^ (z >> S27)) * M2
    return z ^ (z >> S31)


@overload(mix_modulo, strict=False)
def _mix_modulo(seed: Any, stream: Any, number: Any, width: Any) -> Any:
    def body(seed: Any, stream: Any, number: Any, width: Any) -> Any:
        return np.int64(_mixed(seed, stream, number) % np.uint64(width))

    return body


@overload(uniform, strict=False)
def _uniform(seed: Any, stream: Any, number: Any) -> Any:
    return lambda seed, stream, number: np.float64(_mixed(seed, stream, number) >> S11) * 2.0**-53
