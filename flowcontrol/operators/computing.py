"""What a task's work of a round takes of a processor (:mod:`flowcontrol.protocol.processors`).

The thread of a server, or of a source that reads a log, works while it has a record; that of a
source that makes its records up works at its rate while its output takes them. A thread runs all
operators of a chain. A task without a rate works in no time, and takes no processor.
"""

from flowcontrol.operators.aligning import is_paused
from flowcontrol.operators.states import SOURCE, StreamTask, Worker
from flowcontrol.protocol.processors import TaskProcessor


def has_nothing_to_emit(worker: Worker, task: StreamTask) -> int:
    """Tell whether a source has ended, or is paused: 1 if so."""
    if task.open_inputs == 0 or (task.limit >= 0 and task.taken >= task.limit):
        return 1
    return 1 if task.is_aligned == 1 and is_paused(worker) == 1 else 0


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
