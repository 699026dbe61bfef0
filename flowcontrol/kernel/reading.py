"""Sources that read logs, in the kernel: what is written to a log, and when the next record is."""

from flowcontrol.kernel import views as v
from flowcontrol.kernel.task import KernelWorker
from flowcontrol.memory import fields as f
from flowcontrol.memory.cells import part_of, rows
from flowcontrol.memory.parts import LOGS, THROTTLES
from flowcontrol.memory.places import KernelMemory
from flowcontrol.protocol.tasks.reading import (
    NO_LIMIT,
    append_up_to,
    begun,
    lag,
    read_log,
    written_by,
    written_us,
)
from flowcontrol.state.rows import Rows
from flowcontrol.systems.throttles.throttled_source import after_emitting, may_emit


def arrivals_of(m: KernelMemory, log: f.KernelLog) -> Rows:
    """Return the rate at which a log is written."""
    return rows(m, log.arrivals, log.arrival_count, 3)


@part_of(LOGS)
def append_until(m: KernelMemory, task: f.KernelTask, us: int) -> int:
    """Have the log of a READER hold what is written by a moment; return how many records wait."""
    log = v.source_log(m, task.log)
    append_up_to(log, written_by(arrivals_of(m, log), log.unit, us), task.limit)
    return lag(log)


@part_of(LOGS)
def read(m: KernelMemory, worker: KernelWorker, end: int) -> int:
    """Read what waits in the log, as far as rate and command allow; return why the task stopped."""
    task = worker.task
    append_until(m, task, (m.now + 1) * m.round_us)
    log = v.source_log(m, task.log)
    before = begun(log)
    most = permitted_by_throttle(m, task) if task.throttle > 0 else NO_LIMIT
    reason = read_log(worker, task, log, end, most)
    note_read(m, task, begun(log) - before)
    return reason


@part_of(THROTTLES)
def permitted_by_throttle(m: KernelMemory, task: f.KernelTask) -> int:
    """Return how many records the command in force lets a source read in this round."""
    state = v.throttled_source(m, task.throttle)
    start_ns = m.now * m.round_us * 1000
    log = v.source_log(m, task.log)
    end_ns = start_ns + m.round_us * 1000
    return may_emit(state, lag(log), begun(log), start_ns, end_ns)


@part_of(THROTTLES)
def note_read(m: KernelMemory, task: f.KernelTask, count: int) -> int:
    """Tell the throttle of a source how many records it has begun to read in this round."""
    if task.throttle > 0:
        state = v.throttled_source(m, task.throttle)
        after_emitting(state, count, m.now * m.round_us * 1000)
    return 0


@part_of(LOGS)
def is_reading(m: KernelMemory, task: f.KernelTask) -> int:
    """Tell whether a task is a READER in the middle of a record: 1 if so."""
    return v.source_log(m, task.log).reading if task.kind == f.READER else 0


@part_of(LOGS)
def next_arrival_us(m: KernelMemory, task: f.KernelTask) -> int:
    """Return when the next record is written to the log of a READER, or NEVER."""
    log = v.source_log(m, task.log)
    return written_us(arrivals_of(m, log), log.unit, log.end)
