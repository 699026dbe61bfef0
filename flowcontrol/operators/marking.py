"""How a task writes marks, and what it does about latency markers; written once, for both clocks.

A source marks the time in each interval, and the marker goes to one random channel of each output,
in order with data and past the operators' functions. Each operator takes note of how old it is,
and hands it on likewise. It waits wherever records wait, and takes no service.

Source: ``LatencyMarksEmitter``, ``RecordWriter.randomEmit``; section 6 of checkpoints-and-time.
"""

from flowcontrol.operators.states import StreamTask
from flowcontrol.operators.task import is_between
from flowcontrol.operators.timed_worker import TimedWorker
from flowcontrol.operators.worker import W
from flowcontrol.protocol.event_time.marks import MARKER, mark_bytes, pending_mark
from flowcontrol.protocol.rows import fifo_push


def write_mark(
    worker: TimedWorker[W], task: StreamTask, writer: W, channel: int, kind: int, value: int
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


def look_at_marker(worker: TimedWorker[W], task: StreamTask, start: int, end: int) -> None:
    """Have a source mark the time if that is due, and the task between two records.

    Parameters
    ----------
    worker : TimedWorker
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
    time, now = worker.task_time(), worker.run_us()
    if time.next_marker < 0 or time.next_marker > now or is_between(worker, task, start, end) == 0:
        return
    time.next_marker = now - now % time.marker_interval + time.marker_interval
    pass_marker(worker, task, now)


def pass_marker(worker: TimedWorker[W], task: StreamTask, marked_us: int) -> None:
    """Take note of a marker, and write it to one random channel of each output.

    Notes
    -----
    The channels of a broadcast share their buffers, so there it goes to all of them; Flink's writer
    closes the buffer for it, and writes it into one of its own.
    """
    worker.hear_marker(marked_us)
    time = worker.task_time()
    for i in range(task.partitions):
        writer = worker.writer(i)
        drawn = worker.draw_bits(time.marker_stream, time.markers)
        time.markers += 1
        channel = drawn % worker.written_apart(writer)
        write_mark(worker, task, writer, channel, MARKER, marked_us)
