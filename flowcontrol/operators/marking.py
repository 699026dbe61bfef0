"""How a task writes marks, and what it does about latency markers; written once, for both clocks.

A source marks the time in each interval, and the marker goes to one random channel of each output,
in order with data and past the operators' functions. Each operator takes note of how old it is,
and hands it on likewise. It waits wherever records wait, and takes no service.

Source: ``LatencyMarksEmitter``, ``RecordWriter.randomEmit``; section 6 of checkpoints-and-time.
"""

from flowcontrol.operators.output import is_between
from flowcontrol.operators.states import RecordWriter, StreamTask, Worker
from flowcontrol.protocol.event_time.marks import MARKER, mark_bytes, pending_mark
from flowcontrol.protocol.event_time.output_rules import ACTIVE, IDLE, WATERMARK
from flowcontrol.protocol.rows import fifo_push


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

    Notes
    -----
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

    Parameters
    ----------
    worker : Worker
        The subtask.
    task : StreamTask
        Its state.
    start, end : int
        Work that its rate allows by the start and by the end of the round, units.

    Notes
    -----
    The first one is due at the start of the run, the others at the multiples of the interval; one
    that is missed is left out.
    """
    time, now = worker.task_time(), worker.now_us()
    if time.next_marker < 0 or time.next_marker > now or is_between(worker, task, start, end) == 0:
        return
    time.next_marker = now - now % time.marker_interval + time.marker_interval
    pass_marker(worker, task, now)


def pass_marker(worker: Worker, task: StreamTask, marked_us: int) -> None:
    """Take note of a marker, and write it to one random channel of each output.

    Notes
    -----
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
