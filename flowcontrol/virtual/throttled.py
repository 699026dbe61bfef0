"""A throttled source's part of a round, and whether the whole job has nothing left to do."""

from __future__ import annotations

from typing import Any

from flowcontrol.policies.throttled_source import (
    S_ADMITTED,
    S_HAS_LOG,
    S_LOG,
    S_OFFERED,
    SOURCE_WIDTH,
    after_emitting,
    may_emit,
    offer,
)
from flowcontrol.protocol import rounds as r
from flowcontrol.protocol.service import work_by
from flowcontrol.virtual import fields as f
from flowcontrol.virtual.ages import log_age, peek_run, push_run, run_length, take_run
from flowcontrol.virtual.compiled import kernel
from flowcontrol.virtual.pointers import row, rows
from flowcontrol.virtual.task import (
    BLOCKED,
    CAPACITY,
    emit_together,
    outputs_available,
    skip_due,
    write_pending,
    yield_outputs,
)
from flowcontrol.virtual.views import in_row, partition_row, task_row

__all__ = ["emit_throttled", "is_empty"]


@kernel
def emit_throttled(m: Any, number: int, task: Any, end: int) -> int:
    """Emit what the command in force allows of what waits; return CAPACITY or BLOCKED."""
    state = row(m, task[f.T_THROTTLE], SOURCE_WIDTH)
    round_ns = m[f.H_ROUND_US] * 1000
    start_ns = m[f.H_NOW] * round_ns
    fresh = skip_due(m, task, end)
    if state[S_HAS_LOG] == 1:
        if task[f.T_LIMIT] >= 0:
            fresh = min(fresh, task[f.T_LIMIT] - state[S_OFFERED])
        if fresh > 0:
            push_run(m, task, f.T_LOG_HEAD, m[f.H_NOW], fresh)
    waiting = offer(state, fresh)
    most = may_emit(state, waiting, task[r.TASK_IN], start_ns, start_ns + round_ns)
    if task[f.T_LIMIT] >= 0:
        most = min(most, task[f.T_LIMIT] - task[r.TASK_IN])
    done = emit_up_to(m, number, task, most, state[S_HAS_LOG])
    after_emitting(state, waiting, done, start_ns)
    task[f.T_DUE] = waiting
    return CAPACITY if done == waiting and task[f.T_PENDING] == 0 else BLOCKED


@kernel
def emit_up_to(m: Any, number: int, task: Any, most: int, has_log: int) -> int:
    """Emit so many records at the most; return how many."""
    p = partition_row(m, task[f.T_PARTITION0])
    single = task[f.T_PARTITIONS] == 1 and p[f.P_CHANNELS] == 1 and p[f.P_PATH_LENGTH] == 0
    task[f.T_EMITTED] = m[f.H_NOW]
    done = 0
    while write_pending(m, task) == 1 and done < most and outputs_available(m, task) == 1:
        together = most - done
        if has_log == 1:
            task[f.T_EMITTED] = peek_run(m, task, f.T_LOG_HEAD)
            together = min(together, run_length(m, task, f.T_LOG_HEAD))
        count = emit_together(m, task, p, together) if single else 0
        if count == 0:
            count = 1
            task[r.TASK_IN] += 1
            yield_outputs(m, task, 1)
        if has_log == 1:
            take_run(m, task, f.T_LOG_HEAD, count)
        if task[f.T_SINKS] > 0:
            log_age(m, number, m[f.H_NOW] - task[f.T_EMITTED], count)
            m[f.H_ARRIVED] += count
        done += count
    return done


@kernel
def is_empty(m: Any, now: int) -> int:
    """Tell whether all that was admitted was emitted, and all that was emitted is done: 1 if so."""
    for number in range(m[f.H_TASKS]):
        task = task_row(m, number)
        if task[f.T_KIND] == f.CONNECTION:
            continue
        if task[f.T_PENDING] == 1 or task[r.TASK_QUEUED] > 0:
            return 0
        if task[f.T_KIND] == f.SOURCE and task[f.T_THROTTLE] > 0:
            state = row(m, task[f.T_THROTTLE], SOURCE_WIDTH)
            if task[r.TASK_IN] < state[S_ADMITTED] and state[S_LOG] > 0:
                return 0
        if task[f.T_KIND] == f.SERVER:
            phases = rows(m, task[f.T_PHASES], task[f.T_PHASE_COUNT], 3)
            if task[r.TASK_READY] > work_by(phases, (now + 1) * m[f.H_ROUND_US]):
                return 0
        for i in range(task[f.T_PARTITIONS]):
            p = partition_row(m, task[f.T_PARTITION0] + i)
            if is_under_way(m, p) == 1:
                return 0
    return 1


@kernel
def is_under_way(m: Any, p: Any) -> int:
    """Tell whether records of a partition were written and not taken up: 1 if so."""
    for place in range(p[f.P_CHANNELS]):
        base = m[f.H_OUT0] + (p[f.P_CHANNEL0] + place) * f.O_WIDTH
        into = in_row(m, m[base + f.O_IN])
        if m[base + r.OUT_RECORDS] > into.processed:
            return 1
    return 0
