"""What tasks note for others: reports of checkpoints, records in flight, results of windows."""

from typing import Any

from flowcontrol.kernel import views as v
from flowcontrol.kernel.ages import FIRED, note_move, run_at
from flowcontrol.kernel.requests import buffered_bytes
from flowcontrol.kernel.views import (
    coordinator_queue,
    kernel_checkpoints,
    kernel_window,
    out_row,
    report_rows,
    task_row,
    wake,
)
from flowcontrol.memory import fields as f
from flowcontrol.memory import part_fields as c
from flowcontrol.memory.cells import part_of, rows_of, state_of
from flowcontrol.memory.part_fields import (
    CUT_SLOTS,
    KeptElement,
    KeptWindow,
    KernelCheckpoints,
    KernelResult,
    KernelWindow,
)
from flowcontrol.memory.parts import CHECKPOINTS, EVENT_TIME, TCP, WINDOWS
from flowcontrol.memory.places import (
    FLAG_ASIDE,
    FLAG_KEPT,
    FLAG_KEPT_WINDOWS,
    FLAG_LOST_REPORT,
    FLAG_PROTOCOL,
    FLAG_RESULTS,
    KernelMemory,
)
from flowcontrol.protocol.checkpoints.alignment import AT_LEAST_ONCE, LIMIT_EXCEEDED
from flowcontrol.protocol.checkpoints.barriers import (
    ACKNOWLEDGED,
    COMMITS,
    TAKEN,
    WRITES,
    fill_report,
    is_past,
    notify_checkpoint_complete,
)
from flowcontrol.protocol.network.rounds import NO_INPUT, next_input
from flowcontrol.protocol.service import NEVER
from flowcontrol.protocol.tasks.checkpointing import act_on, give_up, next_timer, process_mail
from flowcontrol.protocol.tasks.committing import hear_completed
from flowcontrol.protocol.tasks.snapshots import slowed_end, stands_in_sync, syncing_us
from flowcontrol.protocol.windows.firing import find
from flowcontrol.state.declared import width
from flowcontrol.state.network import CheckpointReport
from flowcontrol.state.queues import append, next_slot
from flowcontrol.state.windows import NONE, ColumnValues, WindowEntry
from flowcontrol.systems import barrier_buffer as b

# --- Checkpoints in a round of the kernel: the coordinator's orders, mail, timers.
#
# What a task does about them is :mod:`flowcontrol.protocol.tasks.checkpointing`.


NO_ROUND = 1 << 62
"""In place of the round in which something is due: nothing is."""

order_rows = rows_of(c.KernelOrder)


@part_of(CHECKPOINTS)
def deliver_orders(m: KernelMemory) -> None:
    """Hand what the coordinator has said before the first round of a call to the tasks."""
    orders = order_rows(m, m.orders, m.orders_most)
    for i in range(m.orders_count):
        order = orders[i]
        task = task_row(m, order.task)
        held = kernel_checkpoints(m, task.checkpoints)
        if order.kind == c.SLOWED or order.kind == c.RELIEVED:
            held.own.is_slowed = 1 if order.kind == c.SLOWED else 0
            task.in_checkpoint = 1
            wake(m, order.task, order.arrives)
            continue
        if order.kind == c.COMPLETED:
            has_work = notify_checkpoint_complete(held.own, order.checkpoint, order.arrives)
            if hear_completed(held.own, order.checkpoint, order.arrives) + has_work > 0:
                task.in_checkpoint = 1
                wake(m, order.task, order.arrives)
            continue
        if order.kind == c.ABORTED and is_past(held.own, order.checkpoint) == 1:
            continue
        at = held.aborted if order.kind == c.ABORTED else held.triggers
        queue = coordinator_queue(m, at, held.messages_most)
        if queue.ends.count == held.messages_most:
            m.flags |= FLAG_PROTOCOL
            continue
        message = next_slot(queue)
        message.checkpoint = order.checkpoint
        message.created = order.created
        message.is_savepoint = order.is_savepoint
        message.arrives = order.arrives
        append(queue)
        if order.kind == c.TO_TAKE:
            task.in_checkpoint = 1
            wake(m, order.task, order.arrives)
    m.orders_count = 0


@part_of(CHECKPOINTS)
def process_checkpoint_mail(m: KernelMemory, worker: Any, work: Any) -> int:
    """Have a task act on what does not wait for its turn, before its work of a round.

    Return 1 if a snapshot then holds up a task without a server's clock.
    """
    if work.stall == NEVER:
        worker.task.in_checkpoint = 1
        process_mail(worker, worker.task, work.start, work.until)
    return stands_in_sync(worker.checkpoint_state(), worker.task, worker.now_us())


@part_of(CHECKPOINTS)
def holds_events(m: KernelMemory, p: f.KernelPartition) -> int:
    """Tell whether an event is queued in a partition: 1 if so."""
    for place in range(p.channels):
        if out_row(m, p.first_channel + place).events > 0:
            return 1
    return 0


@part_of(CHECKPOINTS)
def synced_for(m: KernelMemory, worker: Any) -> int:
    """Return for how long of the round a snapshot held up such a task, microseconds."""
    return syncing_us(worker.checkpoint_state(), worker.task, worker.now_us(), m.round_us)


@part_of(CHECKPOINTS)
def upload_slowed(m: KernelMemory, worker: Any, start: int, end: int) -> int:
    """Return the work that is allowed by the end of the round while a task's manager uploads."""
    return slowed_end(worker.checkpoint_state(), worker.task, start, end)


@part_of(CHECKPOINTS)
def plan_mail(m: KernelMemory, worker: Any) -> None:
    """Have a task looked at when a timer of it is due, a trigger arrives or a snapshot is over.

    While its task manager uploads it is looked at in every round. One that waits for none of that,
    nor for its barriers to leave, is in no checkpoint any more.
    """
    state, task, triggers, at = worker.checkpoint_state(), worker.task, worker.triggers(), NO_ROUND
    if state.is_slowed == 1:
        at = m.now + 1
    if stands_in_sync(state, task, worker.now_us()) == 1:
        task.status = f.BUSY  # until it is over
        at = min(at, state.synced_at // m.round_us)
    if state.finishes > m.now:
        at = min(at, state.finishes)
    if state.commits >= 0:
        at = min(at, state.commits)
    if state.finishes >= 0 and state.synced_at > worker.now_us():
        at = min(at, state.synced_at // m.round_us)
    timer = next_timer(worker)
    if timer >= 0:
        at = min(at, (timer + m.round_us - 1) // m.round_us)
    if triggers.ends.count > 0:
        at = min(at, triggers.slots[triggers.ends.head].arrives)
    task.in_checkpoint = state.waits_outputs
    if at < NO_ROUND:
        task.in_checkpoint = 1
        wake(m, worker.number, max(m.now + 1, at))


# --- A task that puts aside what comes behind barriers, in the kernel.
#
# The rules are those of flowcontrol.systems.barrier_buffer.


barrier_buffer = state_of(b.BarrierBuffer)
aside_disk = state_of(b.AsideDisk)
aside_entries = state_of(b.AsideEntries)
aside_messages = rows_of(b.AsideMessage)


def aside_of(m: KernelMemory, held: KernelCheckpoints) -> b.Aside:
    """Return what a task has put aside."""
    return b.Aside(
        barrier_buffer(m, held.aside),
        aside_disk(m, held.aside_disk),
        aside_entries(m, m.asides_free),
        aside_messages(m, m.asides, m.asides_most),
    )


@part_of(TCP)
def next_of_old(m: KernelMemory, worker: Any, gates: Any, union: Any) -> int:
    """Make sure that a task without credits has a record in hand, if it may have one."""
    if m.has_checkpoints == 0 or worker.held().aside == 0:
        return next_input(worker.task, gates, union)
    return next_behind_barriers(m, worker, gates, union)


@part_of(CHECKPOINTS)
def next_behind_barriers(m: KernelMemory, worker: Any, gates: Any, union: Any) -> int:
    """Make sure of it where a task puts aside what comes behind barriers."""
    task, aside = worker.task, aside_of(m, worker.held())
    while True:
        found = b.next_unblocked(
            task, gates, union, aside, worker.alignment(), worker.aligned(), m.now
        )
        if found == b.LIMIT_REACHED:
            task.in_checkpoint = 1
            give_up(worker, task, LIMIT_EXCEEDED)
            continue
        if found == b.NO_ROOM:
            m.flags |= FLAG_ASIDE
            return NO_INPUT
        if found == NO_INPUT and aside.own.loading > 0:
            wake(m, worker.number, aside.own.loaded_at)
        if aside.own.writing.head > 0:
            wake(m, worker.number, aside.entries[aside.own.writing.head - 1].round)
        return found


@part_of(TCP)
def act_on_old(m: KernelMemory, worker: Any) -> int:
    """Act on the event that such a task has polled last; return 1 if it then stands still."""
    event = barrier_buffer(m, worker.held().aside).event
    return act_on(worker, worker.task, event.kind, event.checkpoint, event.created)


@part_of(TCP)
def take_written(m: KernelMemory, worker: Any, gates: Any) -> None:
    """Recycle the buffers of what a task without credits has put aside that are written."""
    held = worker.held()
    if held.aside == 0 or barrier_buffer(m, held.aside).writing.head == 0:
        return
    after = b.recycle_written(gates, aside_of(m, held), m.now)
    if after >= 0:
        wake(m, worker.number, after)


# --- What a checkpoint holds in flight of a job with event time that may fail: a log in the
# kernel.
#
# As a task lets a barrier overtake, it logs what is in its channels; what enters one of them
# follows until the sender has its own barrier there. That may be more than the checkpoint
# holds. How much it does follows from the counts of the cuts at both ends.


kept_rows = rows_of(KeptElement)


@part_of(CHECKPOINTS)
def keep_cut(m: KernelMemory, held: KernelCheckpoints, checkpoint: int) -> None:
    """Copy the cells that a restart puts back (:mod:`flowcontrol.memory.task_memory`)."""
    at = held.cuts + checkpoint % CUT_SLOTS * (1 + held.cut_cells)
    m[at] = checkpoint
    for i in range(held.cut_cells):
        m[at + 1 + i] = m[m[held.cut_places + i]]


@part_of(EVENT_TIME)
def log_channels(m: KernelMemory, task: f.KernelTask, checkpoint: int) -> None:
    """Log what is in the channels of a task that takes a checkpoint, if barriers overtake it."""
    held = kernel_checkpoints(m, task.checkpoints)
    if held.own.mode == AT_LEAST_ONCE or held.alignment.is_unaligned == 0:
        return
    for i in range(task.gates):
        g = v.gate_row(m, task.first_gate + i)
        for channel in range(g.first_channel, g.first_channel + g.channels):
            into = v.in_row(m, channel)
            number, out = into.out, v.out_row(m, into.out)
            place = out.runs.head
            while place > 0:
                found = run_at(m, place - 1)
                log_element(m, number, checkpoint, found.count, found.stamp, found.kind)
                place = found.next
            sender = kernel_checkpoints(m, v.task_row(m, out.sender).checkpoints)
            into.recorded = checkpoint if sender.own.handled < checkpoint else 0


@part_of(EVENT_TIME)
def record_element(
    m: KernelMemory, task: f.KernelTask, number: int, count: int, stamp: int, kind: int
) -> None:
    """Log what a task puts into a recorded channel, unless its barrier is in front of it."""
    into = v.in_row(m, v.out_row(m, number).input)
    if kernel_checkpoints(m, task.checkpoints).own.handled >= into.recorded:
        into.recorded = 0
    else:
        log_element(m, number, into.recorded, count, stamp, kind)


@part_of(EVENT_TIME)
def log_element(
    m: KernelMemory, channel: int, checkpoint: int, count: int, stamp: int, kind: int
) -> None:
    """Log records of one stamp, or a mark, that a checkpoint may hold in flight."""
    number = m.kept_count
    if number == m.kept_most:
        m.flags |= FLAG_KEPT
        return
    entry = kept_rows(m, m.kept, m.kept_most)[number]
    entry.channel = channel
    entry.checkpoint = checkpoint
    entry.count = count
    entry.stamp = stamp
    entry.kind = kind
    m.kept_count = number + 1


# --- What tasks report to the coordinator: a log, which the kernel stops for where it may not
# wait


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
        entry.contents = window_bytes(m, task) + buffered_bytes(m, task)
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


@part_of(CHECKPOINTS)
def log_commit(m: KernelMemory, number: int, checkpoint: int, length: int, files: int) -> None:
    """Log that a task begins to commit; nobody waits for it."""
    if m.reports_count == m.reports_most:
        m.flags |= FLAG_LOST_REPORT
        return
    entry = _next_report(m, number, COMMITS)
    entry.checkpoint = checkpoint
    entry.records = length
    entry.contents = files
    m.reports_wanted += 1


def _next_report(m: KernelMemory, number: int, kind: int) -> CheckpointReport:
    """Return a new entry of the log, empty but for its task, its kind and the round."""
    entry = report_rows(m, m.reports, m.reports_most)[m.reports_count]
    m.reports_count += 1
    entry.task = number
    entry.kind = kind
    entry.round = m.now
    entry.checkpoint = entry.reason = entry.records = entry.contents = 0
    entry.start_delay = entry.alignment = entry.processed = entry.persisted = 0
    return entry


@part_of(WINDOWS)
def window_bytes(m: KernelMemory, task: f.KernelTask) -> int:
    """Return the size of a task's open windows, bytes; 0 of one without."""
    if task.has_window == 0:
        return 0
    held = kernel_window(m, task.window)
    return held.store.open * held.own.bytes_per_key


# --- What the kernel logs of windows: their results, and those that a checkpoint holds


kernel_result = state_of(KernelResult)
kept_window = state_of(KeptWindow)

RESULT_CELLS = width(KernelResult)
VALUES_CELLS = width(ColumnValues)
KEPT_WINDOW_CELLS = width(KeptWindow)
ENTRY_CELLS = width(WindowEntry)
ENTRY_AT = KEPT_WINDOW_CELLS - ENTRY_CELLS
"""Where the window is in an entry of the log: behind all else but its further columns."""


@part_of(WINDOWS)
def log_result(m: KernelMemory, worker: Any) -> None:
    """Log the newest result of a task."""
    number = m.results_count
    if number == m.results_most:
        m.flags |= FLAG_RESULTS
        return
    held = kernel_window(m, worker.task.window)
    store, at = held.store, m.results + number * (RESULT_CELLS + m.further * VALUES_CELLS)
    entry = kernel_result(m, at)
    entry.task = worker.number
    entry.key = store.result_key
    entry.start = store.result_start
    entry.end = store.result_end
    entry.count = store.result_count
    entry.valued = store.result_valued
    entry.sum = store.result_sum
    entry.min = store.result_min
    entry.max = store.result_max
    entry.wraps = store.result_wraps
    entry.round = m.now
    copy_further(m, held, NONE, at + RESULT_CELLS)
    m.results_count = number + 1
    note_move(m, worker.number, FIRED, worker.task.emitted, 0, worker.task.taken)


@part_of(WINDOWS)
def copy_further(m: KernelMemory, held: KernelWindow, place: int, to: int) -> None:
    """Copy what a window, or the newest result, has of further columns into a log."""
    cells = held.settings.further * VALUES_CELLS
    for i in range(cells):
        m[to + i] = m[held.further + place * cells + i]


@part_of(WINDOWS)
def log_windows(m: KernelMemory, worker: Any, checkpoint: int) -> None:
    """Log the open windows of a task that takes a checkpoint, of a job that may fail."""
    if worker.task.has_window == 0:
        return
    held, windows = kernel_window(m, worker.task.window), worker.windows()
    for place in range(1, held.store.used + 1):
        entry = windows.entries[place - 1]
        if find(windows, entry.key, entry.start) != place:
            continue  # it is free
        number = m.kept_windows_count
        if number == m.kept_windows_most:
            m.flags |= FLAG_KEPT_WINDOWS
            return
        at = m.kept_windows + number * (KEPT_WINDOW_CELLS + m.further * VALUES_CELLS)
        kept = kept_window(m, at)
        kept.task = worker.number
        kept.checkpoint = checkpoint
        for i in range(ENTRY_CELLS):
            m[at + ENTRY_AT + i] = m[held.entries + (place - 1) * ENTRY_CELLS + i]
        copy_further(m, held, place, at + KEPT_WINDOW_CELLS)
        m.kept_windows_count = number + 1
