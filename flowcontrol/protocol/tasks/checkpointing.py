"""What a task does about checkpoints in a round; written once, for both clocks.

A trigger, an event that overtook and a timer are looked at when the task is between two records
(Flink's mailbox), an event that waits for its turn when it is polled. A checkpoint is taken in
Flink's order: the barrier goes to all outputs, then the task stands still for the synchronous part
of its snapshot. All of it is known once the last barrier is in (unaligned) and the outputs have let
theirs go (timeoutable); how long it then takes to write is the coordinator's side of the clocks.
"""

from flowcontrol.protocol.checkpoints import alignment as a
from flowcontrol.protocol.checkpoints import barriers
from flowcontrol.protocol.checkpoints import barriers as b
from flowcontrol.protocol.network import events as e
from flowcontrol.protocol.network.events import follow_alignment
from flowcontrol.protocol.tasks.committing import commit, may_commit, stage_commit
from flowcontrol.protocol.tasks.event_time import stop_time
from flowcontrol.protocol.tasks.operators import is_between
from flowcontrol.protocol.tasks.snapshots import stand_still, stands_in_sync
from flowcontrol.protocol.tasks.windowing import end_burst
from flowcontrol.state import queues as q
from flowcontrol.state.network import CoordinatorMessage, TaskCheckpoint
from flowcontrol.state.rows import add_all_members
from flowcontrol.state.tasks import READER, StreamTask, Worker

# ---- when


def process_mail(worker: Worker, task: StreamTask, start: int, end: int) -> None:
    """Act on what has arrived and does not wait for its turn, if the task is between two records.

    ``start``, ``end``: work that its rate allows by the start and by the end of the round, units.
    """
    if has_mail(worker, task) == 0 or is_between_records(worker, task, start, end) == 0:
        return
    state = worker.checkpoint_state()
    if task.mail > 0:
        task.mail = 0
        _process_priority_events(worker, task)
    _act(worker, task, a.on_timer(worker.alignment(), worker.aligned(), worker.now_us()))
    _convert_announced(worker, task)
    if state.deadline >= 0 and worker.now_us() >= state.deadline:
        overtake_outputs(worker, task)
    if may_commit(worker) == 1:
        commit(worker)
    triggers = worker.triggers()
    while triggers.ends.count > 0:
        if triggers.slots[triggers.ends.head].arrives > worker.round_number():
            break
        if state.synced_at > worker.now_us():
            break  # the synchronous part of the one before, or a commit, is not over
        if worker.task.gates > 0 and task.open_inputs > 0:
            break  # all that its senders have put out must be processed first
        if task.is_finished == 1:
            q.drop(triggers)
            continue
        _trigger_source(worker, task, q.drop(triggers))


def has_mail(worker: Worker, task: StreamTask) -> int:
    """Tell whether there is anything that does not wait for its turn: 1 if so."""
    if task.mail > 0:
        return 1
    now, state, alignment = worker.now_us(), worker.checkpoint_state(), worker.alignment()
    if 0 <= state.deadline <= now or 0 <= alignment.deadline <= now or may_commit(worker) == 1:
        return 1
    triggers = worker.triggers()
    if triggers.ends.count == 0:
        return 0
    if worker.task.gates > 0 and task.open_inputs > 0:
        return 0
    return 1 if triggers.slots[triggers.ends.head].arrives <= worker.round_number() else 0


def next_timer(worker: Worker) -> int:
    """Return when a timer of the task is due, microseconds; -1: none."""
    first: int = worker.checkpoint_state().deadline
    second: int = worker.alignment().deadline
    if first < 0 or second < 0:
        return max(first, second)
    return min(first, second)


def is_between_records(worker: Worker, task: StreamTask, start: int, end: int) -> int:
    """Tell whether the task is between two records at some moment of the round: 1 if so.

    As :func:`~flowcontrol.protocol.tasks.operators.is_between`; one that stands still for the
    synchronous part of a snapshot is not, nor is one in the middle of a burst, nor one that waits
    for the destination of its requests.
    """
    if is_between(worker, task, start, end) == 0:
        return 0
    if task.has_requests == 1 and worker.waits_for_requests() == 1:
        return 0
    if stands_in_sync(worker.checkpoint_state(), task, worker.now_us()) == 1:
        return 0
    return end_burst(worker, task)


def on_event(worker: Worker, task: StreamTask) -> int:
    """Act on the event that the task has polled in its turn; return 1 if it then stands still."""
    message = e.polled_event(task, worker.input_gates())
    return act_on(worker, task, message.kind, message.checkpoint, message.created)


def act_on(worker: Worker, task: StreamTask, kind: int, checkpoint: int, created: int) -> int:
    """Act on an event of the channel that the task has polled; return 1 if it then stands still."""
    if kind == q.END_OF_DATA:
        state = worker.checkpoint_state()
        state.data_open -= 1
        if state.data_open == 0 and (task.has_requests == 0 or worker.end_requests() == 1):
            end_data(worker, task)
        return 0
    _deliver(worker, task.gate, task.channel, kind, checkpoint, created, 0)
    _convert_announced(worker, task)
    return stands_in_sync(worker.checkpoint_state(), task, worker.now_us())


def give_up(worker: Worker, task: StreamTask, reason: int) -> None:
    """Abort the checkpoint that the task aligns, for a reason of its own."""
    alignment = worker.alignment()
    _act(worker, task, a.abort(alignment, worker.aligned(), alignment.latest_id, reason))


def may_finish(worker: Worker, task: StreamTask) -> int:
    """Tell whether a task may finish as soon as its inputs have ended: 1 if so.

    A source whose last record is written says first that its data has ended.

    FLIP-147, ``StreamTask.afterInvoke``. So the last transaction of a sink is committed before the
    sink is gone.
    """
    state = worker.checkpoint_state()
    if state.waits_final == 0:
        return 1
    if worker.task.gates == 0 and task.open_inputs == 0 and task.is_pending == 0:
        end_data(worker, task)
    if state.waits_final < 0:
        return 1
    if state.commits >= 0 or state.synced_at > worker.now_us():
        return 0  # its last transaction is not yet committed
    if state.data_open > 0 and worker.task.gates > 0 and task.open_inputs == 0:
        return 1  # its inputs were cut off by a savepoint
    return 1 if 0 <= state.finishes <= worker.round_number() else 0


def end_data(worker: Worker, task: StreamTask) -> None:
    """Pass on that no data comes any more, once."""
    state = worker.checkpoint_state()
    if state.has_ended == 1:
        return
    state.has_ended = 1
    state.data_open = 0
    for i in range(task.partitions):
        e.broadcast_event(worker.event_partition(i), q.END_OF_DATA, e.END_OF_DATA_BYTES, 0, 0)
    worker.report(b.ENDED, 0, 0)


def after_sending(worker: Worker, task: StreamTask) -> None:
    """Acknowledge the checkpoint that waited for its barriers to leave, if they have."""
    state = worker.checkpoint_state()
    if state.waits_outputs == 0:
        return
    for i in range(task.partitions):
        if e.holds_barrier(worker.event_partition(i), state.pending) == 1:
            return
    state.waits_outputs = 0
    state.deadline = -1
    _acknowledge(worker)


def note_writing(worker: Worker, task: StreamTask, before: int) -> None:
    """Have a transactional sink say, once an interval, that it has taken records up in a round.

    So it is known to an interval when each of them was written; ``before`` it had so many.
    """
    state = worker.checkpoint_state()
    if state.look_rounds == 0 or task.taken == before:
        return
    interval = worker.round_number() // state.look_rounds
    if interval > state.looked:
        state.looked = interval
        worker.report_writing(before)


def overtake_outputs(worker: Worker, task: StreamTask) -> None:
    """Have the timeoutable barriers that are still in the outputs overtake what is before them."""
    state = worker.checkpoint_state()
    state.deadline = -1
    for i in range(task.partitions):
        state.persisted += e.overtake_partition(worker.event_partition(i), state.handled)
    if state.waits_outputs == 1:
        state.waits_outputs = 0
        _acknowledge(worker)


# ---- what


def _trigger_source(worker: Worker, task: StreamTask, message: CoordinatorMessage) -> None:
    """Take a checkpoint at a source, as the coordinator has asked it to."""
    state = worker.checkpoint_state()
    if message.checkpoint <= state.handled:
        return
    state.kind = q.SAVEPOINT_BARRIER if message.is_savepoint > 0 else 0
    state.start_delay = max(0, worker.now_us() - message.created)
    if message.is_savepoint == b.STOPS:
        _stop_source(state, task, message.checkpoint)
        if task.is_timed == 1:
            stop_time(worker)
    _perform_checkpoint(worker, message.checkpoint, message.created, 0, 0)
    _acknowledge(worker)


def _stop_source(state: TaskCheckpoint, task: StreamTask, checkpoint: int) -> None:
    """Emit nothing behind a savepoint with which the job stops; finish when it is complete.

    ``stop-with-savepoint`` without ``--drain``: the data does not end, it is cut off. So nothing
    is said of its end, and a task whose inputs end so finishes at once. A log goes on growing.
    """
    if task.kind != READER:
        task.limit = task.taken
    task.open_inputs = 0
    state.waits_final = 1
    state.has_ended = 1
    state.final = checkpoint


def _process_priority_events(worker: Worker, task: StreamTask) -> None:
    """Deliver the barriers that overtake, and announce those that may, channel by channel."""
    index = 0
    for number in range(worker.task.gates):
        gate = worker.input_gates()[number]
        for channel in range(len(gate.channels)):
            queue = gate.queues[channel]
            place = q.find_kind(queue, q.UNALIGNED_BARRIER)
            while place >= 0:
                _process_priority_event(worker, task, number, channel, place)
                place = q.find_kind(queue, q.UNALIGNED_BARRIER)
            place = q.find_kind(queue, q.TIMEOUTABLE_BARRIER)
            if place >= 0:
                found = q.message_at(queue, place)
                aligned = worker.aligned()[index]
                was_known = aligned.is_announced + aligned.is_overtaken
                own, channels, now = worker.alignment(), worker.aligned(), worker.now_us()
                which, since = found.checkpoint, found.created
                done = a.on_announcement(own, channels, index, now, which, since, a.TIMEOUTABLE)
                is_new = aligned.is_announced + aligned.is_overtaken > was_known
                if is_new and gate.channels[channel].initial >= 0:  # no local channel announces
                    e.lose_turn(gate, worker.gates_with_data(), number, channel)
                _act(worker, task, done)
            index += 1


def _convert_announced(worker: Worker, task: StreamTask) -> None:
    """Deliver the barriers that were announced before the checkpoint turned unaligned."""
    is_done = 0
    while is_done == 0:
        is_done, index = 1, 0
        for number in range(worker.task.gates):
            gate = worker.input_gates()[number]
            for channel in range(len(gate.channels)):
                aligned = worker.aligned()[index]
                if aligned.is_overtaken == 1 and aligned.has_delivered == 0:
                    place = q.find_kind(gate.queues[channel], q.TIMEOUTABLE_BARRIER)
                    if place >= 0:
                        _process_priority_event(worker, task, number, channel, place)
                        is_done = 0
                index += 1


def _process_priority_event(
    worker: Worker, task: StreamTask, number: int, channel: int, place: int
) -> None:
    """Deliver a barrier that stands behind ``place`` messages of a channel, before them."""
    gate = worker.input_gates()[number]
    message = q.message_at(gate.queues[channel], place)
    kind, checkpoint, created = message.kind, message.checkpoint, message.created
    nbytes = q.bytes_before(gate.queues[channel], place)
    e.remove_event(gate, worker.gates_with_data(), number, channel, place)
    _deliver(worker, number, channel, kind, checkpoint, created, nbytes)


def _deliver(
    worker: Worker, gate: int, channel: int, kind: int, checkpoint: int, since: int, nbytes: int
) -> None:
    """Hand an event of a channel of a gate to the alignment, and do what follows.

    It has overtaken ``nbytes`` of its channel; its checkpoint was triggered at ``since``.
    """
    state, alignment = worker.checkpoint_state(), worker.alignment()
    index = channel
    for before in range(gate):
        index += len(worker.input_gates()[before].channels)
    aligned = worker.aligned()[index]
    aligned.barrier_at = nbytes + b.polled_bytes(worker.input_gates()[gate], channel, aligned)
    if b.is_barrier(kind) == 1:
        state.kind = kind
        aligned.barriers += 1
    again = 1
    while again == 1:
        if state.mode == a.AT_LEAST_ONCE:
            done = _track(worker, index, kind, checkpoint, since)
        else:
            latest, waits = alignment.latest_id, a.must_persist(alignment, aligned)
            done = _align(worker, index, kind, checkpoint, since)
            if waits == 1 and aligned.has_delivered == 1 and latest == alignment.latest_id:
                alignment.persisted += b.count_persisted(aligned)
        if alignment.is_aligning == 1 and state.measured != alignment.latest_id:
            state.measured = alignment.latest_id
            state.polled = bytes_polled(worker)
        _act(worker, worker.task, done)
        again = 1 if done & a.AGAIN else 0
    if state.withholds == 1:
        gates, union = worker.input_gates(), worker.gates_with_data()
        follow_alignment(worker.task, gates, worker.task.gates, union, worker.aligned())


def _align(worker: Worker, index: int, kind: int, checkpoint: int, created: int) -> int:
    alignment, channels, now = worker.alignment(), worker.aligned(), worker.now_us()
    if b.is_barrier(kind) == 1:
        found = b.alignment_kind(kind)
        return a.on_barrier(alignment, channels, index, now, checkpoint, created, found)
    if kind == q.CANCEL_MARKER:
        return a.on_cancel(alignment, channels, index, checkpoint)
    if kind == q.END_OF_PARTITION:
        return a.on_end_of_partition(alignment, channels, index, now)
    return 0


def _track(worker: Worker, index: int, kind: int, checkpoint: int, created: int) -> int:
    alignment, channels, now = worker.alignment(), worker.aligned(), worker.now_us()
    pending = worker.tracked()
    if b.is_barrier(kind) == 1:
        return barriers.track_barrier(alignment, channels, pending, index, now, checkpoint, created)
    if kind == q.CANCEL_MARKER:
        return barriers.track_cancel(alignment, channels, pending, index, checkpoint)
    if kind == q.END_OF_PARTITION:
        return barriers.track_end_of_partition(alignment, channels, pending, index, now)
    return 0


def _act(worker: Worker, task: StreamTask, done: int) -> None:
    """Do what the alignment says, in the order that it gives."""
    if done == 0:
        return
    alignment, state = worker.alignment(), worker.checkpoint_state()
    if done & a.DONE and alignment.is_aligning == 0:
        alignment.bytes_processed = 0
        if state.measured == alignment.latest_id:  # else the first barrier was the last
            alignment.bytes_processed = bytes_polled(worker) - state.polled
    if done & a.ABORT:
        _abort(worker, task, alignment.aborted_id, alignment.aborted_reason)
    if done & a.TRIGGER:
        created = alignment.created
        state.start_delay = alignment.start_delay
        if state.mode != a.AT_LEAST_ONCE:
            # Flink's statistics begin at the first barrier, not at its announcement.
            state.start_delay = max(0, alignment.aligned_since - alignment.created)
        is_unaligned = alignment.is_unaligned if state.mode != a.AT_LEAST_ONCE else 0
        _perform_checkpoint(worker, alignment.triggered_id, created, is_unaligned, 1)
    if done & (a.RESUME_ALL | a.RESUME_CHANNEL):
        _announce_all(worker)
    if done & a.DONE and state.waits_inputs == 1:
        b.note_aligned(state, alignment)
        _acknowledge(worker)


def _announce_all(worker: Worker) -> None:
    """Have the senders of all channels told that they may go on."""
    for number in range(worker.task.gates):
        add_all_members(worker.input_gates()[number].dirty_channels)


def _abort(worker: Worker, task: StreamTask, checkpoint: int, reason: int) -> None:
    """Decline a checkpoint, and tell the tasks behind this one that its barrier will not come."""
    state = worker.checkpoint_state()
    if state.pending == checkpoint:
        state.pending = 0
        state.waits_inputs = 0
        state.waits_outputs = 0
        state.deadline = -1
    state.handled = max(state.handled, checkpoint)
    b.forget_aborted(worker.aborted(), checkpoint)
    worker.report(b.DECLINED, checkpoint, reason)
    _broadcast_cancel(worker, task, checkpoint)


def _broadcast_cancel(worker: Worker, task: StreamTask, checkpoint: int) -> None:
    for i in range(task.partitions):
        e.broadcast_event(worker.event_partition(i), q.CANCEL_MARKER, b.CANCEL_BYTES, checkpoint, 0)


def _perform_checkpoint(
    worker: Worker, checkpoint: int, created: int, is_unaligned: int, waits_inputs: int
) -> None:
    """Take a checkpoint: the barrier to all outputs, then the synchronous part of the snapshot.

    ``SubtaskCheckpointCoordinatorImpl.checkpointState``. One that the coordinator has aborted is
    not taken: a marker goes out in place of its barrier.
    """
    state, task = worker.checkpoint_state(), worker.task
    state.handled = max(state.handled, checkpoint)
    was_aborted = b.is_aborted(worker.aborted(), checkpoint, worker.round_number())
    b.forget_aborted(worker.aborted(), checkpoint)
    if was_aborted == 1:
        _broadcast_cancel(worker, task, checkpoint)
        return
    if state.has_ended == 1 and state.final == 0:
        state.final = checkpoint
    state.pending = checkpoint
    state.alignment = 0
    state.processed = 0
    state.persisted = 0
    state.waits_inputs = waits_inputs
    state.waits_outputs = 0
    state.deadline = -1
    is_savepoint = 1 if state.kind == q.SAVEPOINT_BARRIER else 0
    for i in range(task.partitions):
        kind = b.outgoing_kind(state.mode, is_savepoint, worker.is_forced(i), is_unaligned)
        part = worker.event_partition(i)
        state.persisted += e.broadcast_event(part, kind, b.BARRIER_BYTES, checkpoint, created)
        worker.note_barrier(i)
        if kind == q.TIMEOUTABLE_BARRIER:
            state.waits_outputs = 1
            state.deadline = created + state.timeout
    begin_cut(worker, is_unaligned)
    if task.has_requests == 1 and worker.flush_requests() == 0:
        state.waits_requests = 1
        return
    _take_snapshot(worker)
    if 0 <= state.deadline <= worker.now_us():
        overtake_outputs(worker, task)


def _take_snapshot(worker: Worker) -> None:
    """Take the snapshot of the pending checkpoint, and begin its synchronous part."""
    state = worker.checkpoint_state()
    worker.snapshot(state.pending)
    worker.report(b.TAKEN, state.pending, 0)
    stage_commit(state, worker.task.taken)
    stand_still(state, worker.task, worker.service_phases(), worker.now_us(), state.sync)


def on_flushed(worker: Worker) -> None:
    """Take the snapshot that waited until no request of a sink was in flight, unless aborted.

    ``SinkWriterOperator.prepareSnapshotPreBarrier``: a sink passes no barrier on, so it does not
    matter that it flushes behind that. Its channels resume behind it
    (``AbstractAlignedBarrierHandlerState.triggerGlobalCheckpoint``).
    """
    state = worker.checkpoint_state()
    if state.waits_requests == 0:
        return
    state.waits_requests = 0
    _announce_all(worker)
    if state.pending > 0:
        _take_snapshot(worker)
        _acknowledge(worker)


def _acknowledge(worker: Worker) -> None:
    """Acknowledge the pending checkpoint, if nothing of it is missing.

    What the coordinator has aborted meanwhile is dropped (``notifyCheckpointAborted``).
    """
    state = worker.checkpoint_state()
    if state.pending == 0 or state.waits_inputs == 1 or state.waits_outputs == 1:
        return
    if state.waits_requests == 1:
        return
    if b.is_aborted(worker.aborted(), state.pending, worker.round_number()) == 1:
        b.forget_aborted(worker.aborted(), state.pending)
    else:
        worker.report(b.ACKNOWLEDGED, state.pending, 0)
    state.pending = 0


# ---- bytes of the inputs


def begin_cut(worker: Worker, is_unaligned: int) -> None:
    """Note what has been processed of the inputs; what is in flight counts if it is persisted."""
    alignment, first = worker.alignment(), 0
    for number in range(worker.task.gates):
        gate = worker.input_gates()[number]
        nbytes = b.begin_cut(gate, worker.aligned(), first, worker.gate_record_bytes(number))
        if is_unaligned == 1:
            alignment.persisted += nbytes
        first += len(gate.channels)


def bytes_polled(worker: Worker) -> int:
    """Return the bytes that the task has polled from all its inputs."""
    total = first = 0
    for number in range(worker.task.gates):
        gate = worker.input_gates()[number]
        total += b.gate_polled_bytes(gate, worker.aligned(), first)
        first += len(gate.channels)
    return total
