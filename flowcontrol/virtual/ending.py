"""When a task has finished: its source has ended, its inputs are read to the end.

Only tasks upstream of a partition that spills are asked (``ends``): a blocking partition can
be read when all of its producers have finished, and a hybrid one is closed.
"""

from __future__ import annotations

from flowcontrol.protocol.partition_kinds import PIPELINED
from flowcontrol.protocol.rounds import flush
from flowcontrol.protocol.rows import Rows
from flowcontrol.protocol.service import PHASE_RATE, PHASE_START
from flowcontrol.virtual import fields as f
from flowcontrol.virtual.disk import finish_writing
from flowcontrol.virtual.header import KernelMemory
from flowcontrol.virtual.parts import SPILLS
from flowcontrol.virtual.registry import kernel, part_of
from flowcontrol.virtual.spilled import spill_row
from flowcontrol.virtual.spilling import close_partition
from flowcontrol.virtual.views import (
    gate_row,
    in_row,
    out_row,
    partition_of,
    partition_row,
    set_bit,
    task_row,
)
from flowcontrol.virtual.wheel import wake

__all__ = ["finish_when_over"]


@part_of(SPILLS)
def finish_when_over(
    m: KernelMemory, number: int, task: f.KernelTask, phases: Rows, end_us: int, now: int
) -> None:
    """Finish a task that has nothing more to do: close its outputs, and tell its consumers.

    Notes
    -----
    ``ResultPartition.finish`` puts an end-of-partition event behind the data; it needs no
    credit, and travels as long as a message.
    """
    if task.done >= 0 or task.is_pending == 1:
        return
    if task.kind == f.SOURCE:
        if _has_ended(m, number, task, phases, end_us) == 0:
            return
    elif _is_read_out(m, task, now) == 0:
        return
    task.done = now
    for i in range(task.partitions):
        p = partition_row(m, task.first_partition + i)
        partition = partition_of(m, task.first_partition + i)
        if p.kind > PIPELINED:
            sp = spill_row(m, p)
            close_partition(m, p, partition, sp)
            finish_writing(m, sp, p.kind, now)
        for place in range(p.channels):
            out = out_row(m, p.first_channel + place)
            if p.kind <= PIPELINED and out.buffers > 0:
                flush(partition, place)
            set_bit(m, p.dirty, place)
            wake(m, out.receiver, now + _lag(m, out))


@kernel
def _lag(m: KernelMemory, out: f.KernelSubpartition) -> int:
    """Rounds that a channel's end takes to its receiver."""
    return 1 if out.is_local == 1 else m.latency


@kernel
def _has_ended(m: KernelMemory, number: int, task: f.KernelTask, phases: Rows, end_us: int) -> int:
    """Tell whether a source emits nothing any more: 1 if so."""
    if task.limit >= 0 and task.taken >= task.limit:
        return 1
    last = phases[len(phases) - 1]
    if last[PHASE_RATE] > 0:
        return 0
    if end_us >= last[PHASE_START]:
        return 1
    whole = m.round_us
    wake(m, number, max(m.now + 1, (last[PHASE_START] + whole - 1) // whole - 1))
    return 0


@kernel
def _is_read_out(m: KernelMemory, task: f.KernelTask, now: int) -> int:
    """Tell whether a task has processed all that its producers have ever sent: 1 if so."""
    if task.queued > 0:
        return 0
    for i in range(task.gates):
        g = gate_row(m, task.first_gate + i)
        for place in range(g.channels):
            into = in_row(m, g.first_channel + place)
            out = out_row(m, into.out)
            done = task_row(m, out.sender).done
            if done < 0 or done + _lag(m, out) > now:
                return 0
            if into.processed < out.written:
                return 0
    return 1
