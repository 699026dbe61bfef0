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
    intrinsic,
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

    given = inspect.signature(function)
    context = inspect.Parameter("typing", inspect.Parameter.POSITIONAL_OR_KEYWORD)
    # numba matches arguments with this one, and takes no variable number of them
    absent.__signature__ = given.replace(parameters=[context, *given.parameters.values()])
    in_place(function)(absent)


# ---- lists of gates


class _GateListType(types.Type):
    def __init__(self, memory: Any) -> None:
        self.memory = memory
        super().__init__(name=f"flowcontrol.GateList({memory})")


@register_model(_GateListType)
class _GateListModel(models.StructModel):
    def __init__(self, manager: Any, kind: Any) -> None:
        super().__init__(manager, kind, [("m", kind.memory), ("first", types.int64)])


@in_place(gates_of)
def _gates_of(typing: Any, m: Any, first: Any) -> Any:
    kind = _GateListType(m)

    def code(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        made = cgutils.create_struct_proxy(kind)(context, builder)
        made.m = values[0]
        made.first = context.cast(builder, values[1], signature.args[1], types.int64)
        return made._getvalue()

    return kind(m, first), code


@intrinsic
def _memory_of(typing: Any, gates: Any) -> Any:
    def code(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        return cgutils.create_struct_proxy(signature.args[0])(context, builder, values[0]).m

    return gates.memory(gates), code


@intrinsic
def _first_of(typing: Any, gates: Any) -> Any:
    def code(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        kind = signature.args[0]
        return cgutils.create_struct_proxy(kind)(context, builder, values[0]).first

    return types.int64(gates), code


@overload(operator.getitem, strict=False)
def _get(gates: Any, index: Any) -> Any:
    if isinstance(gates, _GateListType):
        return lambda gates, index: gate_of(_memory_of(gates), _first_of(gates) + index)
    return None


# ---- workers


class _WorkerType(types.Type):
    def __init__(self, memory: Any, task: Any) -> None:
        self.fields = [("m", memory), ("number", types.int64), ("task", task)]
        super().__init__(name=f"flowcontrol.KernelWorker({memory})")


@register_model(_WorkerType)
class _WorkerModel(models.StructModel):
    def __init__(self, manager: Any, kind: Any) -> None:
        super().__init__(manager, kind, kind.fields)


for _name in ("m", "number", "task"):
    make_attribute_wrapper(_WorkerType, _name, _name)


@in_place(worker_of)
def _worker_of(typing: Any, m: Any, number: Any, task: Any) -> Any:
    kind = _WorkerType(m, task)

    def code(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        made = cgutils.create_struct_proxy(kind)(context, builder)
        made.m, made.task = values[0], values[2]
        made.number = as_int(context, builder, values[1], signature.args[1])
        return made._getvalue()

    return kind(m, number, task), code


def register_methods(options: dict[str, Any]) -> None:
    """Have the methods of a worker compiled as they stand."""
    for name, method in vars(KernelWorker).items():
        if not name.startswith("_"):
            _register_method(name, method, options)


def _register_method(name: str, method: Any, options: dict[str, Any]) -> None:
    def found(*values: Any) -> Any:
        return method

    found.__signature__ = inspect.signature(method)  # type: ignore[attr-defined]
    overload_method(_WorkerType, name, jit_options=options)(found)


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
