"""The loop over rounds: which tasks are looked at, in what order, and what a round does to one."""

from functools import cache
from typing import Any

import numpy as np

from flowcontrol.operators.pacing import let_pass
from flowcontrol.operators.snapshots import forgo
from flowcontrol.operators.task import CAPACITY, account, emit, outputs_available, serve
from flowcontrol.protocol.rounds import flush
from flowcontrol.protocol.rows import Row
from flowcontrol.protocol.service import NEVER, stands_still, work_by
from flowcontrol.protocol.state import cell
from flowcontrol.protocol.times import flush_ticks, next_flush_us
from flowcontrol.virtual import fields as f
from flowcontrol.virtual import views as v
from flowcontrol.virtual.barriers import (
    look_at_events,
    may_do,
    note_records,
    note_sent,
    stands_still_for_snapshot,
    synced_for,
    take_orders,
)
from flowcontrol.virtual.cells import row, rows
from flowcontrol.virtual.compiled import best_parts, compile_entry
from flowcontrol.virtual.computing import claim, share_round, waits_for, work_until
from flowcontrol.virtual.connections import carry, transmit
from flowcontrol.virtual.credits import announce_all, grant_all, read_credits
from flowcontrol.virtual.debloat import debloat_gates, measure_gates, note_waiting
from flowcontrol.virtual.disk import note_disk, serve_disk
from flowcontrol.virtual.ending import emit_throttled, finish_when_over, is_empty
from flowcontrol.virtual.failing import fill_log, lose_arrivals
from flowcontrol.virtual.header import (
    FLAG_DRAIN,
    FLAG_EMPTY,
    FLAG_PARTS,
    FLAG_REPORTS,
    KernelMemory,
)
from flowcontrol.virtual.jobs import in_order, serve_waiting
from flowcontrol.virtual.messages import receive_all, send
from flowcontrol.virtual.parts import EVENT_TIME, EVERYTHING, THROTTLES
from flowcontrol.virtual.planning import is_nothing_queued, plan
from flowcontrol.virtual.putting_aside import take_written
from flowcontrol.virtual.reading import append_until, read
from flowcontrol.virtual.registry import part_of
from flowcontrol.virtual.spilling import note_memory, note_waits, send_spilled
from flowcontrol.virtual.task import KernelWorker, worker_of
from flowcontrol.virtual.timed_worker import mark_time, note_pause, probe
from flowcontrol.virtual.turns import close, serve_now
from flowcontrol.virtual.wheel import collect, next_round, wake_at
from flowcontrol.virtual.windowed_worker import look_at_timers

PARTS = EVERYTHING
"""What of the kernel is there; a compiled one finds its own parts here."""


def _advance(memory: Any, end: int) -> int:
    """Run the rounds up to ``end``, or until a flag is raised; return the flags.

    After FLAG_DRAIN, and when the log is empty, it goes on where it was.
    """
    m = v.whole(memory, PARTS)
    if m.parts & ~PARTS != 0:
        m.flags |= FLAG_PARTS
        return m.flags
    if m.has_checkpoints == 1:
        take_orders(m)
    now = next_round(m, m.round, end)
    while now < end:
        m.now = now
        count = collect(m, now)
        active = row(m, m.active, 2 * m.tasks)
        if m.is_ordered == 1:
            in_order(m, active, count)
        run_tasks(m, active, count, now)
        serve_machines(m, active, count, now)
        if m.flags != 0:
            return m.flags
        if m.is_watched == 1 and is_empty(m, now) == 1:
            m.flags |= FLAG_EMPTY
        if m.has_checkpoints == 1 and has_news(m) == 1:
            m.flags |= FLAG_REPORTS
        if m.flags != 0:
            end = now + 1  # all is accounted for, as this may be a sample's last round
            break
        if is_half_full(m) == 1:
            m.round = now + 1
            return FLAG_DRAIN
        now = next_round(m, now + 1, end)
    m.round = end
    m.now = end - 1
    if m.parts & THROTTLES != 0:
        m.is_empty = is_empty(m, end - 1)
    for i in range(m.tasks):
        task = v.task_row(m, i)
        slept = end - task.last - 1
        settle(m, task, end)
        catch_up(m, i, task, end, slept)
    return m.flags


def run_tasks(m: KernelMemory, active: Row, count: int, now: int) -> None:
    """Have tasks take in what has reached them, and then each do its round."""
    for i in range(count):
        task = v.task_row(m, active[i])
        if task.kind == f.CONNECTION or task.kind == f.DISK:
            serve_now(m, active[i])
        elif m.may_fail == 1 and task.status == f.ABSENT:
            lose_arrivals(m, task, now)
        else:
            settle(m, task, now)
            receive_all(m, task, now)
            read_credits(m, task, now)
            if m.debloat_us > 0:
                note_waiting(m, task)
            if task.kinds > 0:
                note_disk(m, task, now)
    for i in range(count):
        task = v.task_row(m, active[i])
        if task.kind == f.CONNECTION or task.kind == f.DISK:
            continue
        if m.may_fail == 1 and task.status == f.ABSENT:
            continue
        step(m, active[i], now)


def serve_machines(m: KernelMemory, active: Row, count: int, now: int) -> None:
    """Have what tasks share do its round, behind those that were active: connections, disks, ...

    Parameters
    ----------
    active : row of int
        The tasks; behind all tasks, what is to be served.
    count : int
        How many were active.
    """
    if m.is_ordered == 1:
        in_order(m, row(m, m.active + m.tasks, m.tasks), m.served)
    for i in range(m.served):
        number = active[m.tasks + i]
        if v.task_row(m, number).kind == f.DISK:
            serve_disk(m, number, now)
        elif m.is_tcp == 1:
            carry(m, number, now)
        else:
            transmit(m, number, now)
    m.served = 0
    if m.is_shared == 1:
        serve_waiting(m, now)
    if m.has_processors == 1:
        share_round(m, active, count, now)


def has_news(m: KernelMemory) -> int:
    """Tell whether the coordinator has to look at the log of reports now: 1 if so."""
    if m.reports_count > m.reports_wanted or 2 * m.reports_count > m.reports_most:
        return 1
    return 0


def is_half_full(m: KernelMemory) -> int:
    """Tell whether a log that is emptied on the way is half full: 1 if so."""
    if 2 * m.ages_count > m.ages_most or 2 * m.results_count > m.results_most:
        return 1
    if 2 * m.kept_count > m.kept_most or 2 * m.kept_windows_count > m.kept_windows_most:
        return 1
    return 0


def catch_up(m: KernelMemory, number: int, task: f.KernelTask, end: int, slept: int) -> None:
    """Let the work of a task that slept so many rounds be forgone, as when one finds it asleep."""
    if task.kind != f.SOURCE and task.kind != f.SERVER and task.kind != f.READER:
        return
    if m.may_fail == 1 and task.status == f.ABSENT:
        fill_log(m, task, end * m.round_us)
        return
    phases = rows(m, task.phases, task.phase_count, 3)
    start = work_by(phases, (end - 1) * m.round_us)
    if m.has_readers == 1 and task.kind == f.READER:
        append_until(m, task, end * m.round_us)
    if task.kind != f.SOURCE:
        task.ready = max(task.ready, start)
    else:
        is_over = task.taken == task.limit or task.open_inputs == 0
        if is_over and slept == 0:
            return
        if not is_over and task.is_pending == 0:
            start = work_by(phases, end * m.round_us)
        let_pass(worker_of(m, number, task), task, start)


def count_time(task: f.KernelTask, time_us: int) -> None:
    """Count time as what a task was found to be last."""
    if task.status == f.IDLE:
        task.idle += time_us
    elif task.status == f.BUSY:
        task.busy += time_us
    elif task.status == f.BLOCKED:
        task.blocked += time_us
    else:
        task.absent += time_us


def settle(m: KernelMemory, task: f.KernelTask, now: int) -> None:
    """Account for the rounds before ``now`` in which a task was not looked at."""
    slept = now - task.last - 1
    if slept > 0:
        count_time(task, slept * m.round_us)
        if task.is_aligned == 1 and task.status == f.IDLE:
            note_pause(m, task, slept * m.round_us)
        task.last = now - 1


def step(m: KernelMemory, number: int, now: int) -> None:
    """A task's round after it has heard its neighbours."""
    task = v.task_row(m, number)
    task.last = now
    task.has_sent = 0
    start_us = now * m.round_us
    end_us = start_us + m.round_us
    phases = rows(m, task.phases, task.phase_count, 3)
    start = end = 0
    if task.kind != f.RELAY:
        start = work_by(phases, start_us)
        end = work_by(phases, end_us)
    before, busy = task.taken, task.busy
    worker = worker_of(m, number, task)
    gates, union = v.gates_of(m, task.first_gate), v.union_of(m, task)
    if m.is_tcp == 1:
        take_written(m, worker, gates)
    still = NEVER
    if task.stall_count > 0:
        still = stands_still(rows(m, task.stalls, task.stall_count, 2), start_us)
    if task.kind == f.SOURCE:
        let_pass(worker, task, start)  # before a snapshot puts off what falls due
    allowed, stands = end, 0
    if m.has_processors == 1 and task.processor > 0:
        end = work_until(m, task, start, end)
    if m.has_checkpoints == 1 and task.attention + task.mail > 0:
        end = may_do(m, worker, start, end)
        if still == NEVER:
            look_at_events(m, worker, start, end)
        stands = stands_still_for_snapshot(m, worker)
    if task.is_timed == 1 and stands == 0:
        look_at_times(m, worker, start, end, still)
    if task.kind == f.SOURCE:
        if task.throttle > 0:
            reason = emit_throttled(m, worker, end)
        else:
            task.emitted = now
            reason = emit(worker, task, end)
    elif m.has_readers == 1 and task.kind == f.READER:
        task.ready = max(task.ready, start)
        reason = read(m, worker, end, end_us)
    elif still != NEVER:
        reason = CAPACITY
        wake_at(m, number, still + m.round_us)
    elif stands == 1:
        reason = CAPACITY
    else:
        task.ready = max(task.ready, start)
        reason = serve(worker, task, gates, union, end)
    share_out(m, worker, start, end, allowed, task.taken - before, reason)
    if m.has_checkpoints == 1 and m.has_looks == 1 and task.taken > before:
        note_records(m, worker, before)
    if end < allowed:
        forgo(task, end, allowed)
        end = allowed
    if m.debloat_us > 0:
        worked = task.busy - busy
        if task.kind == f.RELAY and task.taken > before:
            worked = m.round_us  # finer than a round is not known
        measure_gates(m, task, start_us, worked)
        debloat_gates(m, number, task, end_us, now)
    if task.is_finished == 0 and (task.open_inputs == 0 or task.may_end == 1):
        finish_when_over(m, number, task, phases, end_us, now)
    if task.kinds > 0:
        note_memory(m, task)
    flush_all(m, task, start_us, end_us)
    send(m, task, now)
    if task.kinds > 0:
        send_spilled(m, task, now)
    if m.has_checkpoints == 1 and task.attention == 1:
        note_sent(m, worker)
    if m.counts_records == 1:
        grant_all(m, number, task, now)
    else:
        announce_all(m, task, now)
    plan(m, worker, phases, reason, end, end_us, now)
    if task.kinds > 0:
        note_waits(m, task, now)


def share_out(
    m: KernelMemory,
    worker: KernelWorker,
    start: int,
    end: int,
    allowed: int,
    done: int,
    reason: int,
) -> None:
    """Share the round out over busy, idle and back-pressured, and note what of it was a pause.

    A task that waits for a processor is busy.
    """
    task, waits = worker.task, 0
    idle, syncing, available = task.idle, 0, outputs_available(worker, task)
    if m.has_checkpoints == 1 and task.attention == 1:
        syncing = synced_for(m, worker)
    if m.has_processors == 1 and task.processor > 0:
        waits = waits_for(m, task, start, allowed)
        task.busy += waits
        syncing = min(syncing, m.round_us - waits)
    blocked = task.blocked
    account(task, m.round_us - waits, start, end, done, reason, available, syncing)
    if m.has_processors == 1 and task.processor > 0:
        claim(m, worker, start, end, allowed, task.blocked - blocked)
    if task.is_aligned == 1:
        note_pause(m, task, task.idle - idle)


@part_of(EVENT_TIME)
def look_at_times(m: KernelMemory, worker: KernelWorker, start: int, end: int, still: int) -> None:
    """Have a source probe its generator, and a task with windows look at its timers."""
    probe(m, worker, start, end)
    if worker.task.has_markers == 1:
        mark_time(m, worker, start, end)
    if worker.task.has_window == 1 and still == NEVER:
        look_at_timers(m, worker, start, end)


def flush_all(m: KernelMemory, task: f.KernelTask, start_us: int, end_us: int) -> None:
    """Let the flushers run whose time has come."""
    interval = m.flush_us
    for i in range(task.partitions):
        number = task.first_partition + i
        p = v.partition_row(m, number)
        if p.flush_at > end_us or is_nothing_queued(m, p) == 1:
            continue
        if flush_ticks(start_us, end_us, interval, p.flush_phase) > 0:
            partition = v.partition_of(m, number)
            for place in range(p.channels):
                out = v.out_row(m, p.first_channel + place)
                if out.buffers > 0 or (m.has_checkpoints == 1 and out.events > 0):
                    if m.is_tcp == 1:
                        close(m, partition, place)
                    else:
                        flush(partition, place)
                    v.set_bit(m, p.dirty, place)
        if interval > 0:
            p.flush_at = next_flush_us(end_us, interval, p.flush_phase)


@cache
def kernel_with(parts: int) -> Any:
    """Return the kernel that has these parts, and others if one with those is on disk."""
    return _kernel(best_parts(parts))


@cache
def _kernel(parts: int) -> Any:
    return compile_entry(_advance, parts)


def prepare(parts: int) -> None:
    """Compile the kernel that has these parts, or load it: no round of an empty memory."""
    kernel_with(parts)(np.zeros(f.WHEEL_SLOTS, np.int64), 0)


def advance(memory: Any, end: int) -> int:
    """Run the rounds up to ``end``, or until a flag is raised; return the flags.

    Parameters
    ----------
    memory : ndarray of int64
        Of a run, as :func:`flowcontrol.virtual.memory.fill` returns it.
    end : int
        Round before which to stop.
    """
    return int(kernel_with(int(memory[cell(KernelMemory, "parts")]))(memory, end))
