"""The loop over rounds: which tasks are looked at, in what order, and what a round does to one."""

from __future__ import annotations

from typing import Any

from flowcontrol.policies.tcp_buffers import close_buffer
from flowcontrol.protocol import rounds as r
from flowcontrol.protocol.rounds import flush
from flowcontrol.protocol.service import NEVER, first_us_at, first_us_beyond, stands_still, work_by
from flowcontrol.protocol.times import (
    blocked_relay_us,
    blocked_source_us,
    busy_us,
    emitting_us,
    flush_ticks,
    is_blocked,
)
from flowcontrol.virtual import fields as f
from flowcontrol.virtual.compiled import compile_entry, kernel
from flowcontrol.virtual.connection import transmit
from flowcontrol.virtual.debloat import debloat_gates, measure_gates
from flowcontrol.virtual.disk import hear_disk, serve_disk
from flowcontrol.virtual.ending import finish_when_over
from flowcontrol.virtual.messages import announce_all, hear, receive_all, send
from flowcontrol.virtual.pointers import row, rows
from flowcontrol.virtual.records import grant_all
from flowcontrol.virtual.sharing import in_order, serve_waiting
from flowcontrol.virtual.spilling import note_memory, note_waits, send_spilled
from flowcontrol.virtual.task import (
    BLOCKED,
    CAPACITY,
    emit,
    outputs_available,
    serve,
    skip_due,
)
from flowcontrol.virtual.tcp import carry
from flowcontrol.virtual.throttled import emit_throttled, is_empty
from flowcontrol.virtual.turns import serve_now
from flowcontrol.virtual.views import (
    out_row,
    partition_of,
    partition_pool,
    partition_row,
    set_bit,
    task_row,
)
from flowcontrol.virtual.wheel import collect, next_round, wake

__all__ = ["advance", "settle"]


def _advance(memory: Any, end: int) -> int:
    """Run the rounds up to ``end``, or until a flag is raised; return the flags.

    After FLAG_DRAIN, and when the log is empty, it goes on where it was.
    """
    m = row(memory, 0, len(memory))
    now = next_round(m, m[f.H_ROUND], end)
    while now < end:
        m[f.H_NOW] = now
        count = collect(m, now)
        active = row(m, m[f.H_ACTIVE], 2 * m[f.H_TASKS])
        if m[f.H_SHARED] == 1:
            in_order(active, count)
        for i in range(count):
            task = task_row(m, active[i])
            if task[f.T_KIND] == f.CONNECTION or task[f.T_KIND] == f.DISK:
                serve_now(m, active[i])
            else:
                settle(m, task, now)
                receive_all(m, task, now)
                hear(m, task, now)
                if task[f.T_KINDS] > 0:
                    hear_disk(m, task, now)
        for i in range(count):
            kind = task_row(m, active[i])[f.T_KIND]
            if kind != f.CONNECTION and kind != f.DISK:
                step(m, active[i], now)
        for i in range(m[f.H_SERVED]):
            number = active[m[f.H_TASKS] + i]
            if task_row(m, number)[f.T_KIND] == f.DISK:
                serve_disk(m, number, now)
            elif m[f.H_TCP] == 1:
                carry(m, number, now)
            else:
                transmit(m, number, now)
        m[f.H_SERVED] = 0
        if m[f.H_SHARED] == 1:
            serve_waiting(m, now)
        m[f.H_STEPS] += count
        if m[f.H_FLAGS] != 0:
            return m[f.H_FLAGS]
        if m[f.H_WATCH] == 1 and is_empty(m, now) == 1:
            m[f.H_FLAGS] |= f.FLAG_EMPTY
            end = now + 1  # all is accounted for, as this may be a sample's last round
            break
        if 2 * m[f.H_AGES_COUNT] > m[f.H_AGES_MOST]:
            m[f.H_ROUND] = now + 1
            return f.FLAG_DRAIN
        now = next_round(m, now + 1, end)
    m[f.H_ROUND] = end
    m[f.H_NOW] = end - 1
    m[f.H_EMPTY] = is_empty(m, end - 1)
    for i in range(m[f.H_TASKS]):
        settle(m, task_row(m, i), end)
        catch_up(m, task_row(m, i), end)
    return m[f.H_FLAGS]


@kernel
def catch_up(m: Any, task: Any, end: int) -> None:
    """Let the work of a task that slept be forgone, as it is when a round finds it asleep."""
    if task[f.T_KIND] != f.SOURCE and task[f.T_KIND] != f.SERVER:
        return
    phases = rows(m, task[f.T_PHASES], task[f.T_PHASE_COUNT], 3)
    start = work_by(phases, (end - 1) * m[f.H_ROUND_US])
    if task[f.T_KIND] == f.SERVER:
        task[r.TASK_READY] = max(task[r.TASK_READY], start)
    elif task[r.TASK_IN] == task[f.T_LIMIT]:
        skip_due(m, task, start)
    else:
        skip_due(m, task, work_by(phases, end * m[f.H_ROUND_US]))


@kernel
def settle(m: Any, task: Any, now: int) -> None:
    """Account for the rounds before ``now`` in which a task was not looked at."""
    slept = now - task[f.T_LAST] - 1
    if slept > 0:
        task[task[f.T_STATUS]] += slept * m[f.H_ROUND_US]
        task[f.T_LAST] = now - 1


@kernel
def step(m: Any, number: int, now: int) -> None:
    """A task's round after it has heard its neighbours."""
    task = task_row(m, number)
    task[f.T_LAST] = now
    task[f.T_SENT] = 0
    start_us = now * m[f.H_ROUND_US]
    end_us = start_us + m[f.H_ROUND_US]
    phases = rows(m, task[f.T_PHASES], task[f.T_PHASE_COUNT], 3)
    start = end = 0
    if task[f.T_KIND] != f.RELAY:
        start = work_by(phases, start_us)
        end = work_by(phases, end_us)
    before, busy = task[r.TASK_IN], task[f.T_BUSY]
    still = NEVER
    if task[f.T_KIND] == f.SOURCE:
        skip_due(m, task, start)
        if task[f.T_THROTTLE] > 0:
            reason = emit_throttled(m, number, task, end)
        else:
            reason = emit(m, number, task, end)
    elif task[f.T_STALL_COUNT] > 0:
        reason = CAPACITY
        still = stands_still(rows(m, task[f.T_STALLS], task[f.T_STALL_COUNT], 2), start_us)
        if still == NEVER:
            reason = serve(m, number, task, end)
        else:
            wake_at(m, number, still + m[f.H_ROUND_US])
    else:
        task[r.TASK_READY] = max(task[r.TASK_READY], start)
        reason = serve(m, number, task, end)
    account(m, task, start, end, task[r.TASK_IN] - before, reason)
    if m[f.H_DEBLOAT_US] > 0:
        worked = task[f.T_BUSY] - busy
        if task[f.T_KIND] == f.RELAY and task[r.TASK_IN] > before:
            worked = m[f.H_ROUND_US]  # finer than a round is not known
        measure_gates(m, task, start_us, worked)
        debloat_gates(m, number, task, end_us, now)
    if task[f.T_ENDS] == 1:
        finish_when_over(m, number, task, phases, end_us, now)
    if task[f.T_KINDS] > 0:
        note_memory(m, task)
    flush_all(m, task, start_us, end_us)
    send(m, task, now)
    if task[f.T_KINDS] > 0:
        send_spilled(m, task, now)
    if m[f.H_RECORDS] == 1:
        grant_all(m, number, task, now)
    else:
        announce_all(m, task, now)
    plan(m, number, task, phases, reason, end, end_us, now)
    if task[f.T_KINDS] > 0:
        note_waits(m, task, now)


@kernel
def account(m: Any, task: Any, start: int, end: int, done: int, reason: int) -> None:
    """Share the round out over busy, idle and back-pressured."""
    whole, available = m[f.H_ROUND_US], outputs_available(m, task)
    blocked, waiting = 1 if reason == BLOCKED else 0, task[r.TASK_QUEUED]
    busy = lost = 0
    if task[f.T_KIND] == f.SOURCE:
        lost = blocked_source_us(whole, task[f.T_DUE], done, blocked, available)
        busy = emitting_us(whole - lost, done, task[f.T_COST_NS])
    elif task[f.T_KIND] == f.RELAY:
        lost = blocked_relay_us(whole, waiting, done, blocked)
        busy = whole if reason == CAPACITY and waiting > 0 else 0
    else:
        waiting += task[f.T_PENDING]
        busy = busy_us(whole, start, end, task[r.TASK_READY], waiting, blocked, available)
        if is_blocked(start, end, blocked, available) == 1:
            lost = whole - busy
    task[f.T_BUSY] += busy
    task[f.T_BLOCKED] += lost
    task[f.T_IDLE] += whole - busy - lost


@kernel
def flush_all(m: Any, task: Any, start_us: int, end_us: int) -> None:
    """Let the flushers run whose time has come."""
    interval = m[f.H_FLUSH_US]
    for i in range(task[f.T_PARTITIONS]):
        number = task[f.T_PARTITION0] + i
        p = partition_row(m, number)
        if partition_pool(p).in_use == 0 or p[f.P_FLUSH_AT] > end_us:
            continue
        if flush_ticks(start_us, end_us, interval, p[f.P_FLUSH_PHASE]) > 0:
            partition = partition_of(m, number)
            for place in range(p[f.P_CHANNELS]):
                out = out_row(m, p[f.P_CHANNEL0] + place)
                if out[r.OUT_BUFFERS] > 0:
                    if m[f.H_TCP] == 1:
                        close_buffer(partition, place)
                    else:
                        flush(partition, place)
                    set_bit(m, p[f.P_DIRTY], place)
        if interval > 0:
            phase = p[f.P_FLUSH_PHASE]
            p[f.P_FLUSH_AT] = ((end_us - phase) // interval + 1) * interval + phase


@kernel
def plan(
    m: Any, number: int, task: Any, phases: Any, reason: int, end: int, end_us: int, now: int
) -> None:
    """Decide when a task is looked at again, and what the rounds until then count as."""
    available = outputs_available(m, task)
    if reason == BLOCKED and task[f.T_SENT] == 1:
        wake(m, number, now + 1)
    plan_flush(m, number, task, end_us)
    if task[f.T_THROTTLE] > 0:
        wake(m, number, now + 1)
    if task[f.T_KIND] == f.SOURCE:
        task[f.T_STATUS] = f.T_IDLE if available == 1 else f.T_BLOCKED
        if available == 1 and task[r.TASK_IN] != task[f.T_LIMIT]:
            if task[f.T_PENDING] == 1:
                wake(m, number, now + 1)
            if work_by(phases, end_us + m[f.H_ROUND_US]) >= task[r.TASK_READY]:
                wake(m, number, now + 1)  # the usual case, without a division
            else:
                wake_at(m, number, first_us_at(phases, task[r.TASK_READY], end_us))
    elif task[f.T_KIND] == f.RELAY:
        task[f.T_STATUS] = f.T_IDLE
        if task[r.TASK_QUEUED] > 0:
            task[f.T_STATUS] = f.T_BLOCKED if reason == BLOCKED else f.T_BUSY
        for i in range(task[f.T_STALL_COUNT]):
            begin = m[task[f.T_STALLS] + 2 * i]
            if begin > end_us - m[f.H_ROUND_US]:  # it counts from the next round that begins
                wake_at(m, number, begin + m[f.H_ROUND_US])
                break
    else:
        plan_server(m, number, task, phases, reason, available, end, end_us)


@kernel
def plan_server(
    m: Any, number: int, task: Any, phases: Any, reason: int, available: int, end: int, end_us: int
) -> None:
    """Decide the same for a stage with a rate."""
    ready = task[r.TASK_READY]
    waiting = task[r.TASK_QUEUED] + task[f.T_PENDING]
    moves = ready > end and work_by(phases, end_us + m[f.H_ROUND_US]) > end
    status = f.T_IDLE
    if reason == BLOCKED or (reason == CAPACITY and available == 0 and not moves):
        status = f.T_BLOCKED
    elif reason == CAPACITY and (ready > end or waiting > 0):
        status = f.T_BUSY
    task[f.T_STATUS] = status
    for i in range(len(phases)):
        if phases[i][0] >= end_us:  # a rate of nothing begins or ends there
            wake_at(m, number, phases[i][0] + 1)
            break
    if reason == CAPACITY:
        if work_by(phases, end_us + m[f.H_ROUND_US]) > ready:
            wake(m, number, m[f.H_NOW] + 1)
        elif task[f.T_PENDING] == 1:
            wake_at(m, number, first_us_at(phases, ready, end_us))
        else:
            wake_at(m, number, first_us_beyond(phases, ready, end_us))


@kernel
def wake_at(m: Any, number: int, us: int) -> None:
    """Have a task looked at in the round in which a microsecond after this one ends."""
    if us == NEVER or task_row(m, number)[f.T_WAKE] == m[f.H_NOW] + 1:
        return
    whole = m[f.H_ROUND_US]
    wake(m, number, max(m[f.H_NOW] + 1, (us + whole - 1) // whole - 1))


@kernel
def plan_flush(m: Any, number: int, task: Any, end_us: int) -> None:
    """Have a task looked at when its next flusher runs, if there is something to flush."""
    interval = m[f.H_FLUSH_US]
    if interval <= 0:
        return
    for i in range(task[f.T_PARTITIONS]):
        p = partition_row(m, task[f.T_PARTITION0] + i)
        if partition_pool(p).in_use > 0:
            if p[f.P_FLUSH_AT] <= end_us:
                phase = p[f.P_FLUSH_PHASE]
                p[f.P_FLUSH_AT] = ((end_us - phase) // interval + 1) * interval + phase
            wake_at(m, number, p[f.P_FLUSH_AT])


advance = compile_entry(_advance)
