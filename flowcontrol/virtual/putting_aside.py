"""A task that puts aside what comes behind barriers, in the kernel.

The rules are those of :mod:`flowcontrol.systems.barrier_buffer`.
"""

from typing import Any

from flowcontrol.operators.checkpointing import act_on, give_up
from flowcontrol.protocol.checkpoints.alignment import LIMIT_EXCEEDED
from flowcontrol.protocol.rounds import NO_INPUT, next_input
from flowcontrol.systems import barrier_buffer as b
from flowcontrol.virtual.cells import rows_of, state_of
from flowcontrol.virtual.checkpoint_fields import KernelCheckpoints
from flowcontrol.virtual.header import FLAG_ASIDE, KernelMemory
from flowcontrol.virtual.parts import CHECKPOINTS, TCP
from flowcontrol.virtual.registry import part_of
from flowcontrol.virtual.wheel import wake

barrier_buffer = state_of(b.BarrierBuffer)
aside_disk = state_of(b.AsideDisk)
aside_entries = state_of(b.AsideEntries)
aside_messages = rows_of(b.AsideMessage)


def aside_of(m: KernelMemory, held: KernelCheckpoints) -> b.Aside:
    """Return what a task has put aside."""
    return b.Aside(
        barrier_buffer(m, held.aside),
        aside_disk(m, held.aside_disk),
        aside_entries(m, m.asides_free),
        aside_messages(m, m.asides, m.asides_most),
    )


@part_of(TCP)
def next_of_old(m: KernelMemory, worker: Any, gates: Any, union: Any) -> int:
    """Make sure that a task without credits has a record in hand, if it may have one."""
    if m.has_checkpoints == 0 or worker.held().aside == 0:
        return next_input(worker.task, gates, union)
    return next_behind_barriers(m, worker, gates, union)


@part_of(CHECKPOINTS)
def next_behind_barriers(m: KernelMemory, worker: Any, gates: Any, union: Any) -> int:
    """Make sure of it where a task puts aside what comes behind barriers."""
    task, aside = worker.task, aside_of(m, worker.held())
    while True:
        found = b.next_unblocked(
            task, gates, union, aside, worker.alignment(), worker.aligned(), m.now
        )
        if found == b.LIMIT_REACHED:
            task.in_checkpoint = 1
            give_up(worker, task, LIMIT_EXCEEDED)
            continue
        if found == b.NO_ROOM:
            m.flags |= FLAG_ASIDE
            return NO_INPUT
        if found == NO_INPUT and aside.own.loading > 0:
            wake(m, worker.number, aside.own.loaded_at)
        if aside.own.writing.head > 0:
            wake(m, worker.number, aside.entries[aside.own.writing.head - 1].round)
        return found


@part_of(TCP)
def act_on_old(m: KernelMemory, worker: Any) -> int:
    """Act on the event that such a task has polled last; return 1 if it then stands still."""
    event = barrier_buffer(m, worker.held().aside).event
    return act_on(worker, worker.task, event.kind, event.checkpoint, event.created)


@part_of(TCP)
def take_written(m: KernelMemory, worker: Any, gates: Any) -> None:
    """Recycle the buffers of what a task without credits has put aside that are written."""
    held = worker.held()
    if held.aside == 0 or barrier_buffer(m, held.aside).writing.head == 0:
        return
    after = b.recycle_written(gates, aside_of(m, held), m.now)
    if after >= 0:
        wake(m, worker.number, after)
