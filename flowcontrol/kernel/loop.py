"""The rounds: which tasks have something to do, and what each does, phase by phase.

**Theory of operation.** A round is a stretch of time, some milliseconds. What a task does in it to
another one (a message, a credit, a buffer that is let go of) reaches that one in the next round at
the earliest: it stands on the wire, or a cursor moves that the other reads a round later. So the
order of tasks within a round does not matter, a round may run in several processes, each with some
of the tasks (:mod:`flowcontrol.live`), and a task with nothing to do sleeps: the wheel
(:mod:`.views`) has the tasks of each round, and a round without any costs nothing.

:func:`_advance` goes from round to round. Each is two passes over its tasks, and one over what they
share:

1. :func:`run_tasks` has *every* task take in what has reached it, before any of them works:

   - ``settle`` counts the rounds that it slept as what it was found to be last (idle, busy ...);
   - ``receive_all`` puts messages from the wire into the queues of its input channels
     (``RemoteInputChannel.onBuffer``); barriers that overtake go to the mailbox besides;
   - ``read_credits`` reads what its receivers have announced (``addCredit``,
     ``notifyNewBufferSize``, ``resumeConsumption``), and takes back what local ones have recycled.

   None of it works. It is a pass of its own as a local channel reads its sender's counters: these
   must be those of the round before for all.

2. Then each task works, in :func:`step`. A phase may change the task itself, its gates and its
   partitions. What is another's it may only wake, or put something on the wire for.

   1. ``allow_work`` says how much: what its rate allows from the start to the end of the round,
      less while it waits for a processor or while its task manager uploads. Emissions that fell
      due while a source was blocked are dropped here, before a snapshot puts any off.
   2. ``process_mail`` is the mailbox of a ``StreamTask``: barriers that overtake, triggers, and
      timers, if the task is between two records. It comes before the input since Flink looks at
      the mailbox before each record.
   3. ``process_input`` is ``StreamTask.processInput``: take records up, run the operators, write
      to result partitions, until the rate, the input or an output stops it. It says which. Events
      are polled in their turn, buffers are recycled as soon as their last record is read.
   4. ``account_time`` shares the round out over busy, idle and back-pressured: by what stopped the
      task and whether its outputs are available now, so before buffers leave again. Then what a
      task was not allowed to do is lost (``lose_work``), and gates measure their throughput.
   5. ``finish_when_over`` closes the outputs of a task whose inputs have ended: behind all that it
      has written, before the last of it is sent.
   6. ``flush_outputs`` is the ``OutputFlusher``: it makes what was written available, though its
      buffer is not full, so it comes before sending.
   7. ``send`` puts on the wire what credit allows (``PartitionRequestQueue``), and returns the
      segments of sent buffers to the pool. A barrier that has left may complete a checkpoint.
   8. ``announce_all`` (``grant_all`` where records are counted) announces the credit that its
      channels have gained from recycled buffers (``notifyCreditAvailable``). It comes last, as
      any phase before may recycle one.
   9. ``plan`` puts the task on the wheel again: it reads what the round has left and decides when
      the task could do something by itself, and what the rounds until then count as. Whoever
      sends it anything wakes it besides. It may be early at no price but time, and never late.

3. :func:`serve_machines` is about what tasks share: connections and disks give each waiting channel
   its turn, pools without a segment get what others gave back, processors are shared out. It comes
   behind all tasks, for it depends on what each of them wants.

The kernel stops, with a flag, where somebody outside must look (:mod:`flowcontrol.memory.places`):
a log is half full, the coordinator has news, a throttle waits until the job is empty. Then all
tasks, asleep or not, are brought to that round (:func:`settle_until`), as a sample reads them all.
"""

from functools import cache
from typing import Any

import numpy as np

from flowcontrol.kernel import reports as b
from flowcontrol.kernel import views as v
from flowcontrol.kernel.compiled import best_parts, compile_entry
from flowcontrol.kernel.credits import announce_all, grant_all, read_credits
from flowcontrol.kernel.debloat import debloat_gates, note_waiting
from flowcontrol.kernel.disk import note_disk, serve_disk
from flowcontrol.kernel.ending import (
    emit_throttled,
    fill_log,
    finish_when_over,
    is_empty,
    lose_arrivals,
)
from flowcontrol.kernel.jobs import in_order, serve_waiting
from flowcontrol.kernel.machines import carry, claim, share_round, transmit, waits_for, work_until
from flowcontrol.kernel.messages import close, receive_all, send, serve_now
from flowcontrol.kernel.planning import RoundWork, is_nothing_queued, note_pause, plan, round_work
from flowcontrol.kernel.reading import append_until, read
from flowcontrol.kernel.reports import take_written
from flowcontrol.kernel.requests import answer_requests, note_waited
from flowcontrol.kernel.spilling import note_memory, note_waits, send_spilled
from flowcontrol.kernel.task import KernelWorker, worker_of
from flowcontrol.kernel.views import collect, next_round, wake_at
from flowcontrol.kernel.writing import flush_counted
from flowcontrol.memory import fields as f
from flowcontrol.memory import places as h
from flowcontrol.memory.cells import part_of, row, rows
from flowcontrol.memory.parts import EVENT_TIME, EVERYTHING, THROTTLES
from flowcontrol.protocol.network.rounds import flush
from flowcontrol.protocol.service import NEVER, flush_ticks, next_flush_us, stands_still, work_by
from flowcontrol.protocol.tasks.checkpointing import after_sending, note_writing
from flowcontrol.protocol.tasks.event_time import probe_generator
from flowcontrol.protocol.tasks.operators import outputs_available
from flowcontrol.protocol.tasks.snapshots import lose_work
from flowcontrol.protocol.tasks.task import CAPACITY, WAITING, account, emit, let_pass, serve
from flowcontrol.protocol.tasks.windowing import emit_latency_marker, on_processing_time
from flowcontrol.state.declared import cell
from flowcontrol.state.rows import Row

PARTS = EVERYTHING
"""What of the kernel is there; a compiled one finds its own parts here."""


def _advance(memory: Any, end: int) -> int:
    """Run the rounds up to ``end``, or until a flag is raised; return the flags.

    After FLAG_DRAIN, and when the log is empty, it goes on where it was.
    """
    m = v.whole(memory, PARTS)
    if m.parts & ~PARTS != 0:
        m.flags |= h.FLAG_PARTS
        return m.flags
    if m.has_checkpoints == 1:
        b.deliver_orders(m)
    now = next_round(m, m.round, end)
    while now < end:
        run_round(m, now)
        if m.flags != 0:
            return m.flags
        note_news(m)
        if m.flags != 0:
            end = now + 1  # all is accounted for, as this may be a sample's last round
            break
        if is_half_full(m) == 1:
            m.round = now + 1
            return h.FLAG_DRAIN
        now = next_round(m, now + 1, end)
    m.round = end
    m.now = end - 1
    if m.parts & THROTTLES != 0:
        m.is_empty = is_empty(m, m.now)
    for i in range(m.tasks):
        settle_until(m, i, end)
    return m.flags


def run_round(m: h.KernelMemory, now: int) -> None:
    """Do a round of all tasks that have work in it, then of connections and processors."""
    m.now = now
    count = collect(m, now)
    active = row(m, m.active, 2 * m.tasks)
    if m.is_ordered == 1:
        in_order(m, active, count)
    run_tasks(m, active, count)
    serve_machines(m, active, count)


def note_news(m: h.KernelMemory) -> None:
    """Raise the flags of what somebody outside must look at: reports, a job that is empty."""
    if m.is_watched == 1 and is_empty(m, m.now) == 1:
        m.flags |= h.FLAG_EMPTY
    if m.has_checkpoints == 1 and has_news(m) == 1:
        m.flags |= h.FLAG_REPORTS


def has_news(m: h.KernelMemory) -> int:
    """Tell whether the coordinator has to look at the log of reports now: 1 if so."""
    if m.reports_count > m.reports_wanted or 2 * m.reports_count > m.reports_most:
        return 1
    return 0


def is_half_full(m: h.KernelMemory) -> int:
    """Tell whether a log that is emptied on the way is half full: 1 if so."""
    if 2 * m.ages_count > m.ages_most or 2 * m.results_count > m.results_most:
        return 1
    if 2 * m.kept_count > m.kept_most or 2 * m.kept_windows_count > m.kept_windows_most:
        return 1
    return 0


def run_tasks(m: h.KernelMemory, active: Row, count: int) -> None:
    """Have tasks take in what has reached them, and then each do its round."""
    for i in range(count):
        task = v.task_row(m, active[i])
        if task.kind == f.CONNECTION or task.kind == f.DISK:
            serve_now(m, active[i])
        elif m.may_fail == 1 and task.status == f.ABSENT:
            lose_arrivals(m, task)
        else:
            settle(m, task, m.now)
            receive_all(m, task)
            read_credits(m, task)
            if m.debloat_us > 0:
                note_waiting(m, task)
            if task.kinds > 0:
                note_disk(m, task)
    for i in range(count):
        task = v.task_row(m, active[i])
        if task.kind == f.CONNECTION or task.kind == f.DISK:
            continue
        if m.may_fail == 1 and task.status == f.ABSENT:
            continue
        step(m, active[i])


def serve_machines(m: h.KernelMemory, active: Row, count: int) -> None:
    """Have what tasks share do its round, behind those that were active: connections, disks, ...

    ``active``: the tasks; behind all tasks, what is to be served.
    """
    if m.is_ordered == 1:
        in_order(m, row(m, m.active + m.tasks, m.tasks), m.served)
    for i in range(m.served):
        number = active[m.tasks + i]
        if v.task_row(m, number).kind == f.DISK:
            serve_disk(m, number)
        elif m.is_tcp == 1:
            carry(m, number)
        else:
            transmit(m, number)
    m.served = 0
    if m.is_shared == 1:
        serve_waiting(m)
    if m.has_processors == 1:
        share_round(m, active, count)


# ---- rounds slept through


def settle(m: h.KernelMemory, task: f.KernelTask, now: int) -> None:
    """Account for the rounds before ``now`` in which a task slept, as what it was found to be."""
    slept_us = (now - task.last - 1) * m.round_us
    if slept_us <= 0:
        return
    if task.status == f.IDLE:
        task.idle += slept_us
        if task.is_aligned == 1:
            note_pause(m, task, slept_us)
    elif task.status == f.BUSY:
        task.busy += slept_us
        if task.has_requests == 1:
            note_waited(m, task, slept_us)
    elif task.status == f.BLOCKED:
        task.blocked += slept_us
    else:
        task.absent += slept_us
    task.last = now - 1


def settle_until(m: h.KernelMemory, number: int, end: int) -> None:
    """Bring a task to the beginning of a round, asleep or not; what it slept through is lost work.

    As when a round finds it asleep.
    """
    task = v.task_row(m, number)
    has_slept = end - task.last > 1
    settle(m, task, end)
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
        return
    is_over = task.taken == task.limit or task.open_inputs == 0
    if is_over and not has_slept:
        return
    if not is_over and task.is_pending == 0:
        start = work_by(phases, end * m.round_us)
    let_pass(worker_of(m, number, task), task, start)


# ---- the phases of a task's round


def step(m: h.KernelMemory, number: int) -> None:
    """Do a task's round, after it has taken in what has reached it."""
    task = v.task_row(m, number)
    worker = worker_of(m, number, task)
    task.last = m.now
    task.has_sent = 0
    taken, busy = task.taken, task.busy
    if m.is_tcp == 1 and m.has_checkpoints == 1:
        take_written(m, worker, v.gates_of(m, task.first_gate))
    work = allow_work(m, worker)
    is_held = process_mail(m, worker, work)
    reason = process_input(m, worker, work, is_held)
    account_time(m, worker, work, task.taken - taken, reason)
    if m.has_checkpoints == 1 and m.has_looks == 1 and task.taken > taken:
        note_writing(worker, task, taken)
    if work.until < work.end:
        lose_work(task, work.until, work.end)
    if m.debloat_us > 0:
        debloat_gates(m, worker, task.taken - taken, task.busy - busy)
    if task.is_finished == 0 and (task.open_inputs == 0 or task.may_end == 1):
        finish_when_over(m, worker)
    if task.kinds > 0:
        note_memory(m, task)
    flush_outputs(m, task)
    send_outputs(m, worker)
    if m.counts_records == 1:
        grant_all(m, number, task)
    else:
        announce_all(m, task)
    plan(m, worker, work.end, reason)
    if task.kinds > 0:
        note_waits(m, task)


def allow_work(m: h.KernelMemory, worker: KernelWorker) -> RoundWork:
    """Return the work that a task may do in the round; what a source was blocked in is lost."""
    task, start, end = worker.task, 0, 0
    start_us = m.now * m.round_us
    if task.kind != f.RELAY:
        phases = worker.service_phases()
        start = work_by(phases, start_us)
        end = work_by(phases, start_us + m.round_us)
    stall = NEVER
    if task.stall_count > 0:
        stall = stands_still(rows(m, task.stalls, task.stall_count, 2), start_us)
    if task.kind == f.SOURCE:
        let_pass(worker, task, start)
    until = end
    if m.has_processors == 1 and task.processor > 0:
        until = work_until(m, task, start, end)
    if m.has_checkpoints == 1 and task.in_checkpoint + task.mail > 0:
        until = b.upload_slowed(m, worker, start, until)
    return round_work(start, until, end, stall)


def process_mail(m: h.KernelMemory, worker: KernelWorker, work: RoundWork) -> int:
    """Act on what does not wait for its turn; return 1 if a snapshot then holds the task up."""
    task, is_held = worker.task, 0
    if task.has_requests == 1:
        answer_requests(m, worker, work.start, work.until)
    if m.has_checkpoints == 1 and task.in_checkpoint + task.mail > 0:
        is_held = b.process_checkpoint_mail(m, worker, work)
    if task.is_timed == 1 and is_held == 0:
        fire_timers(m, worker, work)
    return is_held


@part_of(EVENT_TIME)
def fire_timers(m: h.KernelMemory, worker: KernelWorker, work: RoundWork) -> None:
    """Have a source probe its generator and mark the time, and windows fire by the clock."""
    task = worker.task
    probe_generator(worker, task, work.start, work.until)
    if task.has_markers == 1:
        emit_latency_marker(worker, task, work.start, work.until)
    if task.has_window == 1 and work.stall == NEVER:
        on_processing_time(worker, task, work.start, work.until)


def process_input(m: h.KernelMemory, worker: KernelWorker, work: RoundWork, is_held: int) -> int:
    """Emit, or take records up and write what they yield; return why the task stopped."""
    task = worker.task
    if task.kind == f.SOURCE:
        if task.throttle > 0:
            return emit_throttled(m, worker, work.until)
        task.emitted = m.now
        return emit(worker, task, work.until)
    if m.has_readers == 1 and task.kind == f.READER:
        task.ready = max(task.ready, work.start)
        return read(m, worker, work.until)
    if work.stall != NEVER:
        wake_at(m, worker.number, work.stall + m.round_us)
        return CAPACITY
    if is_held == 1:
        return CAPACITY
    task.ready = max(task.ready, work.start)
    gates, union = v.gates_of(m, task.first_gate), v.union_of(m, task)
    return serve(worker, task, gates, union, work.until)


def account_time(
    m: h.KernelMemory, worker: KernelWorker, work: RoundWork, done: int, reason: int
) -> None:
    """Share the round out over busy, idle and back-pressured, and note what of it was a pause.

    A task that waits for a processor is busy.
    """
    task, waits = worker.task, 0
    idle, syncing, available = task.idle, 0, outputs_available(worker, task)
    if m.has_checkpoints == 1 and task.in_checkpoint == 1:
        syncing = b.synced_for(m, worker)
    if m.has_processors == 1 and task.processor > 0:
        waits = waits_for(m, task, work.start, work.end)
        task.busy += waits
        syncing = min(syncing, m.round_us - waits)
    blocked = task.blocked
    whole_us = m.round_us - waits
    account(task, whole_us, work.start, work.until, done, reason, available, syncing)
    if m.has_processors == 1 and task.processor > 0:
        claim(m, worker, work, task.blocked - blocked)
    if reason == WAITING:
        note_waited(m, task, m.round_us)
    if task.is_aligned == 1:
        note_pause(m, task, task.idle - idle)


def flush_outputs(m: h.KernelMemory, task: f.KernelTask) -> None:
    """Let the flushers run whose time has come."""
    interval, start_us = m.flush_us, m.now * m.round_us
    end_us = start_us + m.round_us
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
                    if m.counts_records == 1:
                        flush_counted(m, partition, place, p.record_bytes)
                    elif m.is_tcp == 1:
                        close(m, partition, place)
                    else:
                        flush(partition, place)
                    v.set_bit(m, p.dirty, place)
        if interval > 0:
            p.flush_at = next_flush_us(end_us, interval, p.flush_phase)


def send_outputs(m: h.KernelMemory, worker: KernelWorker) -> None:
    """Send what credit and the disk allow; a barrier that has left may complete a checkpoint."""
    task = worker.task
    send(m, task)
    if task.kinds > 0:
        send_spilled(m, task)
    if m.has_checkpoints == 1 and task.in_checkpoint == 1:
        after_sending(worker, task)


# ---- the entry


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

    ``memory``: of a run, as :func:`flowcontrol.memory.fill.fill` returns it.
    """
    return int(kernel_with(int(memory[cell(h.KernelMemory, "parts")]))(memory, end))
