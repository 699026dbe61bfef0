"""When a task is looked at again, and what the rounds until then count as."""

from flowcontrol.operators.task import BLOCKED, CAPACITY, outputs_available, waiting_at_reader
from flowcontrol.protocol.rows import Rows
from flowcontrol.protocol.service import first_us_at, first_us_beyond, phase_at, work_by
from flowcontrol.protocol.times import next_flush_us
from flowcontrol.virtual import fields as f
from flowcontrol.virtual import views as v
from flowcontrol.virtual.barriers import holds_events, plan_mail
from flowcontrol.virtual.header import KernelMemory
from flowcontrol.virtual.parts import BUFFERS, EVENT_TIME
from flowcontrol.virtual.reading import is_reading, next_arrival_us
from flowcontrol.virtual.registry import part_of
from flowcontrol.virtual.task import KernelWorker
from flowcontrol.virtual.timed_worker import is_paused, next_probe_us
from flowcontrol.virtual.wheel import wake, wake_at
from flowcontrol.virtual.windowed_worker import plan_timers


def plan(
    m: KernelMemory,
    worker: KernelWorker,
    phases: Rows,
    reason: int,
    end: int,
    end_us: int,
    now: int,
) -> None:
    """Decide when a task is looked at again, and what the rounds until then count as."""
    number, task = worker.number, worker.task
    available = outputs_available(worker, task)
    if reason == BLOCKED and task.has_sent == 1:
        wake(m, number, now + 1)
    plan_flush(m, number, task, end_us)
    if task.throttle > 0:
        wake(m, number, now + 1)
    if task.kind == f.SOURCE:
        task.status = f.IDLE if available == 1 else f.BLOCKED
        if available == 1 and task.taken != task.limit and task.open_inputs > 0:
            if task.is_pending == 1:
                wake(m, number, now + 1)
            if task.is_aligned == 1 and is_paused(m, task) == 1:
                pass  # it is woken when it may go on
            elif work_by(phases, end_us + m.round_us) >= task.ready:
                wake(m, number, now + 1)  # the usual case, without a division
            else:
                wake_at(m, number, first_us_at(phases, task.ready, end_us))
    elif task.kind == f.RELAY:
        task.status = f.IDLE
        if task.queued > task.withheld or task.is_firing == 1:
            task.status = f.BLOCKED if reason == BLOCKED else f.BUSY
        for i in range(task.stall_count):
            begin = m[task.stalls + 2 * i]
            if begin > end_us - m.round_us:  # it counts from the next round that begins
                wake_at(m, number, begin + m.round_us)
                break
    else:
        plan_server(m, number, task, phases, reason, available, end, end_us)
    if m.has_checkpoints == 1 and task.attention == 1:
        plan_mail(m, worker, now)
    if task.is_timed == 1:
        plan_probe(m, worker, available)
    if task.has_window == 1:
        plan_timers(m, worker)


def plan_server(
    m: KernelMemory,
    number: int,
    task: f.KernelTask,
    phases: Rows,
    reason: int,
    available: int,
    end: int,
    end_us: int,
) -> None:
    """Decide the same for a stage with a rate."""
    ready = task.ready
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
    if reason == CAPACITY:
        if work_by(phases, end_us + m.round_us) > ready:
            wake(m, number, m.now + 1)
        elif task.is_pending + task.goes_on > 0 or is_in_hand(m, task) == 1:
            wake_at(m, number, first_us_at(phases, ready, end_us))
        else:
            wake_at(m, number, first_us_beyond(phases, ready, end_us))


@part_of(EVENT_TIME)
def plan_probe(m: KernelMemory, worker: KernelWorker, available: int) -> None:
    """Have a source looked at when it is probed, and one that has ended until all is written."""
    task, probe_us = worker.task, next_probe_us(m, worker)
    if probe_us >= 0:
        wake(m, worker.number, max(m.now + 1, (probe_us + m.round_us - 1) // m.round_us))
    if task.open_inputs == 0 and task.is_pending == 1 and available == 1:
        wake(m, worker.number, m.now + 1)


def is_in_hand(m: KernelMemory, task: f.KernelTask) -> int:
    """Tell whether a task is a source in the middle of reading a record: 1 if so."""
    return is_reading(m, task) if m.has_readers == 1 and task.kind == f.READER else 0


def is_nothing_queued(m: KernelMemory, p: f.KernelPartition) -> int:
    """Tell whether a partition has nothing that could be flushed: 1 if so."""
    if p.pool.in_use > 0:
        return 0
    if m.has_checkpoints == 0 or m.counts_records == 1:  # records are never flushed
        return 1
    return 1 - holds_events(m, p)


@part_of(BUFFERS)
def plan_flush(m: KernelMemory, number: int, task: f.KernelTask, end_us: int) -> None:
    """Have a task looked at when its next flusher runs, if there is something to flush."""
    interval = m.flush_us
    if interval <= 0:
        return
    for i in range(task.partitions):
        p = v.partition_row(m, task.first_partition + i)
        if is_nothing_queued(m, p) == 0:
            if p.flush_at <= end_us:
                p.flush_at = next_flush_us(end_us, interval, p.flush_phase)
            wake_at(m, number, p.flush_at)
