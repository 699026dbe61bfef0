"""What a snapshot costs a task: it stands still for the synchronous part; uploads slow it down.

A task with a rate is further behind by the work that the time would have allowed; so it is busy,
and records wait. A source that makes its records up emits none meanwhile, and does not make up for
them, as in a stall. A task that works in no time stands still in every round that begins before
the end.
"""

from typing import Final

from flowcontrol.protocol.service import first_us_at, proportion, work_by
from flowcontrol.state.network import TaskCheckpoint
from flowcontrol.state.rows import Rows
from flowcontrol.state.tasks import READER, RELAY, SERVER, SOURCE, StreamTask

WHOLE_SERVICE: Final = 1_000_000_000
"""All of a task's service, in the unit of ``TaskCheckpoint.slowdown``."""


def stand_still(
    state: TaskCheckpoint, task: StreamTask, phases: Rows, now: int, length: int
) -> None:
    """Have a task stand still from where it is on: for the snapshot of its state, or a commit.

    - ``phases``: its rate, as :func:`~flowcontrol.protocol.service.work_by` takes it; none of a
      RELAY.
    - ``now``: start of the round, microseconds.
    - ``length``: for how long, microseconds.
    """
    state.synced_at = now + length
    if length == 0 or task.kind == RELAY:
        return
    work, begin = task.ready, now
    if task.kind == SERVER or task.kind == READER:
        work = max(task.ready, work_by(phases, now))
        begin = max(now, first_us_at(phases, work, now))
    task.ready = work + work_by(phases, begin + length) - work_by(phases, begin)


def stands_in_sync(state: TaskCheckpoint, task: StreamTask, now: int) -> int:
    """Tell whether a snapshot holds up a task without a server's clock in a round: 1 if so."""
    if task.kind == SERVER or task.kind == READER:
        return 0  # its work is behind
    return 1 if now < state.synced_at else 0


def syncing_us(state: TaskCheckpoint, task: StreamTask, now: int, whole: int) -> int:
    """Return for how long of a round a snapshot held up a task without a server's clock."""
    if stands_in_sync(state, task, now) == 0:
        return 0
    return min(whole, state.synced_at - now)


def slowed_end(state: TaskCheckpoint, task: StreamTask, start: int, end: int) -> int:
    """Return the work that a task may do by the end of a round while its manager uploads.

    - ``task``: a server or a source that reads a log; others lose nothing.
    - ``start``, ``end``: work that its rate allows by the start and by the end of the round, units.
    """
    if state.is_slowed == 0 or task.kind == SOURCE or task.kind == RELAY:
        return end
    return end - proportion(end - start, state.slowdown, WHOLE_SERVICE)


def lose_work(task: StreamTask, may_do: int, end: int) -> None:
    """Have a task lose the work between what it might do in a round and what its rate allows.

    What it had not to do is not lost: a server that was idle at the end has done all.
    """
    if task.ready > may_do:
        task.ready += end - may_do
