"""How much a task may do in a round, when it is looked at again, and what it is until then."""

from flowcontrol.kernel import views as v
from flowcontrol.kernel.reading import is_reading, next_arrival_us
from flowcontrol.kernel.reports import holds_events, plan_mail
from flowcontrol.kernel.requests import plan_requests
from flowcontrol.kernel.task import KernelWorker
from flowcontrol.kernel.views import kernel_time, wake, wake_at
from flowcontrol.memory import fields as f
from flowcontrol.memory.cells import part_of
from flowcontrol.memory.parts import ALIGNMENT, EVENT_TIME, WINDOWS
from flowcontrol.memory.places import KernelMemory
from flowcontrol.protocol.service import (
    first_us_at,
    first_us_beyond,
    next_flush_us,
    phase_at,
    work_by,
)
from flowcontrol.protocol.tasks.event_time import is_paused, next_probe_us, note_idle
from flowcontrol.protocol.tasks.operators import outputs_available
from flowcontrol.protocol.tasks.task import BLOCKED, CAPACITY, WAITING, waiting_at_reader
from flowcontrol.protocol.tasks.windowing import NEVER_MS, next_timer_ms


def plan(m: KernelMemory, worker: KernelWorker, end: int, reason: int) -> None:
    """Decide when a task is looked at again, and what the rounds until then count as.

    Parameters
    ----------
    end : int
        Work that its rate allows by the end of the round, units.
    reason : int
        Why it stopped.
    """
    number, task = worker.number, worker.task
    available = outputs_available(worker, task)
    if (reason == BLOCKED and task.has_sent == 1) or task.throttle > 0:
        wake(m, number, m.now + 1)
    plan_flush(m, number, task)
    if task.kind == f.SOURCE:
        plan_source(m, worker, available)
    elif task.kind == f.RELAY:
        plan_relay(m, worker, reason)
    else:
        plan_server(m, worker, end, reason, available)
    if task.has_requests == 1:
        if reason == WAITING:
            task.status = f.BUSY
        plan_requests(m, number, task)
    if m.has_checkpoints == 1 and task.in_checkpoint == 1:
        plan_mail(m, worker)
    if task.is_timed == 1:
        plan_probe(m, worker, available)
    if task.has_window == 1:
        plan_timers(m, worker)


def plan_source(m: KernelMemory, worker: KernelWorker, available: int) -> None:
    """Decide it for a source that makes its records up: the next one falls due."""
    number, task = worker.number, worker.task
    task.status = f.IDLE if available == 1 else f.BLOCKED
    if available == 0 or task.taken == task.limit or task.open_inputs == 0:
        return
    if task.is_pending == 1:
        wake(m, number, m.now + 1)
    if task.is_aligned == 1 and is_paused(worker) == 1:
        return  # it is woken when it may go on
    phases, end_us = worker.service_phases(), (m.now + 1) * m.round_us
    if work_by(phases, end_us + m.round_us) >= task.ready:
        wake(m, number, m.now + 1)  # the usual case, without a division
    else:
        wake_at(m, number, first_us_at(phases, task.ready, end_us))


def plan_relay(m: KernelMemory, worker: KernelWorker, reason: int) -> None:
    """Decide it for a task that works in no time: a standstill begins."""
    task = worker.task
    task.status = f.IDLE
    if task.queued > task.withheld or task.is_firing == 1:
        task.status = f.BLOCKED if reason == BLOCKED else f.BUSY
    for i in range(task.stall_count):
        begin = m[task.stalls + 2 * i]
        if begin > m.now * m.round_us:  # it counts from the next round that begins
            wake_at(m, worker.number, begin + m.round_us)
            return


def plan_server(
    m: KernelMemory, worker: KernelWorker, end: int, reason: int, available: int
) -> None:
    """Decide it for a stage with a rate, or a source that reads a log: it may begin a record."""
    number, task, ready = worker.number, worker.task, worker.task.ready
    phases, end_us = worker.service_phases(), (m.now + 1) * m.round_us
    waiting = task.queued - task.withheld + waiting_at_reader(task) + task.is_pending
    waiting += task.is_firing
    if m.has_readers == 1 and task.kind == f.READER and task.due == 0:
        wake_at(m, number, next_arrival_us(m, task))
    moves = ready > end and work_by(phases, end_us + m.round_us) > end
    status = f.IDLE
    if reason == BLOCKED or (reason == CAPACITY and available == 0 and not moves):
        status = f.BLOCKED
    elif reason == CAPACITY and (ready > end or waiting > 0):
        status = f.BUSY
    task.status = status
    following = phase_at(phases, end_us - 1) + 1
    if following < len(phases):  # a rate of nothing begins or ends there
        wake_at(m, number, phases[following][0] + 1)
    if reason != CAPACITY:
        return
    if work_by(phases, end_us + m.round_us) > ready:
        wake(m, number, m.now + 1)
    elif task.is_pending + task.goes_on > 0 or is_reading(m, task) == 1:
        wake_at(m, number, first_us_at(phases, ready, end_us))
    else:
        wake_at(m, number, first_us_beyond(phases, ready, end_us))


@part_of(EVENT_TIME)
def plan_probe(m: KernelMemory, worker: KernelWorker, available: int) -> None:
    """Have a source looked at when it is probed, and one that has ended until all is written."""
    task, probe_us = worker.task, next_probe_us(worker, worker.task)
    if probe_us >= 0:
        wake(m, worker.number, max(m.now + 1, (probe_us + m.round_us - 1) // m.round_us))
    if task.open_inputs == 0 and task.is_pending == 1 and available == 1:
        wake(m, worker.number, m.now + 1)


@part_of(WINDOWS)
def plan_timers(m: KernelMemory, worker: KernelWorker) -> None:
    """Have a task looked at when its next timer of processing time is due."""
    task, due_ms = worker.task, next_timer_ms(worker)
    if task.is_firing == 1 or task.open_inputs == 0 or due_ms >= NEVER_MS:
        return
    if due_ms < m.rounds * m.round_us // 1000 + 1:
        wake(m, worker.number, max(m.now + 1, (due_ms * 1000 + m.round_us - 1) // m.round_us))


@part_of(ALIGNMENT)
def note_pause(m: KernelMemory, task: f.KernelTask, idle_us: int) -> None:
    """Count the time for which a source was idle, microseconds, if it is paused."""
    note_idle(kernel_time(m, task.time).own, idle_us)


def is_nothing_queued(m: KernelMemory, p: f.KernelPartition) -> int:
    """Tell whether a partition has nothing that could be flushed: 1 if so."""
    if p.pool.in_use > 0:
        return 0
    if m.has_checkpoints == 0 or m.counts_records == 1:  # records need no flush to go before them
        return 1
    return 1 - holds_events(m, p)


def plan_flush(m: KernelMemory, number: int, task: f.KernelTask) -> None:
    """Have a task looked at when its next flusher runs, if there is something to flush."""
    interval, end_us = m.flush_us, (m.now + 1) * m.round_us
    if interval <= 0:
        return
    for i in range(task.partitions):
        p = v.partition_row(m, task.first_partition + i)
        if is_nothing_queued(m, p) == 0:
            if p.flush_at <= end_us:
                p.flush_at = next_flush_us(end_us, interval, p.flush_phase)
            wake_at(m, number, p.flush_at)


# --- How much a task may do in a round.


class RoundWork:
    """The work that a task may do in a round, units.

    - ``start``, ``end``: what its rate allows by the start and by the end of the round.
    - ``until``: what it may do by the end: less if it waits for a processor, or its manager
      uploads.
    - ``stall``: when the standstill of a RELAY ends that the round falls into, microseconds; or
      NEVER.
    """

    def __init__(self, start: int, until: int, end: int, stall: int) -> None:
        self.start, self.until, self.end, self.stall = start, until, end, stall


def round_work(start: int, until: int, end: int, stall: int) -> RoundWork:
    """Return the work that a task may do in a round."""
    return RoundWork(start, until, end, stall)
