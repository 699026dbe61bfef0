"""A task's outputs: its operators make of the records taken up what they do, and that is written.

What finds no buffer is pending (``StreamTask.is_pending``), and blocks the task. It looks at its
mailbox between two records (:func:`is_between`).
"""

from flowcontrol.protocol.event_time.watermarks import (
    bytes_of_mark,
    channel_of_mark,
    is_pending_mark,
)
from flowcontrol.protocol.network.rounds import stays_blocked
from flowcontrol.protocol.tasks.operators import on_records
from flowcontrol.state.rows import FIFO_COUNT, FIFO_HEAD, FIFO_SLOTS, fifo_pop, fifo_push
from flowcontrol.state.tasks import READER, SERVER, TASK_INPUT, StreamTask, Worker


def outputs_available(worker: Worker, task: StreamTask) -> int:
    """Tell whether a task may begin another record, as far as its outputs go: 1 if so."""
    for i in range(task.partitions):
        if worker.is_available(worker.writer(i)) == 0:
            return 0
    return 1


def run_operators(worker: Worker, task: StreamTask) -> None:
    """Have every operator take what its input has put out, senders before receivers."""
    for i in range(task.operators):
        operator = worker.operator(i)
        records_in = put_out_by(worker, task, operator.input)
        fresh = records_in - operator.records_in
        if fresh > 0:
            operator.records_in = records_in
            count = on_records(operator, fresh)
            operator.records_out += count
            worker.note_put_out(i, count)


def put_out_by(worker: Worker, task: StreamTask, operator: int) -> int:
    """Records that an operator has put out, or that the task has taken up (TASK_INPUT)."""
    return task.taken if operator == TASK_INPUT else worker.operator(operator).records_out


def put_out(worker: Worker, task: StreamTask, may_write: int) -> None:
    """Route all that the records taken up yield; write it now, or leave it pending."""
    run_operators(worker, task)
    for i in range(task.partitions):
        writer = worker.writer(i)
        due = put_out_by(worker, task, writer.operator)
        while writer.emitted < due:
            channel = worker.next_channel(writer)
            writer.emitted += 1
            worker.note_routed(writer, channel, 1)
            if may_write == 1:
                writer.left_bytes = worker.write(writer, channel, writer.record_bytes)
                if writer.left_bytes == 0:
                    continue
                may_write = 0
            fifo_push(worker.pending(writer), channel)
            task.is_pending = 1


def write_pending(worker: Worker, task: StreamTask) -> int:
    """Write what is pending, a partition after the other; 0 if the task is blocked in it."""
    if task.is_pending == 0:
        return 1
    for i in range(task.partitions):
        writer = worker.writer(i)
        pending = worker.pending(writer)
        while pending[FIFO_COUNT] > 0:
            if stays_blocked(writer.pool, writer.left_bytes) == 1:
                return 0
            channel = pending[FIFO_SLOTS + pending[FIFO_HEAD]]
            if task.is_timed == 1 and is_pending_mark(channel) == 1:
                nbytes = writer.left_bytes if writer.left_bytes > 0 else bytes_of_mark(channel)
                writer.left_bytes = worker.write_mark(writer, channel_of_mark(channel), nbytes)
            else:
                nbytes = writer.left_bytes if writer.left_bytes > 0 else writer.record_bytes
                writer.left_bytes = worker.write(writer, channel, nbytes)
            if writer.left_bytes > 0:
                return 0
            fifo_pop(pending)
    task.is_pending = 0
    return 1


def is_between(worker: Worker, task: StreamTask, start: int, end: int) -> int:
    """Tell whether a task is between two records at some moment of a round: 1 if so.

    It writes what is pending, which is the first thing that a round does in any case. A task that
    waits inside a record for a buffer is not, nor is one whose record is not done by the end.

    ``start``, ``end``: work that its rate allows by the start and by the end of the round, units.
    """
    is_rated = 1 if task.kind == SERVER or task.kind == READER else 0
    if is_rated == 1 and task.is_pending == 1 and task.ready > end:
        return 0
    if write_pending(worker, task) == 0:
        return 0
    return 0 if is_rated == 1 and max(task.ready, start) >= end else 1
