"""Processors in a round of the kernel: what its tasks claim, and what they get.

The rules are :mod:`flowcontrol.protocol.processors` and :mod:`flowcontrol.operators.computing`. A
task that may claim something is looked at in every round.
"""

from typing import Any

from flowcontrol.operators.computing import computes_next, has_nothing_to_emit
from flowcontrol.protocol import processors as p
from flowcontrol.protocol.ratios import proportion
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
    return p.computes_until(kernel_processor(m, task.processor), start, end)


@part_of(CORES)
def waits_for(m: KernelMemory, task: f.KernelTask, start: int, end: int) -> int:
    """Return for how long of the round it waits for a processor, microseconds."""
    return p.waiting_us(kernel_processor(m, task.processor), start, end, m.round_us)


@part_of(CORES)
def claim(m: KernelMemory, worker: Any, allowed: Any, blocked_us: int) -> None:
    """Have a task claim what it has done of the work that a round allowed, before it finishes.

    It was back-pressured for ``blocked_us`` of it.
    """
    task = worker.task
    state = kernel_processor(m, task.processor)
    work = min(task.ready, allowed.until) - allowed.start
    if task.kind == f.SOURCE:
        work = allowed.until - allowed.start
        free_us = m.round_us - p.waiting_us(state, allowed.start, allowed.end, m.round_us)
        if free_us > 0 and blocked_us > 0:
            work = proportion(work, max(0, free_us - blocked_us), free_us)
        if has_nothing_to_emit(worker, task) == 1:
            work = 0
    cpu = p.cpu_at(rows(m, state.shares, state.share_count, 2), m.now * m.round_us)
    p.claim_processor(state, cpu, max(0, work), allowed.end - allowed.start)


@part_of(CORES)
def share_round(m: KernelMemory, active: Any, count: int) -> None:
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
        p.share_processors(own.own, processor_rows(m, own.first, own.count))
    for i in range(count):
        number = active[i]
        task = v.task_row(m, number)
        if task.processor > 0 and task.status != f.ABSENT:
            phases = rows(m, task.phases, task.phase_count, 3)
            end = work_by(phases, (m.now + 1) * m.round_us)
            if computes_next(task, kernel_processor(m, task.processor), end) == 1:
                wake(m, number, m.now + 1)
