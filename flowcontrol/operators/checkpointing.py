"""What a task does about checkpoints in a round; written once, for both clocks.

A trigger, an event that overtook and a timer are looked at when the task is between two records
(Flink's mailbox), an event that waits for its turn when it is polled. A checkpoint is taken in
Flink's order: the barrier goes to all outputs, then the state is taken, then it is acknowledged,
once the last barrier is in (unaligned) and the outputs have let theirs go (timeoutable).
"""

from collections.abc import Sequence
from typing import Protocol

from flowcontrol.operators.states import READER, SERVER, StreamTask
from flowcontrol.operators.task import write_pending
from flowcontrol.operators.worker import W, Worker
from flowcontrol.protocol.checkpoints import alignment as a
from flowcontrol.protocol.checkpoints import barriers as b
from flowcontrol.protocol.checkpoints import tracker
from flowcontrol.protocol.events import (
    broadcast_event,
    holds_barrier,
    overtake_partition,
    polled_event,
    take_event,
)
from flowcontrol.protocol.queues import (
    CANCEL_MARKER,
    END_OF_PARTITION,
    SAVEPOINT_BARRIER,
    TIMEOUTABLE_BARRIER,
    UNALIGNED_BARRIER,
    Queue,
    bytes_before,
    drop,
    find_kind,
    message_at,
)
from flowcontrol.protocol.rows import Row
from flowcontrol.protocol.sides import Gate, Partition
from flowcontrol.protocol.states import (
    Alignment,
    CoordinatorMessage,
    TaskCheckpoint,
    TrackedCheckpoint,
)


class CheckpointWorker(Worker[W], Protocol[W]):
    """A subtask of a job with checkpoints; times are microseconds of the run."""

    def checkpoint(self) -> TaskCheckpoint:
        """Return what the task knows of checkpoints."""

    def alignment(self) -> Alignment:
        """Return its alignment."""

    def aligned(self) -> a.Channels:
        """Return the channels of that, those of all gates in order."""

    def tracked(self) -> Queue[TrackedCheckpoint]:
        """Return the checkpoints that an at-least-once task counts."""

    def triggers(self) -> Queue[CoordinatorMessage]:
        """Return the checkpoints that a source has been asked for, oldest first."""

    def aborted(self) -> Queue[CoordinatorMessage]:
        """Return the checkpoints that the coordinator has aborted, oldest first."""

    def gate_count(self) -> int:
        """Return how many gates it has."""

    def gates(self) -> Sequence[Gate]:
        """Return its gates."""

    def gate_record_bytes(self, number: int) -> int:
        """Return the size of a gate's records, bytes."""

    def union(self) -> Row:
        """Return its queue of gates with data."""

    def partition(self, number: int) -> Partition:
        """Return a result partition, into which an event is going to be put."""

    def is_forced(self, number: int) -> int:
        """Tell whether a partition's receivers align whatever the mode is: 1 if so."""

    def round_number(self) -> int:
        """Return the round."""

    def now_us(self) -> int:
        """Return the start of the round."""

    def snapshot(self, checkpoint: int) -> None:
        """Take the state: what the synchronous part of a snapshot does."""

    def report(self, kind: int, checkpoint: int, reason: int) -> None:
        """Tell the coordinator what has become of a checkpoint, with what was measured."""


# ---- when


def look_at_mail(worker: CheckpointWorker[W], task: StreamTask, start: int, end: int) -> None:
    """Act on what has arrived and does not wait for its turn, if the task is between two records.

    Parameters
    ----------
    worker : CheckpointWorker
        The subtask.
    task : StreamTask
        Its state.
    start, end : int
        Work that its rate allows by the start and by the end of the round, units.
    """
    if has_mail(worker, task) == 0 or is_between_records(worker, task, start, end) == 0:
        return
    state = worker.checkpoint()
    if task.mail > 0:
        task.mail = 0
        _look_at_channels(worker, task)
    _act(worker, task, a.on_timer(worker.alignment(), worker.aligned(), worker.now_us()))
    _pull(worker, task)
    if state.deadline >= 0 and worker.now_us() >= state.deadline:
        overtake_outputs(worker, task)
    triggers = worker.triggers()
    while triggers.ends.count > 0:
        if triggers.slots[triggers.ends.head].arrives > worker.round_number():
            break
        if task.is_finished == 1:
            drop(triggers)
            continue
        _trigger_source(worker, task, drop(triggers))


def has_mail(worker: CheckpointWorker[W], task: StreamTask) -> int:
    """Tell whether there is anything that does not wait for its turn: 1 if so."""
    if task.mail > 0:
        return 1
    now, state, alignment = worker.now_us(), worker.checkpoint(), worker.alignment()
    if 0 <= state.deadline <= now or 0 <= alignment.deadline <= now:
        return 1
    triggers = worker.triggers()
    if triggers.ends.count == 0:
        return 0
    return 1 if triggers.slots[triggers.ends.head].arrives <= worker.round_number() else 0


def next_timer(worker: CheckpointWorker[W]) -> int:
    """Return when a timer of the task is due, microseconds; -1: none."""
    first, second = worker.checkpoint().deadline, worker.alignment().deadline
    if first < 0 or second < 0:
        return max(first, second)
    return min(first, second)


def is_between_records(worker: CheckpointWorker[W], task: StreamTask, start: int, end: int) -> int:
    """Tell whether the task is between two records at some moment of the round: 1 if so.

    It writes what is pending, which is the first thing that a round does in any case. A task that
    waits inside a record for a buffer is not, nor is one whose record is not done by the end.
    """
    is_rated = 1 if task.kind == SERVER or task.kind == READER else 0
    if is_rated == 1 and task.is_pending == 1 and task.ready > end:
        return 0
    if write_pending(worker, task) == 0:
        return 0
    return 0 if is_rated == 1 and max(task.ready, start) >= end else 1


def on_event(worker: CheckpointWorker[W], task: StreamTask) -> None:
    """Act on the event that the task has polled in its turn."""
    message = polled_event(task, worker.gates())
    kind, checkpoint, created = message.kind, message.checkpoint, message.created
    channel = worker.gates()[task.gate].channels[task.channel]
    channel.barrier_at = channel.polled
    _deliver(worker, task, task.gate, task.channel, kind, checkpoint, created)
    _pull(worker, task)


def after_sending(worker: CheckpointWorker[W], task: StreamTask) -> None:
    """Acknowledge the checkpoint that waited for its barriers to leave, if they have."""
    state = worker.checkpoint()
    if state.waits_outputs == 0:
        return
    for i in range(task.partitions):
        if holds_barrier(worker.partition(i), state.pending) == 1:
            return
    state.waits_outputs = 0
    state.deadline = -1
    _acknowledge(worker)


def overtake_outputs(worker: CheckpointWorker[W], task: StreamTask) -> None:
    """Have the timeoutable barriers that are still in the outputs overtake what is before them."""
    state = worker.checkpoint()
    state.deadline = -1
    for i in range(task.partitions):
        state.persisted += overtake_partition(worker.partition(i), state.handled)
    if state.waits_outputs == 1:
        state.waits_outputs = 0
        _acknowledge(worker)


# ---- what


def _trigger_source(
    worker: CheckpointWorker[W], task: StreamTask, message: CoordinatorMessage
) -> None:
    """Take a checkpoint at a source, as the coordinator has asked it to."""
    state = worker.checkpoint()
    if message.checkpoint <= state.handled:
        return
    state.kind = SAVEPOINT_BARRIER if message.is_savepoint == 1 else 0
    state.start_delay = max(0, worker.now_us() - message.created)
    _take(worker, task, message.checkpoint, message.created, 0, 0)


def _look_at_channels(worker: CheckpointWorker[W], task: StreamTask) -> None:
    """Deliver the barriers that overtake, and announce those that may, channel by channel."""
    index = 0
    for number in range(worker.gate_count()):
        gate = worker.gates()[number]
        for channel in range(len(gate.channels)):
            queue = gate.queues[channel]
            place = find_kind(queue, UNALIGNED_BARRIER)
            while place >= 0:
                _take_before_turn(worker, task, number, channel, place)
                place = find_kind(queue, UNALIGNED_BARRIER)
            place = find_kind(queue, TIMEOUTABLE_BARRIER)
            if place >= 0:
                found = message_at(queue, place)
                done = a.on_announcement(
                    worker.alignment(),
                    worker.aligned(),
                    index,
                    worker.now_us(),
                    found.checkpoint,
                    found.created,
                    a.TIMEOUTABLE,
                )
                _act(worker, task, done)
            index += 1


def _pull(worker: CheckpointWorker[W], task: StreamTask) -> None:
    """Deliver the barriers that were announced before the checkpoint turned unaligned."""
    is_done = 0
    while is_done == 0:
        is_done, index = 1, 0
        for number in range(worker.gate_count()):
            gate = worker.gates()[number]
            for channel in range(len(gate.channels)):
                aligned = worker.aligned()[index]
                if aligned.is_overtaken == 1 and aligned.has_delivered == 0:
                    place = find_kind(gate.queues[channel], TIMEOUTABLE_BARRIER)
                    if place >= 0:
                        _take_before_turn(worker, task, number, channel, place)
                        is_done = 0
                index += 1


def _take_before_turn(
    worker: CheckpointWorker[W], task: StreamTask, number: int, channel: int, place: int
) -> None:
    """Deliver a barrier that stands behind ``place`` messages of a channel, before them."""
    gate = worker.gates()[number]
    message = message_at(gate.queues[channel], place)
    kind, checkpoint, created = message.kind, message.checkpoint, message.created
    own = gate.channels[channel]
    own.barrier_at = own.polled + bytes_before(gate.queues[channel], place)
    take_event(gate, worker.union(), number, channel, place)
    _deliver(worker, task, number, channel, kind, checkpoint, created)


def _deliver(
    worker: CheckpointWorker[W],
    task: StreamTask,
    number: int,
    channel: int,
    kind: int,
    checkpoint: int,
    created: int,
) -> None:
    """Hand an event of a channel of a gate to the alignment, and do what follows."""
    state, alignment = worker.checkpoint(), worker.alignment()
    index = channel
    for before in range(number):
        index += len(worker.gates()[before].channels)
    own, aligned = worker.gates()[number].channels[channel], worker.aligned()[index]
    if b.is_barrier(kind) == 1:
        state.kind = kind
        state.created = created
    again = 1
    while again == 1:
        if state.mode == a.AT_LEAST_ONCE:
            done = _track(worker, index, kind, checkpoint, created)
        else:
            latest, waits = alignment.latest_id, a.must_persist(alignment, aligned)
            done = _align(worker, index, kind, checkpoint, created)
            if waits == 1 and aligned.has_delivered == 1 and latest == alignment.latest_id:
                alignment.persisted += b.count_persisted(own)
        if alignment.is_aligning == 1 and state.measured != alignment.latest_id:
            state.measured = alignment.latest_id
            state.polled = _bytes_polled(worker)
        _act(worker, task, done)
        again = 1 if done & a.AGAIN else 0


def _align(
    worker: CheckpointWorker[W], index: int, kind: int, checkpoint: int, created: int
) -> int:
    alignment, channels, now = worker.alignment(), worker.aligned(), worker.now_us()
    if b.is_barrier(kind) == 1:
        found = b.alignment_kind(kind)
        return a.on_barrier(alignment, channels, index, now, checkpoint, created, found)
    if kind == CANCEL_MARKER:
        return a.on_cancel(alignment, channels, index, checkpoint)
    if kind == END_OF_PARTITION:
        return a.on_end_of_partition(alignment, channels, index, now)
    return 0


def _track(
    worker: CheckpointWorker[W], index: int, kind: int, checkpoint: int, created: int
) -> int:
    alignment, channels, now = worker.alignment(), worker.aligned(), worker.now_us()
    pending = worker.tracked()
    if b.is_barrier(kind) == 1:
        return tracker.track_barrier(alignment, channels, pending, index, now, checkpoint, created)
    if kind == CANCEL_MARKER:
        return tracker.track_cancel(alignment, channels, pending, index, checkpoint)
    if kind == END_OF_PARTITION:
        return tracker.track_end_of_partition(alignment, channels, pending, index, now)
    return 0


def _act(worker: CheckpointWorker[W], task: StreamTask, done: int) -> None:
    """Do what the alignment says, in the order that it gives."""
    if done == 0:
        return
    alignment, state = worker.alignment(), worker.checkpoint()
    if done & a.DONE and alignment.is_aligning == 0:
        alignment.bytes_processed = 0
        if state.measured == alignment.latest_id:  # else the first barrier was the last
            alignment.bytes_processed = _bytes_polled(worker) - state.polled
    if done & a.ABORT:
        _abort(worker, task, alignment.aborted_id, alignment.aborted_reason)
    if done & a.TRIGGER:
        created = alignment.created
        if state.mode == a.AT_LEAST_ONCE:
            created = state.created
        state.start_delay = alignment.start_delay
        is_unaligned = alignment.is_unaligned if state.mode != a.AT_LEAST_ONCE else 0
        waits = 0 if done & a.DONE else 1
        _take(worker, task, alignment.triggered_id, created, is_unaligned, waits)
    if done & (a.RESUME_ALL | a.RESUME_CHANNEL):
        first = 0
        for number in range(worker.gate_count()):
            b.note_resumed(worker.gates()[number], worker.aligned(), first)
            first += len(worker.gates()[number].channels)
    if done & a.DONE and state.waits_inputs == 1:
        state.waits_inputs = 0
        _acknowledge(worker)


def _abort(worker: CheckpointWorker[W], task: StreamTask, checkpoint: int, reason: int) -> None:
    """Decline a checkpoint, and tell the tasks behind this one that its barrier will not come."""
    state = worker.checkpoint()
    if state.pending == checkpoint:
        state.pending = 0
        state.waits_inputs = 0
        state.waits_outputs = 0
        state.deadline = -1
    state.handled = max(state.handled, checkpoint)
    b.forget_aborted(worker.aborted(), checkpoint)
    worker.report(b.DECLINED, checkpoint, reason)
    _broadcast_cancel(worker, task, checkpoint)


def _broadcast_cancel(worker: CheckpointWorker[W], task: StreamTask, checkpoint: int) -> None:
    for i in range(task.partitions):
        broadcast_event(worker.partition(i), CANCEL_MARKER, b.CANCEL_BYTES, checkpoint, 0)


def _take(
    worker: CheckpointWorker[W],
    task: StreamTask,
    checkpoint: int,
    created: int,
    is_unaligned: int,
    waits_inputs: int,
) -> None:
    """Take a checkpoint: the barrier to all outputs, the state, the acknowledgement.

    Notes
    -----
    ``SubtaskCheckpointCoordinatorImpl.checkpointState``. One that the coordinator has aborted is
    not taken: a marker goes out in place of its barrier.
    """
    state = worker.checkpoint()
    state.handled = max(state.handled, checkpoint)
    was_aborted = b.is_aborted(worker.aborted(), checkpoint, worker.round_number())
    b.forget_aborted(worker.aborted(), checkpoint)
    if was_aborted == 1:
        _broadcast_cancel(worker, task, checkpoint)
        return
    state.pending = checkpoint
    state.persisted = 0
    state.waits_inputs = waits_inputs
    state.waits_outputs = 0
    state.deadline = -1
    is_savepoint = 1 if state.kind == SAVEPOINT_BARRIER else 0
    for i in range(task.partitions):
        kind = b.outgoing_kind(state.mode, is_savepoint, worker.is_forced(i), is_unaligned)
        part = worker.partition(i)
        state.persisted += broadcast_event(part, kind, b.BARRIER_BYTES, checkpoint, created)
        if kind == TIMEOUTABLE_BARRIER:
            state.waits_outputs = 1
            state.deadline = created + state.timeout
    _begin_cut(worker, is_unaligned)
    worker.snapshot(checkpoint)
    if 0 <= state.deadline <= worker.now_us():
        overtake_outputs(worker, task)
    _acknowledge(worker)


def _acknowledge(worker: CheckpointWorker[W]) -> None:
    """Acknowledge the pending checkpoint, if nothing of it is missing."""
    state = worker.checkpoint()
    if state.pending == 0 or state.waits_inputs == 1 or state.waits_outputs == 1:
        return
    worker.report(b.ACKNOWLEDGED, state.pending, 0)
    state.pending = 0


# ---- bytes of the inputs


def _begin_cut(worker: CheckpointWorker[W], is_unaligned: int) -> None:
    """Note what has been processed of the inputs; what is in flight counts if it is persisted."""
    alignment, first = worker.alignment(), 0
    for number in range(worker.gate_count()):
        gate = worker.gates()[number]
        nbytes = b.begin_cut(gate, worker.aligned(), first, worker.gate_record_bytes(number))
        if is_unaligned == 1:
            alignment.persisted += nbytes
        first += len(gate.channels)


def _bytes_polled(worker: CheckpointWorker[W]) -> int:
    total = 0
    for number in range(worker.gate_count()):
        total += b.bytes_polled(worker.gates()[number])
    return total
