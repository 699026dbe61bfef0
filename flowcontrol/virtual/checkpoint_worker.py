"""A subtask of the kernel, as :mod:`flowcontrol.operators.checkpointing` sees it."""

from collections.abc import Sequence
from typing import Any

from flowcontrol.operators.checkpointing import on_event
from flowcontrol.protocol.checkpoints.barriers import ACKNOWLEDGED, TAKEN, WRITES, fill_report
from flowcontrol.protocol.queues import Queue
from flowcontrol.protocol.rows import Row, Rows
from flowcontrol.protocol.sides import Gate, Partition
from flowcontrol.protocol.state import width
from flowcontrol.protocol.states import (
    AlignedChannel,
    Alignment,
    CheckpointReport,
    CoordinatorMessage,
    TaskCheckpoint,
    TrackedCheckpoint,
)
from flowcontrol.systems.transports.record_rounds import close_records, note_barriers
from flowcontrol.virtual import fields as f
from flowcontrol.virtual import views as v
from flowcontrol.virtual.cells import queue_of, rows, rows_of, state_of
from flowcontrol.virtual.checkpoint_fields import CUT_SLOTS, KernelCheckpoints
from flowcontrol.virtual.header import FLAG_LOST_REPORT, KernelMemory
from flowcontrol.virtual.parts import CHECKPOINTS, RECORDS, WINDOWS
from flowcontrol.virtual.putting_aside import act_on_old
from flowcontrol.virtual.registry import part_of
from flowcontrol.virtual.window_fields import KernelWindow

kernel_checkpoints = state_of(KernelCheckpoints)
aligned_channels = rows_of(AlignedChannel)
tracked_queue = queue_of(TrackedCheckpoint)
coordinator_queue = queue_of(CoordinatorMessage)
report_rows = rows_of(CheckpointReport)
kernel_window = state_of(KernelWindow)

REPORT_CELLS = width(CheckpointReport)


class CheckpointedWorker:
    """What a task holds of checkpoints; the base of a task of the kernel.

    A ``CheckpointWorker`` of :mod:`flowcontrol.operators.checkpointing`.

    Attributes
    ----------
    m : KernelMemory
        The memory.
    number : int
        Which task it is.
    task : KernelTask
        Its row.
    """

    m: KernelMemory
    number: int
    task: f.KernelTask

    def held(self) -> KernelCheckpoints:
        """Return what it holds of them, and where the rest is."""
        return kernel_checkpoints(self.m, self.task.checkpoints)

    def checkpoint_state(self) -> TaskCheckpoint:
        """Return what the task knows of checkpoints."""
        return kernel_checkpoints(self.m, self.task.checkpoints).own

    def alignment(self) -> Alignment:
        """Return its alignment."""
        return kernel_checkpoints(self.m, self.task.checkpoints).alignment

    def aligned(self) -> Sequence[AlignedChannel]:
        """Return the channels of that, those of all gates in order."""
        held = kernel_checkpoints(self.m, self.task.checkpoints)
        return aligned_channels(self.m, held.channels, held.channel_count)

    def tracked(self) -> Queue[TrackedCheckpoint]:
        """Return the checkpoints that an at-least-once task counts."""
        held = kernel_checkpoints(self.m, self.task.checkpoints)
        return tracked_queue(self.m, held.tracked, held.tracked_most)

    def triggers(self) -> Queue[CoordinatorMessage]:
        """Return the checkpoints that a source has been asked for, oldest first."""
        held = kernel_checkpoints(self.m, self.task.checkpoints)
        return coordinator_queue(self.m, held.triggers, held.messages_most)

    def aborted(self) -> Queue[CoordinatorMessage]:
        """Return the checkpoints that the coordinator has aborted, oldest first."""
        held = kernel_checkpoints(self.m, self.task.checkpoints)
        return coordinator_queue(self.m, held.aborted, held.messages_most)

    def gate_count(self) -> int:
        """Return how many gates it has."""
        return self.task.gates

    def input_gates(self) -> Sequence[Gate]:
        """Return its gates."""
        gates: Any = v.gates_of(self.m, self.task.first_gate)
        return gates

    def gate_record_bytes(self, number: int) -> int:
        """Return the size of a gate's records, bytes."""
        return v.gate_row(self.m, self.task.first_gate + number).record_bytes

    def gates_with_data(self) -> Row:
        """Return its queue of gates with data."""
        union: Row = v.union_of(self.m, self.task)
        return union

    def event_partition(self, number: int) -> Partition:
        """Return a result partition, into which an event may be put that has to be sent."""
        return event_partition(self.m, self.task.first_partition + number)

    def note_barrier(self, number: int) -> None:
        """Have the task wait while a barrier in a result partition has no permit."""
        if self.m.counts_records == 1:
            note_barriers_of(self.m, v.partition_of(self.m, self.task.first_partition + number))

    def is_forced(self, number: int) -> int:
        """Tell whether a partition's receivers align whatever the mode is: 1 if so."""
        return v.partition_row(self.m, self.task.first_partition + number).is_forced

    def round_number(self) -> int:
        """Return the round."""
        return self.m.now

    def now_us(self) -> int:
        """Return the start of the round."""
        return self.m.now * self.m.round_us

    def service_phases(self) -> Rows:
        """Return its rate, as rows of work; none of a task that works in no time."""
        phases: Rows = rows(self.m, self.task.phases, self.task.phase_count, 3)
        return phases

    def report(self, kind: int, checkpoint: int, reason: int) -> None:
        """Tell the coordinator what has become of a checkpoint, with what was measured."""
        log_report(self.m, self.number, self.task, kind, checkpoint, reason)

    def report_writing(self, before: int) -> None:
        """Say that the task takes up records in this round, behind so many before it."""
        log_writing(self.m, self.number, before)

    def on_event(self) -> int:
        """Act on the event that the task has polled; return 1 if it then stands still."""
        return act_on_event(self.m, self)


def event_partition(m: KernelMemory, number: int) -> Partition:
    """Return a result partition, which has to be sent, to put an event into it."""
    p = v.partition_row(m, number)
    for place in range(p.channels):
        v.set_bit(m, p.dirty, place)
    partition = v.partition_at(m, p)
    if m.counts_records == 1:
        close_counted(m, partition, p.record_bytes)
    return partition


@part_of(RECORDS)
def close_counted(m: KernelMemory, partition: Partition, record_bytes: int) -> None:
    """Queue the records that are written so far: an event comes behind them."""
    close_records(partition, record_bytes)


@part_of(RECORDS)
def note_barriers_of(m: KernelMemory, partition: Partition) -> None:
    """Have a task wait while a barrier in a result partition has no permit."""
    note_barriers(v.transport_of(m), partition)


@part_of(CHECKPOINTS)
def keep_cut(m: KernelMemory, held: KernelCheckpoints, checkpoint: int) -> None:
    """Copy the cells that a restart puts back (:mod:`flowcontrol.virtual.cut_memory`)."""
    at = held.cuts + checkpoint % CUT_SLOTS * (1 + held.cut_cells)
    m[at] = checkpoint
    for i in range(held.cut_cells):
        m[at + 1 + i] = m[m[held.cut_places + i]]


@part_of(CHECKPOINTS)
def act_on_event(m: KernelMemory, worker: Any) -> int:
    """Act on the event that a task has polled in its turn; return 1 if it then stands still."""
    worker.task.attention = 1
    if m.is_tcp == 1 and worker.held().aside > 0:
        return act_on_old(m, worker)
    return on_event(worker, worker.task)


@part_of(CHECKPOINTS)
def log_report(
    m: KernelMemory, number: int, task: f.KernelTask, kind: int, checkpoint: int, reason: int
) -> None:
    """Log what a task tells the coordinator, with what it has measured of the checkpoint."""
    if m.reports_count == m.reports_most:
        m.flags |= FLAG_LOST_REPORT
        return
    entry = report_rows(m, m.reports, m.reports_most)[m.reports_count]
    m.reports_count += 1
    entry.task = number
    entry.kind = kind
    entry.checkpoint = checkpoint
    entry.round = m.now
    entry.reason = reason
    entry.records = entry.windows = entry.start_delay = entry.alignment = 0
    entry.processed = entry.persisted = 0
    if kind == ACKNOWLEDGED:
        fill_report(entry, kernel_checkpoints(m, task.checkpoints).own)
    elif kind == TAKEN:
        entry.records = task.taken
        entry.windows = window_bytes(m, task)
    else:
        m.reports_wanted = 0  # what follows from it may not wait


@part_of(WINDOWS)
def window_bytes(m: KernelMemory, task: f.KernelTask) -> int:
    """Return the size of a task's open windows, bytes; 0 of one without."""
    if task.has_window == 0:
        return 0
    held = kernel_window(m, task.window)
    return held.store.open * held.own.bytes_per_key


@part_of(CHECKPOINTS)
def log_writing(m: KernelMemory, number: int, before: int) -> None:
    """Log that a task takes up records in this round, behind so many; nobody waits for it."""
    if m.reports_count == m.reports_most:
        m.flags |= FLAG_LOST_REPORT
        return
    entry = report_rows(m, m.reports, m.reports_most)[m.reports_count]
    m.reports_count += 1
    m.reports_wanted += 1
    entry.task = number
    entry.kind = WRITES
    entry.round = m.now
    entry.records = before
    entry.checkpoint = entry.reason = entry.windows = entry.start_delay = entry.alignment = 0
    entry.processed = entry.persisted = 0
