"""Processors in a round of the kernel: what its tasks claim, and what they get.

The rules are :mod:`flowcontrol.protocol.processors`. The thread of a server, or of a source that
reads a log, works while it has a record; that of a source that makes its records up works at its
rate while its output takes them. A thread runs all operators of a chain. A task without a rate
works in no time, and takes no processor. One that may claim something is looked at in every round.
"""

from typing import Any

from flowcontrol.operators.aligning import is_paused
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


def has_nothing_to_emit(worker: Any, task: f.KernelTask) -> int:
    """Tell whether a source has ended, or is paused: 1 if so."""
    if task.open_inputs == 0 or (task.limit >= 0 and task.taken >= task.limit):
        return 1
    return 1 if task.is_aligned == 1 and is_paused(worker) == 1 else 0


def computes_next(task: f.KernelTask, state: KernelProcessor, end: int) -> int:
    """Tell whether a task may have something to claim in the next round by itself: 1 if so.

    Parameters
    ----------
    end : int
        Work that its rate allows by the end of the round, units.
    """
    if state.behind > 0 or (task.kind == f.SOURCE and task.open_inputs > 0):
        return 1
    return 1 if task.kind != f.SOURCE and task.ready > end else 0
