"""How a task ends, and what reaches tasks that are not deployed.

A task ends when its source has ended, or its inputs are read to the end; a whole job is empty when
nothing in it is left to do.
"""

from flowcontrol.kernel import views as v
from flowcontrol.kernel.ages import peek_run, push_run, run_length, take_run
from flowcontrol.kernel.disk import finish_writing, spill_row
from flowcontrol.kernel.messages import has_arrived
from flowcontrol.kernel.reading import append_until, arrivals_of
from flowcontrol.kernel.requests import end_requests, is_quiet
from flowcontrol.kernel.spilling import close_partition
from flowcontrol.kernel.task import KernelWorker
from flowcontrol.kernel.views import wake
from flowcontrol.kernel.writing import event_partition
from flowcontrol.memory import fields as f
from flowcontrol.memory.cells import part_of, rows
from flowcontrol.memory.parts import FAILURES, LOGS, SPILLS, THROTTLES
from flowcontrol.memory.places import KernelMemory
from flowcontrol.protocol.checkpoints.barriers import FINISHED
from flowcontrol.protocol.network.events import finish_partition, finish_task
from flowcontrol.protocol.network.partition_kinds import PIPELINED
from flowcontrol.protocol.service import PHASE_START, has_ended, work_by
from flowcontrol.protocol.tasks.checkpointing import may_finish
from flowcontrol.protocol.tasks.event_time import end_time
from flowcontrol.protocol.tasks.operators import outputs_available, write_pending
from flowcontrol.protocol.tasks.reading import append_up_to, lag, unread
from flowcontrol.protocol.tasks.task import BLOCKED, CAPACITY, emit_some, skip_due
from flowcontrol.protocol.tasks.windowing import waits_for_batches
from flowcontrol.state.queues import drop
from flowcontrol.state.rows import Rows
from flowcontrol.systems.throttles.throttled_source import after_emitting, hold, may_emit, offer

# --- Tasks of the kernel that are not deployed: what reaches them is lost


@part_of(FAILURES)
def lose_arrivals(m: KernelMemory, task: f.KernelTask) -> None:
    """Lose the messages and the credit that reach a task that is not deployed."""
    for i in range(task.gates):
        g = v.gate_row(m, task.first_gate + i)
        channel = v.next_bit(m, g.arrivals, g.channels, -1)
        while channel >= 0:
            queue = v.wire_queue(m, g.first_channel + channel)
            while has_arrived(m, g.task, queue) == 1:
                drop(queue)
            if queue.ends.count == 0:
                v.clear_bit(m, g.arrivals, channel)
            channel = v.next_bit(m, g.arrivals, g.channels, channel)
    for i in range(task.partitions):
        p = v.partition_row(m, task.first_partition + i)
        place = v.next_bit(m, p.credited, p.channels, -1)
        while place >= 0:
            lose_credit(m, p.task, v.out_row(m, p.first_channel + place))
            place = v.next_bit(m, p.credited, p.channels, place)


def lose_credit(m: KernelMemory, task: int, out: f.KernelSubpartition) -> None:
    """Lose the credit that has reached a channel of a task that is not deployed."""
    into = v.in_row(m, out.input)
    if into.credits_most == 0:
        return
    credits = v.credit_queue(m, into.credits, into.credits_most)
    while has_arrived(m, task, credits) == 1:
        drop(credits)


@part_of(FAILURES)
def fill_log(m: KernelMemory, task: f.KernelTask, us: int) -> None:
    """Have the log of a source that is not deployed hold what is written by a moment."""
    if m.has_readers == 1 and task.kind == f.READER:
        append_until(m, task, us)


# --- How a task ends, and what a throttled source emits until then.


def finish_when_over(m: KernelMemory, worker: KernelWorker) -> None:
    """Finish a task that has nothing more to do: close its outputs, and queue their ends."""
    task = worker.task
    if task.kind == f.SOURCE and task.open_inputs > 0:
        _end_source(m, worker)
    elif m.has_readers == 1 and task.kind == f.READER and task.open_inputs > 0:
        _end_reader(m, worker)
    if task.is_timed == 1:
        end_time(worker, task)
    if task.has_window == 1 and waits_for_batches(worker, task) == 1:
        return
    if task.has_requests == 1 and end_requests(m, worker) == 0:
        return
    if m.has_checkpoints == 1 and may_finish(worker, task) == 0:
        return
    if task.is_pending == 1 or finish_task(task) == 0:
        return
    for i in range(task.partitions):
        p = v.partition_row(m, task.first_partition + i)
        if p.kind > PIPELINED:
            _write_rest(m, task.first_partition + i)
        finish_partition(event_partition(m, task.first_partition + i))
    if m.has_checkpoints == 1:
        worker.report(FINISHED, 0, 0)


@part_of(LOGS)
def _end_reader(m: KernelMemory, worker: KernelWorker) -> None:
    """Note that nothing will wait in a log any more, or have it looked at when that may be."""
    log = v.source_log(m, worker.task.log)
    if _is_over(m, worker, arrivals_of(m, log)) == 1 and unread(log) == 0:
        worker.task.open_inputs = 0


def _end_source(m: KernelMemory, worker: KernelWorker) -> None:
    """Note that nothing falls due at a source any more, or have it looked at when that may be."""
    task = worker.task
    if _is_over(m, worker, worker.service_phases()) == 0:
        return
    if task.throttle == 0 or waits_at_source(m, task) == 0:
        task.open_inputs = 0


def _is_over(m: KernelMemory, worker: KernelWorker, phases: Rows) -> int:
    """Tell whether a schedule has ended: 1 if so; else have the task looked at when it may have."""
    end_us = (m.now + 1) * m.round_us
    if has_ended(phases, end_us, worker.task.taken, worker.task.limit) == 1:
        return 1
    last, whole = phases[len(phases) - 1][PHASE_START], m.round_us
    if end_us < last:
        wake(m, worker.number, max(m.now + 1, (last + whole - 1) // whole - 1))
    return 0


@part_of(SPILLS)
def _write_rest(m: KernelMemory, number: int) -> None:
    """Have a partition that spills write what it still holds."""
    sp = spill_row(m, v.partition_row(m, number))
    close_partition(m, sp)
    finish_writing(m, sp)


@part_of(THROTTLES)
def emit_throttled(m: KernelMemory, worker: KernelWorker, end: int) -> int:
    """Emit what the command in force allows of what waits; return CAPACITY or BLOCKED."""
    task = worker.task
    state = v.throttled_source(m, task.throttle)
    round_ns = m.round_us * 1000
    start_ns = m.now * round_ns
    fresh = skip_due(worker, task, end)
    log = v.source_log(m, task.log)
    if task.log > 0:
        before = log.end
        append_up_to(log, before + fresh, task.limit)
        if log.end > before:
            push_run(m, log.runs, m.now, log.end - before)
        waiting = lag(log)
    else:
        waiting = offer(state, fresh)
    most = may_emit(state, waiting, task.taken, start_ns, start_ns + round_ns)
    if task.limit >= 0:
        most = min(most, task.limit - task.taken)
    done = emit_up_to(m, worker, most)
    after_emitting(state, done, start_ns)
    if task.log > 0:
        log.position += done
    else:
        hold(state, waiting, done)
    task.due = waiting
    return CAPACITY if done == waiting and task.is_pending == 0 else BLOCKED


def emit_up_to(m: KernelMemory, worker: KernelWorker, most: int) -> int:
    """Emit so many records at the most; return how many."""
    task = worker.task
    log = v.source_log(m, task.log)
    task.emitted = m.now
    done = 0
    while write_pending(worker, task) == 1 and done < most and outputs_available(worker, task) == 1:
        together = most - done
        if task.log > 0:
            task.emitted = peek_run(m, log.runs)
            together = min(together, run_length(m, log.runs))
        count = emit_some(worker, task, together)
        if task.log > 0:
            take_run(m, log.runs, count)
        done += count
    return done


@part_of(THROTTLES)
def waits_at_source(m: KernelMemory, task: f.KernelTask) -> int:
    """Tell whether a record has fallen due at a source and is not emitted: 1 if so."""
    if task.log > 0:
        return 1 if lag(v.source_log(m, task.log)) > 0 else 0
    return v.throttled_source(m, task.throttle).waiting


@part_of(THROTTLES)
def is_empty(m: KernelMemory, now: int) -> int:
    """Tell whether all that was admitted was emitted, and all that was emitted is done: 1 if so."""
    for number in range(m.tasks):
        task = v.task_row(m, number)
        if task.kind == f.CONNECTION:
            continue
        if task.is_pending == 1 or task.queued > 0 or task.is_firing == 1:
            return 0
        if task.has_requests == 1 and is_quiet(m, task) == 0:
            return 0
        if task.throttle > 0 and task.log > 0:
            state = v.throttled_source(m, task.throttle)
            if task.taken < state.admitted and unread(v.source_log(m, task.log)) > 0:
                return 0
        if task.kind == f.SERVER or task.kind == f.READER:
            phases = rows(m, task.phases, task.phase_count, 3)
            if task.ready > work_by(phases, (now + 1) * m.round_us):
                return 0
        for i in range(task.partitions):
            p = v.partition_row(m, task.first_partition + i)
            if is_under_way(m, p) == 1:
                return 0
    return 1


def is_under_way(m: KernelMemory, p: f.KernelPartition) -> int:
    """Tell whether records of a partition were written and not taken up: 1 if so."""
    for place in range(p.channels):
        out = v.out_row(m, p.first_channel + place)
        if out.written > v.in_row(m, out.input).processed:
            return 1
    return 0
