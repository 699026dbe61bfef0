"""Checkpoints in a round of the kernel: the coordinator's orders, mail, timers.

What a task does about them is :mod:`flowcontrol.protocol.tasks.checkpointing`.
"""

from typing import Any

from flowcontrol.kernel.views import coordinator_queue, kernel_checkpoints, out_row, task_row, wake
from flowcontrol.memory import fields as f
from flowcontrol.memory import part_fields as c
from flowcontrol.memory.cells import part_of, rows_of
from flowcontrol.memory.parts import CHECKPOINTS
from flowcontrol.memory.places import FLAG_PROTOCOL, KernelMemory
from flowcontrol.protocol.checkpoints.barriers import is_past, notify_checkpoint_complete
from flowcontrol.protocol.service import NEVER
from flowcontrol.protocol.tasks.checkpointing import next_timer, process_mail
from flowcontrol.protocol.tasks.snapshots import slowed_end, stands_in_sync, syncing_us
from flowcontrol.state.queues import append, next_slot

NO_ROUND = 1 << 62
"""In place of the round in which something is due: nothing is."""

order_rows = rows_of(c.KernelOrder)


@part_of(CHECKPOINTS)
def deliver_orders(m: KernelMemory) -> None:
    """Hand what the coordinator has said before the first round of a call to the tasks."""
    orders = order_rows(m, m.orders, m.orders_most)
    for i in range(m.orders_count):
        order = orders[i]
        task = task_row(m, order.task)
        held = kernel_checkpoints(m, task.checkpoints)
        if order.kind == c.SLOWED or order.kind == c.RELIEVED:
            held.own.is_slowed = 1 if order.kind == c.SLOWED else 0
            task.in_checkpoint = 1
            wake(m, order.task, order.arrives)
            continue
        if order.kind == c.COMPLETED:
            if notify_checkpoint_complete(held.own, order.checkpoint, order.arrives) == 1:
                task.in_checkpoint = 1
                wake(m, order.task, order.arrives)
            continue
        if order.kind == c.ABORTED and is_past(held.own, order.checkpoint) == 1:
            continue
        at = held.aborted if order.kind == c.ABORTED else held.triggers
        queue = coordinator_queue(m, at, held.messages_most)
        if queue.ends.count == held.messages_most:
            m.flags |= FLAG_PROTOCOL
            continue
        message = next_slot(queue)
        message.checkpoint = order.checkpoint
        message.created = order.created
        message.is_savepoint = order.is_savepoint
        message.arrives = order.arrives
        append(queue)
        if order.kind == c.TO_TAKE:
            task.in_checkpoint = 1
            wake(m, order.task, order.arrives)
    m.orders_count = 0


@part_of(CHECKPOINTS)
def process_checkpoint_mail(m: KernelMemory, worker: Any, work: Any) -> int:
    """Have a task act on what does not wait for its turn, before its work of a round.

    Return 1 if a snapshot then holds up a task without a server's clock.
    """
    if work.stall == NEVER:
        worker.task.in_checkpoint = 1
        process_mail(worker, worker.task, work.start, work.until)
    return stands_in_sync(worker.checkpoint_state(), worker.task, worker.now_us())


@part_of(CHECKPOINTS)
def holds_events(m: KernelMemory, p: f.KernelPartition) -> int:
    """Tell whether an event is queued in a partition: 1 if so."""
    for place in range(p.channels):
        if out_row(m, p.first_channel + place).events > 0:
            return 1
    return 0


@part_of(CHECKPOINTS)
def synced_for(m: KernelMemory, worker: Any) -> int:
    """Return for how long of the round a snapshot held up such a task, microseconds."""
    return syncing_us(worker.checkpoint_state(), worker.task, worker.now_us(), m.round_us)


@part_of(CHECKPOINTS)
def upload_slowed(m: KernelMemory, worker: Any, start: int, end: int) -> int:
    """Return the work that is allowed by the end of the round while a task's manager uploads."""
    return slowed_end(worker.checkpoint_state(), worker.task, start, end)


@part_of(CHECKPOINTS)
def plan_mail(m: KernelMemory, worker: Any) -> None:
    """Have a task looked at when a timer of it is due, a trigger arrives or a snapshot is over.

    While its task manager uploads it is looked at in every round. One that waits for none of that,
    nor for its barriers to leave, is in no checkpoint any more.
    """
    state, task, triggers, at = worker.checkpoint_state(), worker.task, worker.triggers(), NO_ROUND
    if state.is_slowed == 1:
        at = m.now + 1
    if stands_in_sync(state, task, worker.now_us()) == 1:
        task.status = f.BUSY  # until it is over
        at = min(at, state.synced_at // m.round_us)
    if state.finishes > m.now:
        at = min(at, state.finishes)
    timer = next_timer(worker)
    if timer >= 0:
        at = min(at, (timer + m.round_us - 1) // m.round_us)
    if triggers.ends.count > 0:
        at = min(at, triggers.slots[triggers.ends.head].arrives)
    task.in_checkpoint = state.waits_outputs
    if at < NO_ROUND:
        task.in_checkpoint = 1
        wake(m, worker.number, max(m.now + 1, at))
