"""When a task may begin its next record: its work so far beside what its rate allows.

A task is ready for a record at :attr:`~flowcontrol.protocol.states.Task.ready`, in units of work
(:mod:`flowcontrol.protocol.service`): of a server the work by which the record in service is done,
of a source that by which the next one falls due.
"""

from flowcontrol.operators.states import StreamTask, Worker
from flowcontrol.protocol.service import CONSTANT


def spend(worker: Worker, task: StreamTask, count: int) -> None:
    """Let ``count`` records begin, one after the other; one, unless all take the same."""
    if task.distribution == CONSTANT:
        task.ready += count * task.unit
    else:
        task.ready += worker.draw()


def startable(task: StreamTask, most: int, end: int) -> int:
    """Records, at most ``most``, that a server may take up at once before ``end``."""
    if task.distribution != CONSTANT:
        return 1
    return most if most == 1 else min(most, (end - task.ready + task.unit - 1) // task.unit)


def emissions_due(task: StreamTask, end: int) -> int:
    """Emissions of a source that fall due by ``end``; at most one, unless all take the same."""
    if end < task.ready:
        return 0
    if task.distribution != CONSTANT:
        return 1
    return (end - task.ready) // task.unit + 1


def let_pass(worker: Worker, task: StreamTask, start: int) -> None:
    """Drop the emissions that fell due by ``start``; behind a record half written one is kept.

    A source that was blocked inside a record has the next one in hand when it goes on: it emits it
    at once, and the one after that an interval later. A source that waits between two records goes
    on when its next one falls due. A real Flink does both.
    """
    if task.is_pending == 0:
        skip_due(worker, task, start)
    else:
        task.ready = max(task.ready, start)


def skip_due(worker: Worker, task: StreamTask, end: int) -> int:
    """Drop the emissions that fall due by ``end``; return how many they are."""
    dropped = 0
    if task.ready == 0:  # before the first one
        spend(worker, task, 1)
    while True:
        count = emissions_due(task, end)
        if count == 0:
            return dropped
        spend(worker, task, count)
        dropped += count
