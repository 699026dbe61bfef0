"""What a checkpoint holds in flight of a job with event time that may fail: a log in the kernel.

As a task lets a barrier overtake, it logs what is in its channels; what enters one of them follows
until the sender has its own barrier there. That may be more than the checkpoint holds. How much
it does follows from the counts of the cuts at both ends.
"""

from flowcontrol.protocol.checkpoints.alignment import AT_LEAST_ONCE
from flowcontrol.virtual import fields as f
from flowcontrol.virtual import views as v
from flowcontrol.virtual.ages import run_at
from flowcontrol.virtual.cells import rows_of
from flowcontrol.virtual.checkpoint_fields import CUT_SLOTS, KernelCheckpoints
from flowcontrol.virtual.cut_log_fields import KeptElement
from flowcontrol.virtual.header import FLAG_KEPT, KernelMemory
from flowcontrol.virtual.parts import CHECKPOINTS, EVENT_TIME
from flowcontrol.virtual.registry import part_of
from flowcontrol.virtual.task_views import kernel_checkpoints

kept_rows = rows_of(KeptElement)


@part_of(CHECKPOINTS)
def keep_cut(m: KernelMemory, held: KernelCheckpoints, checkpoint: int) -> None:
    """Copy the cells that a restart puts back (:mod:`flowcontrol.virtual.cut_memory`)."""
    at = held.cuts + checkpoint % CUT_SLOTS * (1 + held.cut_cells)
    m[at] = checkpoint
    for i in range(held.cut_cells):
        m[at + 1 + i] = m[m[held.cut_places + i]]


@part_of(EVENT_TIME)
def log_channels(m: KernelMemory, task: f.KernelTask, checkpoint: int) -> None:
    """Log what is in the channels of a task that takes a checkpoint, if barriers overtake it."""
    held = kernel_checkpoints(m, task.checkpoints)
    if held.own.mode == AT_LEAST_ONCE or held.alignment.is_unaligned == 0:
        return
    for i in range(task.gates):
        g = v.gate_row(m, task.first_gate + i)
        for channel in range(g.first_channel, g.first_channel + g.channels):
            into = v.in_row(m, channel)
            number, out = into.out, v.out_row(m, into.out)
            place = out.runs.head
            while place > 0:
                found = run_at(m, place - 1)
                log_element(m, number, checkpoint, found.count, found.stamp, found.kind)
                place = found.next
            sender = kernel_checkpoints(m, v.task_row(m, out.sender).checkpoints)
            into.recorded = checkpoint if sender.own.handled < checkpoint else 0


@part_of(EVENT_TIME)
def record_element(
    m: KernelMemory, task: f.KernelTask, number: int, count: int, stamp: int, kind: int
) -> None:
    """Log what a task puts into a recorded channel, unless its barrier is in front of it."""
    into = v.in_row(m, v.out_row(m, number).input)
    if kernel_checkpoints(m, task.checkpoints).own.handled >= into.recorded:
        into.recorded = 0
    else:
        log_element(m, number, into.recorded, count, stamp, kind)


@part_of(EVENT_TIME)
def log_element(
    m: KernelMemory, channel: int, checkpoint: int, count: int, stamp: int, kind: int
) -> None:
    """Log records of one stamp, or a mark, that a checkpoint may hold in flight."""
    number = m.kept_count
    if number == m.kept_most:
        m.flags |= FLAG_KEPT
        return
    entry = kept_rows(m, m.kept, m.kept_most)[number]
    entry.channel = channel
    entry.checkpoint = checkpoint
    entry.count = count
    entry.stamp = stamp
    entry.kind = kind
    m.kept_count = number + 1
