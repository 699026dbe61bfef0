"""What tasks report to the coordinator: a log, which the kernel stops for where it may not wait."""

from typing import Any

from flowcontrol.protocol.checkpoints.barriers import ACKNOWLEDGED, TAKEN, WRITES, fill_report
from flowcontrol.protocol.states import CheckpointReport
from flowcontrol.virtual import fields as f
from flowcontrol.virtual.header import FLAG_LOST_REPORT, KernelMemory
from flowcontrol.virtual.parts import CHECKPOINTS, WINDOWS
from flowcontrol.virtual.registry import part_of
from flowcontrol.virtual.task_views import kernel_checkpoints, kernel_window, report_rows


@part_of(CHECKPOINTS)
def log_report(m: KernelMemory, worker: Any, kind: int, checkpoint: int, reason: int) -> None:
    """Log what a task tells the coordinator, with what it has measured of the checkpoint."""
    if m.reports_count == m.reports_most:
        m.flags |= FLAG_LOST_REPORT
        return
    entry, task = _next_report(m, worker.number, kind), worker.task
    entry.checkpoint = checkpoint
    entry.reason = reason
    if kind == ACKNOWLEDGED:
        fill_report(entry, kernel_checkpoints(m, task.checkpoints).own)
    elif kind == TAKEN:
        entry.records = task.taken
        entry.windows = window_bytes(m, task)
    else:
        m.reports_wanted = 0  # what follows from it may not wait


@part_of(CHECKPOINTS)
def log_writing(m: KernelMemory, number: int, before: int) -> None:
    """Log that a task takes up records in this round, behind so many; nobody waits for it."""
    if m.reports_count == m.reports_most:
        m.flags |= FLAG_LOST_REPORT
        return
    _next_report(m, number, WRITES).records = before
    m.reports_wanted += 1


def _next_report(m: KernelMemory, number: int, kind: int) -> CheckpointReport:
    """Return a new entry of the log, empty but for its task, its kind and the round."""
    entry = report_rows(m, m.reports, m.reports_most)[m.reports_count]
    m.reports_count += 1
    entry.task = number
    entry.kind = kind
    entry.round = m.now
    entry.checkpoint = entry.reason = entry.records = entry.windows = 0
    entry.start_delay = entry.alignment = entry.processed = entry.persisted = 0
    return entry


@part_of(WINDOWS)
def window_bytes(m: KernelMemory, task: f.KernelTask) -> int:
    """Return the size of a task's open windows, bytes; 0 of one without."""
    if task.has_window == 0:
        return 0
    held = kernel_window(m, task.window)
    return held.store.open * held.own.bytes_per_key
