"""Processors in a round of the kernel: what its tasks claim, and what they get.

The rules are :mod:`flowcontrol.protocol.processors` and :mod:`flowcontrol.operators.computing`. A
task that may claim something is looked at in every round.
"""

from typing import Any

from flowcontrol.operators.computing import computes_next, note_computing
from flowcontrol.protocol.processors import computes_until, cpu_at, share_processors, waiting_us
from flowcontrol.protocol.service import work_by
from flowcontrol.virtual import fields as f
from flowcontrol.virtual import views as v
from flowcontrol.virtual.cells import rows, rows_of, state_of
from flowcontrol.virtual.header import KernelMemory
from flowcontrol.virtual.parts import CORES
from flowcontrol.virtual.processor_fields import KernelProcessor, KernelProcessors
from flowcontrol.virtual.registry import part_of
from flowcontrol.virtual.wheel import wake

kernel_processor = state_of(KernelProcessor)
processor_rows = rows_of(KernelProcessor)
manager_rows = rows_of(KernelProcessors)


@part_of(CORES)
def work_until(m: KernelMemory, task: f.KernelTask, start: int, end: int) -> int:
    """Return the work that a task may do by the end of a round, as it waits for a processor."""
    return computes_until(kernel_processor(m, task.processor), start, end)


@part_of(CORES)
def waits_for(m: KernelMemory, task: f.KernelTask, start: int, end: int) -> int:
    """Return for how long of the round it waits for a processor, microseconds."""
    return waiting_us(kernel_processor(m, task.processor), start, end, m.round_us)


@part_of(CORES)
def claim(m: KernelMemory, worker: Any, start: int, until: int, end: int, blocked_us: int) -> None:
    """Have a task claim what it has done in the round; as ``note_computing``."""
    task = worker.task
    state = kernel_processor(m, task.processor)
    shares = rows(m, state.shares, state.share_count, 2)
    cpu = cpu_at(shares, m.now * m.round_us)
    note_computing(worker, task, state, cpu, m.round_us, start, until, end, blocked_us)


@part_of(CORES)
def share_round(m: KernelMemory, active: Any, count: int, now: int) -> None:
    """Share the processors of a round out, and have tasks looked at that claim more in the next.

    Parameters
    ----------
    active : row of int
        The tasks that were looked at.
    count : int
        How many.
    """
    managers = manager_rows(m, m.managers_at, m.managers)
    for i in range(m.managers):
        own = managers[i]
        share_processors(own.own, processor_rows(m, own.first, own.count))
    for i in range(count):
        number = active[i]
        task = v.task_row(m, number)
        if task.processor > 0 and task.status != f.ABSENT:
            phases = rows(m, task.phases, task.phase_count, 3)
            end = work_by(phases, (now + 1) * m.round_us)
            if computes_next(task, kernel_processor(m, task.processor), end) == 1:
                wake(m, number, now + 1)
