"""A throttled source's part of a round, and whether the whole job has nothing left to do."""

from __future__ import annotations

from typing import Any

from flowcontrol.policies.throttled_source import (
    after_emitting,
    may_emit,
    offer,
)
from flowcontrol.protocol.service import work_by
from flowcontrol.virtual import fields as f
from flowcontrol.virtual.ages import log_age, peek_run, push_run, run_length, take_run
from flowcontrol.virtual.compiled import kernel, part_of
from flowcontrol.virtual.parts import THROTTLES
from flowcontrol.virtual.pointers import rows
from flowcontrol.virtual.task import (
    BLOCKED,
    CAPACITY,
    emit_together,
    outputs_available,
    skip_due,
    write_pending,
    yield_outputs,
)
from flowcontrol.virtual.views import (
    in_row,
    log_of,
    out_row,
    partition_row,
    task_row,
    throttled_source,
)

__all__ = ["emit_throttled", "is_empty"]


@part_of(THROTTLES)
def emit_throttled(m: Any, number: int, task: f.KernelTask, end: int) -> int:
    """Emit what the command in force allows of what waits; return CAPACITY or BLOCKED."""
    state = throttled_source(m, task.throttle)
    round_ns = m[f.H_ROUND_US] * 1000
    start_ns = m[f.H_NOW] * round_ns
    fresh = skip_due(m, task, end)
    if state.has_log == 1:
        if task.limit >= 0:
            fresh = min(fresh, task.limit - state.offered)
        if fresh > 0:
            push_run(m, log_of(task), m[f.H_NOW], fresh)
    waiting = offer(state, fresh)
    most = may_emit(state, waiting, task.taken, start_ns, start_ns + round_ns)
    if task.limit >= 0:
        most = min(most, task.limit - task.taken)
    done = emit_up_to(m, number, task, most, state.has_log)
    after_emitting(state, waiting, done, start_ns)
    task.due = waiting
    return CAPACITY if done == waiting and task.is_pending == 0 else BLOCKED


@kernel
def emit_up_to(m: Any, number: int, task: f.KernelTask, most: int, has_log: int) -> int:
    """Emit so many records at the most; return how many."""
    p = partition_row(m, task.first_partition)
    single = task.partitions == 1 and p[f.P_CHANNELS] == 1 and p[f.P_PATH_LENGTH] == 0
    task.emitted = m[f.H_NOW]
    done = 0
    while write_pending(m, task) == 1 and done < most and outputs_available(m, task) == 1:
        together = most - done
        if has_log == 1:
            task.emitted = peek_run(m, log_of(task))
            together = min(together, run_length(m, log_of(task)))
        count = emit_together(m, task, p, together) if single else 0
        if count == 0:
            count = 1
            task.taken += 1
            yield_outputs(m, task, 1)
        if has_log == 1:
            take_run(m, log_of(task), count)
        if task.sinks > 0:
            log_age(m, number, m[f.H_NOW] - task.emitted, count)
            m[f.H_ARRIVED] += count
        done += count
    return done


@part_of(THROTTLES)
def is_empty(m: Any, now: int) -> int:
    """Tell whether all that was admitted was emitted, and all that was emitted is done: 1 if so."""
    for number in range(m[f.H_TASKS]):
        task = task_row(m, number)
        if task.kind == f.CONNECTION:
            continue
        if task.is_pending == 1 or task.queued > 0:
            return 0
        if task.kind == f.SOURCE and task.throttle > 0:
            state = throttled_source(m, task.throttle)
            if task.taken < state.admitted and state.log > 0:
                return 0
        if task.kind == f.SERVER:
            phases = rows(m, task.phases, task.phase_count, 3)
            if task.ready > work_by(phases, (now + 1) * m[f.H_ROUND_US]):
                return 0
        for i in range(task.partitions):
            p = partition_row(m, task.first_partition + i)
            if is_under_way(m, p) == 1:
                return 0
    return 1


@kernel
def is_under_way(m: Any, p: Any) -> int:
    """Tell whether records of a partition were written and not taken up: 1 if so."""
    for place in range(p[f.P_CHANNELS]):
        out = out_row(m, p[f.P_CHANNEL0] + place)
        if out.written > in_row(m, out.input).processed:
            return 1
    return 0
