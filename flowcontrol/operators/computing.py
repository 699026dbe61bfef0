"""What a task's work of a round takes of a processor (:mod:`flowcontrol.protocol.processors`).

The thread of a server, or of a source that reads a log, works while it has a record; that of a
source that makes its records up works at its rate while its output takes them. A thread runs all
operators of a chain. A task without a rate works in no time, and takes no processor.
"""

from flowcontrol.operators.states import SOURCE, StreamTask
from flowcontrol.operators.worker import W, Worker
from flowcontrol.protocol.processors import TaskProcessor, claim_processor, waiting_us
from flowcontrol.protocol.ratios import proportion


def note_computing(
    worker: Worker[W],
    task: StreamTask,
    state: TaskProcessor,
    cpu: int,
    whole: int,
    start: int,
    until: int,
    end: int,
    blocked_us: int,
) -> None:
    """Have a task claim what it has done in a round, before it finishes.

    Parameters
    ----------
    worker : Worker
        The subtask.
    task : StreamTask
        Its state.
    state : TaskProcessor
        What it claims.
    cpu : int
        Part of its time that needs a processor, of ``WHOLE_ROUND``.
    whole : int
        Length of the round, microseconds.
    start, until, end : int
        Work by the start of the round, that it might do by its end, and that its rate allows by
        then, units.
    blocked_us : int
        For how long of the round it was back-pressured, microseconds.
    """
    work = min(task.ready, until) - start
    if task.kind == SOURCE:
        work = until - start
        free_us = whole - waiting_us(state, start, end, whole)
        if free_us > 0 and blocked_us > 0:
            work = proportion(work, max(0, free_us - blocked_us), free_us)
        if has_nothing_to_emit(worker, task) == 1:
            work = 0
    claim_processor(state, cpu, max(0, work), end - start)


def has_nothing_to_emit(worker: Worker[W], task: StreamTask) -> int:
    """Tell whether a source has ended, or is paused: 1 if so."""
    if task.open_inputs == 0 or (task.limit >= 0 and task.taken >= task.limit):
        return 1
    return 1 if task.is_aligned == 1 and worker.is_paused() == 1 else 0


def computes_next(task: StreamTask, state: TaskProcessor, end: int) -> int:
    """Tell whether a task may have something to claim in the next round by itself: 1 if so.

    Parameters
    ----------
    end : int
        Work that its rate allows by the end of the round, units.
    """
    if state.behind > 0 or (task.kind == SOURCE and task.open_inputs > 0):
        return 1
    return 1 if task.kind != SOURCE and task.ready > end else 0
