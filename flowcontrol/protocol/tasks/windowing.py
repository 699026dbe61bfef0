"""Watermarks and markers that a task passes on, and the windows that they fire.

A record taken up is an element. What fires is put out like a record, one result at a time while
outputs are available: between two results the task is in the middle of a *burst*
(``StreamTask.is_firing``), in which it takes up nothing else, and is blocked as in the middle of
any record. When nothing due is left, what has caused the burst is passed on.

Spark's windows take records up all the same, and nothing fires before the batch ends: then its
driver begins the answer (:mod:`flowcontrol.control.sources`), which goes out as a burst too.
"""

from flowcontrol.protocol.event_time import (
    ACTIVE,
    IDLE,
    MARKER,
    WATERMARK,
    id_of,
    mark_bytes,
    pending_mark,
    stamp_of,
    time_of,
)
from flowcontrol.protocol.tasks.operators import (
    is_between,
    outputs_available,
    put_out,
    write_pending,
)
from flowcontrol.protocol.windows import firing
from flowcontrol.protocol.windows.contents import NO_VALUE, id_of_key, key_by_table
from flowcontrol.protocol.windows.spark_batches import next_answer, take_row
from flowcontrol.state.rows import fifo_push
from flowcontrol.state.tasks import RecordWriter, StreamTask, Worker

# --- How a task writes marks, and what it does about latency markers; written once, for both
# clocks.
#
# A source marks the time in each interval, and the marker goes to one random channel of each
# output, in order with data and past the operators' functions. Each operator takes note of
# how old it is, and hands it on likewise. It waits wherever records wait, and takes no
# service.
#
# Source: `LatencyMarksEmitter`, `RecordWriter.randomEmit`; section 6 of checkpoints-and-time.


def write_mark(
    worker: Worker, task: StreamTask, writer: RecordWriter, channel: int, kind: int, value: int
) -> None:
    """Write a mark to a channel, or leave it pending if there is no buffer, or others are pending.

    What is pending is so in every output, so nothing overtakes it.
    """
    worker.note_mark(writer, channel, kind, value)
    if task.is_pending == 0:
        writer.left_bytes = worker.write_mark(writer, channel, mark_bytes(kind))
        if writer.left_bytes == 0:
            return
    fifo_push(worker.pending(writer), pending_mark(channel, kind))
    task.is_pending = 1


def emit_marks(worker: Worker, task: StreamTask, done: int, watermark: int) -> None:
    """Write to all outputs what the bits stand for that a rule has returned, in their order."""
    if done & ACTIVE:
        _broadcast(worker, task, ACTIVE, 0)
    if done & WATERMARK:
        _broadcast(worker, task, WATERMARK, watermark)
    if done & IDLE:
        _broadcast(worker, task, IDLE, 0)


def _broadcast(worker: Worker, task: StreamTask, kind: int, watermark: int) -> None:
    """Write a mark to every channel, or leave it pending where there is no buffer for it.

    ``RecordWriter.broadcastEmit`` of one output after the other: what blocks in one channel has not
    been written to those behind it.
    """
    worker.task_time().marks += 1
    for i in range(task.partitions):
        writer = worker.writer(i)
        for channel in range(worker.written_apart(writer)):
            write_mark(worker, task, writer, channel, kind, watermark)


def emit_latency_marker(worker: Worker, task: StreamTask, start: int, end: int) -> None:
    """Have a source mark the time if that is due, and the task between two records.

    The first one is due at the start of the run, the others at the multiples of the interval; one
    that is missed is left out.

    ``start``, ``end``: work that its rate allows by the start and by the end of the round, units.
    """
    time, now = worker.task_time(), worker.now_us()
    if time.next_marker < 0 or time.next_marker > now or is_between(worker, task, start, end) == 0:
        return
    time.next_marker = now - now % time.marker_interval + time.marker_interval
    pass_marker(worker, task, now)


def pass_marker(worker: Worker, task: StreamTask, marked_us: int) -> None:
    """Take note of a marker, and write it to one random channel of each output.

    The channels of a broadcast share their buffers, so there it goes to all of them; Flink's writer
    closes the buffer for it, and writes it into one of its own.
    """
    worker.report_latency(marked_us)
    time = worker.task_time()
    for i in range(task.partitions):
        writer = worker.writer(i)
        drawn = worker.draw_bits(time.marker_stream, time.markers)
        time.markers += 1
        channel = drawn % worker.written_apart(writer)
        write_mark(worker, task, writer, channel, MARKER, marked_us)


# --- What a task does about its windows in a round; written once, for both clocks.


MS = 1000
"""Microseconds of a millisecond."""


def take_element(worker: Worker, task: StreamTask, may_write: int) -> None:
    """Put the record that has been taken up into its windows; put out the first result of it.

    ``may_write``: 1: what the record causes can be written now; 0: it is pending until the record
    is done.
    """
    windows, held, number = worker.windows(), worker.window_task(), id_of(task.stamp)
    gate, values = task.gate, worker.values_of_ids()
    firsts, guide, numbers = worker.first_ids(gate), worker.guide(gate), worker.keys_of_ids(gate)
    key = key_by_table(number, held.keys, firsts, guide, numbers)
    value = values[number] if len(values) > 0 else 1
    windows.store.element_id = number
    if held.batch.is_batched == 1:
        take_into_batch(worker, task, key, value)
        return
    now = worker.now_us() // MS
    while firing.on_element(windows, key, time_of(task.stamp), value, now) == firing.FULL:
        if make_room(worker) == 0:
            return
        windows = worker.windows()
    if value == NO_VALUE:
        windows.store.element_has_value = 0
    fire_next(worker, task, may_write)


def take_into_batch(worker: Worker, task: StreamTask, key: int, value: int) -> None:
    """Put the record that has been taken up into the groups of the batch; nothing comes of it."""
    windows, batch = worker.windows(), worker.window_task().batch
    operators, ms = worker.watermark_operators(), time_of(task.stamp)
    while take_row(windows, batch, operators, task.gate, key, ms, value) == firing.FULL:
        if make_room(worker) == 0:
            return
        windows = worker.windows()


def make_room(worker: Worker) -> int:
    """Act on windows for which there is no room: 1 if there is now, 0 if the run begins again."""
    before = len(worker.windows().entries)
    worker.make_room()
    return 1 if len(worker.windows().entries) > before else 0


def fire_next(worker: Worker, task: StreamTask, may_write: int) -> int:
    """Go on with a burst: put one result out, or pass on what has caused it; 0: it is over."""
    windows, held = worker.windows(), worker.window_task()
    is_batched = held.batch.is_batched
    found = next_answer(windows, held.batch) if is_batched == 1 else firing.next_result(windows)
    if found == 1:
        store = windows.store
        firsts, numbers = worker.first_ids(0), worker.keys_of_ids(0)
        number = id_of_key(store.result_key, held.keys, firsts, numbers)
        task.stamp = stamp_of(store.result_ms, number)
        operator = worker.operator(0)
        operator.records_out += 1
        worker.note_put_out(0, 1)
        worker.note_result()
        task.is_firing = 1 if windows.store.phase != firing.RESTING or held.to_give > 0 else 0
        put_out(worker, task, may_write)
        return 1
    done, held.to_give, task.is_firing, task.yields = held.to_give, 0, 0, 0
    if done == 0:
        return 0
    emit_marks(worker, task, done, worker.task_time().valve.watermark)
    return 1


def end_burst(worker: Worker, task: StreamTask) -> int:
    """Go on with a burst of results as far as the outputs allow: 1 if none is under way then.

    Of a task whose rate allows that, it is the first thing that a round does in any case. A burst
    that yields is left alone, as soon as the result in hand finds room.
    """
    if task.is_firing == 0:
        return 1
    while task.is_firing == 1:
        if write_pending(worker, task) == 0 or outputs_available(worker, task) == 0:
            return 0
        if task.yields == 1:
            return 1
        fire_next(worker, task, 1)
    return write_pending(worker, task)


def process_watermark(worker: Worker, task: StreamTask, done: int) -> None:
    """Take what the valve has given out: a watermark goes on when all that is due has fired.

    ``AbstractStreamOperator.processWatermark``: timers first, then the output. An ACTIVE comes
    before its watermark and does not wait. With interruptible timers
    (``MailboxWatermarkProcessor``) mail comes between two timers of event time; those of the clock
    and an element that fires (``InternalTimerServiceImpl.onProcessingTime``) are not interrupted.
    """
    time, held = worker.task_time(), worker.window_task()
    if done & ACTIVE:
        emit_marks(worker, task, ACTIVE, 0)
    rest = done & ~ACTIVE
    if done & WATERMARK and firing.on_watermark(worker.windows(), time.valve.watermark) == 1:
        held.to_give, task.is_firing, task.yields = rest, 1, held.yields
    elif rest > 0:
        emit_marks(worker, task, rest, time.valve.watermark)


def on_processing_time(worker: Worker, task: StreamTask, start: int, end: int) -> None:
    """Begin a burst if timers of processing time are due, and the task between two records.

    Processing time is the start of the round. Timers that are due when a task ends do not fire
    (``StreamTask.endData`` quiesces the timer service).

    ``start``, ``end``: work that its rate allows by the start and by the end of the round, units.
    """
    now = worker.now_us() // MS
    if task.is_firing == 1 or task.open_inputs == 0 or next_timer_ms(worker) > now:
        return
    if is_between(worker, task, start, end) == 1:
        task.is_firing = firing.on_clock(worker.windows(), now)


NEVER_MS = 1 << 62
"""In place of the time of a timer: there is none."""


def next_timer_ms(worker: Worker) -> int:
    """Return when the next timer of processing time is due, ms; NEVER_MS: there is none."""
    windows = worker.windows()
    heap = windows.clock_heap
    if worker.window_task().batch.is_batched == 1:  # it holds what the batch has changed
        return NEVER_MS
    return NEVER_MS if heap[0] == 0 else windows.entries[heap[1] - 1].clock_due


def waits_for_batches(worker: Worker, task: StreamTask) -> int:
    """Tell whether a task may not end yet, as batches have to answer what it took up: 1 if so."""
    batch = worker.window_task().batch
    if batch.is_batched == 0 or (batch.is_over == 1 and task.is_firing == 0):
        return 0
    return 1
