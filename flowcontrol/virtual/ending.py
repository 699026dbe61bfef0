"""When a task has finished: its source has ended, or its inputs are read to the end."""

from __future__ import annotations

from flowcontrol.protocol.partition_kinds import PIPELINED
from flowcontrol.protocol.rounds import finish_partition, finish_task
from flowcontrol.protocol.rows import Rows
from flowcontrol.protocol.service import PHASE_START, has_ended
from flowcontrol.virtual import fields as f
from flowcontrol.virtual.disk import finish_writing
from flowcontrol.virtual.header import KernelMemory
from flowcontrol.virtual.parts import SPILLS
from flowcontrol.virtual.registry import part_of
from flowcontrol.virtual.spilled import spill_row
from flowcontrol.virtual.spilling import close_partition
from flowcontrol.virtual.throttled import waits_at_source
from flowcontrol.virtual.views import partition_of, partition_row, set_bit
from flowcontrol.virtual.wheel import wake


def finish_when_over(
    m: KernelMemory, number: int, task: f.KernelTask, phases: Rows, end_us: int, now: int
) -> None:
    """Finish a task that has nothing more to do: close its outputs, and queue their ends."""
    if task.kind == f.SOURCE and task.open_inputs > 0:
        _end_source(m, number, task, phases, end_us)
    if task.is_pending == 1 or finish_task(task) == 0:
        return
    for i in range(task.partitions):
        p = partition_row(m, task.first_partition + i)
        if p.kind > PIPELINED:
            _write_rest(m, task.first_partition + i, now)
        finish_partition(partition_of(m, task.first_partition + i))
        for place in range(p.channels):
            set_bit(m, p.dirty, place)


def _end_source(
    m: KernelMemory, number: int, task: f.KernelTask, phases: Rows, end_us: int
) -> None:
    """Note that nothing falls due at a source any more, or have it looked at when that may be."""
    if has_ended(phases, end_us, task.taken, task.limit) == 1:
        if task.throttle == 0 or waits_at_source(m, task) == 0:
            task.open_inputs = 0
        return
    last, whole = phases[len(phases) - 1][PHASE_START], m.round_us
    if end_us < last:
        wake(m, number, max(m.now + 1, (last + whole - 1) // whole - 1))


@part_of(SPILLS)
def _write_rest(m: KernelMemory, number: int, now: int) -> None:
    """Have a partition that spills write what it still holds."""
    sp = spill_row(m, partition_row(m, number))
    close_partition(m, sp)
    finish_writing(m, sp, now)
