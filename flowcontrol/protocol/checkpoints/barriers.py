"""Barriers in channels: how they pass, and what a task knows of those that have come.

Which channels are blocked, and when a task takes a checkpoint, is decided by :mod:`.alignment` and
:mod:`.barriers`.

What an unaligned checkpoint persists of an input follows from three cursors of bytes, whenever they
are looked at: those before the barrier less those that the task had processed when it took the
checkpoint. That counts what was queued, the started part of a record, and what arrived later.
"""

from flowcontrol.protocol.checkpoints.alignment import (
    ABORT,
    AGAIN,
    ALIGNED,
    AT_LEAST_ONCE,
    DONE,
    INPUT_END_OF_STREAM,
    ON_CANCELLATION_BARRIER,
    PUTTING_ASIDE,
    TIMEOUTABLE,
    TRIGGER,
    UNALIGNED,
    Channels,
    begin_measuring,
    end_measuring,
    forget_measuring,
    note,
)
from flowcontrol.state import queues as q
from flowcontrol.state.network import (
    AlignedChannel,
    Alignment,
    CheckpointReport,
    CoordinatorMessage,
    TaskCheckpoint,
    TrackedCheckpoint,
)
from flowcontrol.state.queues import Queue, append, drop, is_full, next_slot, use_all
from flowcontrol.state.rows import Gate

# --- Rules of barriers on the edges: their kinds, what they overtake, what their checkpoint
# persists.


BARRIER_BYTES = 38
"""Size of a barrier with the default storage location, bytes (reference section 13)."""
CANCEL_BYTES = 12
"""Size of a marker that cancels a checkpoint, bytes."""

ACKNOWLEDGED = 1
"""Report of a task: all that belongs to the checkpoint is known; it is acknowledged when that is
written."""
DECLINED = 2
"""Report of a task: it has aborted the checkpoint."""
FINISHED = 3
"""Report of a task: it has finished."""
ENDED = 4
"""Report of a task: it has processed its last record, and waits for a last checkpoint."""
TAKEN = 5
"""Report of a task: it has sent the barrier on, and the snapshot of its state begins."""
WRITES = 6
"""Report of a transactional sink: it takes records up, the first ones of an interval."""

COMMITS = 7
"""Report of a transactional sink: it begins to commit a checkpoint."""
FOR_READERS = (WRITES, COMMITS)
"""Reports that concern what readers see, and not the coordinator."""

STOPS = 2
"""``CoordinatorMessage.is_savepoint`` of a savepoint with which the job stops."""

_BARRIERS = (
    (1 << q.ALIGNED_BARRIER)
    | (1 << q.TIMEOUTABLE_BARRIER)
    | (1 << q.UNALIGNED_BARRIER)
    | (1 << q.AT_LEAST_ONCE_BARRIER)
    | (1 << q.SAVEPOINT_BARRIER)
    | (1 << q.BARRIER)
)


def outgoing_kind(mode: int, is_savepoint: int, is_forced: int, is_unaligned: int) -> int:
    """Return the kind of the barrier that a task sends on an edge (``CheckpointOptions``).

    Behind a stage that was forced to align, the barrier is again what the mode makes of it.

    - ``is_savepoint``: 1: it is of a savepoint.
    - ``is_forced``: 1: an input of the receiving stage is pointwise or broadcast, so all of them
      are aligned.
    - ``is_unaligned``: 1: the checkpoint is unaligned at this task.
    """
    if mode == AT_LEAST_ONCE:
        return q.AT_LEAST_ONCE_BARRIER
    if mode == PUTTING_ASIDE:
        return q.BARRIER
    if is_savepoint == 1:
        return q.SAVEPOINT_BARRIER
    if mode == ALIGNED or is_forced == 1:
        return q.ALIGNED_BARRIER
    if mode == UNALIGNED or is_unaligned == 1:
        return q.UNALIGNED_BARRIER
    return q.TIMEOUTABLE_BARRIER


def is_barrier(kind: int) -> int:
    """Tell whether a kind of message is a barrier: 1 if so."""
    return (_BARRIERS >> kind) & 1


def alignment_kind(kind: int) -> int:
    """Return what a kind of barrier is to an alignment: ALIGNED, TIMEOUTABLE or UNALIGNED."""
    if kind == q.UNALIGNED_BARRIER:
        return UNALIGNED
    return TIMEOUTABLE if kind == q.TIMEOUTABLE_BARRIER else ALIGNED


# ---- bytes of the inputs


def polled_bytes(gate: Gate, channel: int, aligned: AlignedChannel) -> int:
    """Return the bytes of a channel that its task has polled, and not put aside."""
    queue = gate.queues[channel]
    return aligned.arrived - aligned.aside - q.bytes_before(queue, queue.ends.count)


def gate_polled_bytes(gate: Gate, channels: Channels, first: int) -> int:
    """Return the bytes that a task has polled from a gate, of which ``first`` is the first one."""
    total = 0
    for i in range(len(gate.channels)):
        total += polled_bytes(gate, i, channels[first + i])
    return total


def begin_cut(gate: Gate, channels: Channels, first: int, record_bytes: int) -> int:
    """Note what a task has processed of a gate as it takes a checkpoint.

    Returns the bytes to persist of the channels that have delivered; the others follow when they
    do.
    """
    persisted = 0
    for i in range(len(gate.channels)):
        channel = channels[first + i]
        channel.cut = gate.channels[i].processed * record_bytes + channel.mark_bytes
        channel.persisted = 0
        if channel.has_delivered == 1:
            persisted += count_persisted(channel)
    return persisted


def count_persisted(channel: AlignedChannel) -> int:
    """Return the bytes that a checkpoint persists of a channel that has delivered."""
    channel.persisted = max(0, channel.barrier_at - channel.cut)
    return channel.persisted


# ---- what the coordinator says


def notify_checkpoint_complete(state: TaskCheckpoint, checkpoint: int, arrives: int) -> int:
    """Note that a task hears in a round that a checkpoint is complete: 1 if it may finish then."""
    if state.final == 0 or checkpoint < state.final or state.finishes >= 0:
        return 0
    state.finishes = arrives
    return 1


def is_past(state: TaskCheckpoint, checkpoint: int) -> int:
    """Tell whether the end of a checkpoint is no news to a task, which is past it: 1 if so.

    Of one that it has taken and not acknowledged it is news: there is nothing to acknowledge then.
    """
    return 1 if checkpoint <= state.handled and checkpoint != state.pending else 0


def is_aborted(aborted: Queue[CoordinatorMessage], checkpoint: int, number: int) -> int:
    """Tell whether a task has heard by round ``number`` that a checkpoint was aborted: 1 if so."""
    for i in range(aborted.ends.count):
        found = aborted.slots[(aborted.ends.head + i) % aborted.ends.span]
        if found.checkpoint == checkpoint and found.arrives <= number:
            return 1
    return 0


def forget_aborted(aborted: Queue[CoordinatorMessage], checkpoint: int) -> None:
    """Forget the aborted checkpoints up to one that a task has handled."""
    kept = 0
    most = aborted.ends.span
    for i in range(aborted.ends.count):
        found = aborted.slots[(aborted.ends.head + i) % most]
        if found.checkpoint > checkpoint:
            slot = aborted.slots[(aborted.ends.head + kept) % most]
            slot.checkpoint = found.checkpoint
            slot.created = found.created
            slot.is_savepoint = found.is_savepoint
            slot.arrives = found.arrives
            kept += 1
    aborted.ends.count = kept


# ---- what a task says


def note_aligned(state: TaskCheckpoint, alignment: Alignment) -> None:
    """Keep what was measured of a checkpoint whose last barrier is in."""
    state.waits_inputs = 0
    state.alignment = alignment.alignment
    state.processed = alignment.bytes_processed
    state.persisted += alignment.persisted


def fill_report(report: CheckpointReport, state: TaskCheckpoint) -> None:
    """Give an acknowledgement what was measured of its checkpoint."""
    report.start_delay = state.start_delay
    report.alignment = state.alignment
    report.processed = state.processed
    report.persisted = state.persisted


# --- Rules of an at-least-once task, which counts barriers (`CheckpointBarrierTracker`).
#
# It blocks no channel and follows several checkpoints at once, in `pending`: a queue of
# flowcontrol.state.network.TrackedCheckpoint, oldest first, of at most 50 slots, the limit of
# Flink. `alignment` and `channels` are as in flowcontrol.protocol.checkpoints.alignment, and
# so is what the rules return; the checkpoint to trigger is `alignment.triggered_id`.


MOST_TRACKED = 50
"""Checkpoints that are followed at once (``MAX_CHECKPOINTS_TO_TRACK``); the oldest is forgotten."""


def track_barrier(
    alignment: Alignment,
    channels: Channels,
    pending: Queue[TrackedCheckpoint],
    index: int,
    now: int,
    checkpoint: int,
    created: int,
) -> int:
    """Take a barrier: TRIGGER and DONE if it is the last of its checkpoint, else 0.

    ``CheckpointBarrierTracker.processBarrier``. With one open channel a new id completes at once.
    What completes forgets all that is older, silently.
    """
    if checkpoint > alignment.latest_id:
        note(alignment, now, checkpoint, created)
        begin_measuring(alignment, now)
        if alignment.open_channels > 1:
            track(alignment, channels, pending, index)
            return 0
        while pending.ends.count > 0:
            drop(pending)
        return trigger(alignment, pending, checkpoint, now)
    for number in range(pending.ends.count):
        if tracked(pending, number).checkpoint == checkpoint:
            if count(channels[index], pending, number) == 1:
                return complete(alignment, pending, number, now)
            return 0
    return 0


def track_cancel(
    alignment: Alignment,
    channels: Channels,
    pending: Queue[TrackedCheckpoint],
    index: int,
    checkpoint: int,
) -> int:
    """Take a cancel marker: ABORT of ``aborted_id``, with AGAIN while there is more to abort.

    Older checkpoints are aborted first, one a call.

    ``CheckpointBarrierTracker.processCancellationBarrier``.
    """
    reason = ON_CANCELLATION_BARRIER
    while pending.ends.count > 0 and tracked(pending, 0).checkpoint < checkpoint:
        older = drop(pending)
        if older.is_aborted == 0:
            return abort_tracked(alignment, pending, older.checkpoint, reason) | AGAIN
    if pending.ends.count > 0 and tracked(pending, 0).checkpoint == checkpoint:
        own = tracked(pending, 0)
        was_aborted = own.is_aborted
        own.is_aborted = 1
        if count(channels[index], pending, 0) == 1:
            drop(pending)
        update_pending(alignment, pending)
        return abort_tracked(alignment, pending, checkpoint, reason) if was_aborted == 0 else 0
    if checkpoint <= alignment.latest_id:
        update_pending(alignment, pending)
        return 0
    alignment.latest_id = checkpoint
    if alignment.open_channels > 1:
        track(alignment, channels, pending, index)
        tracked(pending, 0).is_aborted = 1
    return abort_tracked(alignment, pending, checkpoint, reason)


def track_end_of_partition(
    alignment: Alignment,
    channels: Channels,
    pending: Queue[TrackedCheckpoint],
    index: int,
    now: int,
) -> int:
    """Take the end of a channel: TRIGGER, or ABORT with AGAIN while there is more to abort.

    It counts for every pending checkpoint, the newest first, and completes the newest that
    becomes full; without ``tasks_finish`` all that are pending are aborted, one a call.

    ``CheckpointBarrierTracker.processEndOfPartition``.
    """
    channel = channels[index]
    if channel.is_open == 1:
        channel.is_open = 0
        alignment.open_channels -= 1
    if alignment.tasks_finish == 0:
        while pending.ends.count > 0:
            oldest = drop(pending)
            if oldest.is_aborted == 0:
                reason = INPUT_END_OF_STREAM
                return abort_tracked(alignment, pending, oldest.checkpoint, reason) | AGAIN
        update_pending(alignment, pending)
        return 0
    for number in range(pending.ends.count - 1, -1, -1):
        if count(channel, pending, number) == 1:
            return complete(alignment, pending, number, now)
    return 0


# ---- what these are made of


def tracked(pending: Queue[TrackedCheckpoint], number: int) -> TrackedCheckpoint:
    """Return a pending checkpoint, counted from the oldest."""
    return pending.slots[place_of(pending, number)]


def place_of(pending: Queue[TrackedCheckpoint], number: int) -> int:
    """Place of a pending checkpoint in the ring."""
    return (pending.ends.head + number) % len(pending.slots)


def track(
    alignment: Alignment, channels: Channels, pending: Queue[TrackedCheckpoint], index: int
) -> None:
    """Follow the latest checkpoint, which a channel has delivered; forget the oldest if full."""
    use_all(pending.ends, pending.slots)  # places are bits of sets
    if is_full(pending) == 1:
        drop(pending)
    place = place_of(pending, pending.ends.count)
    for i in range(len(channels)):
        channels[i].tracked &= ~(1 << place)
    channels[index].tracked |= 1 << place
    new = next_slot(pending)
    new.checkpoint = alignment.latest_id
    new.created = alignment.created
    new.delivered = 1
    new.target = alignment.open_channels
    new.is_aborted = 0
    append(pending)
    alignment.is_pending = 1


def count(channel: AlignedChannel, pending: Queue[TrackedCheckpoint], number: int) -> int:
    """Count a channel, once, for a pending checkpoint: 1 if all have delivered now."""
    place = place_of(pending, number)
    own = pending.slots[place]
    if (channel.tracked >> place) & 1 == 0:
        channel.tracked |= 1 << place
        own.delivered += 1
    return 1 if own.delivered == own.target else 0


def complete(alignment: Alignment, pending: Queue[TrackedCheckpoint], number: int, now: int) -> int:
    """Drop a full checkpoint and all older ones, and trigger it unless it was aborted."""
    own = tracked(pending, number)
    checkpoint, is_aborted, created = own.checkpoint, own.is_aborted, own.created
    for _ in range(number + 1):
        drop(pending)
    if is_aborted == 0:
        alignment.created = created
        return trigger(alignment, pending, checkpoint, now)
    update_pending(alignment, pending)
    return 0


def trigger(
    alignment: Alignment, pending: Queue[TrackedCheckpoint], checkpoint: int, now: int
) -> int:
    """Trigger a checkpoint (``triggerCheckpointOnAligned``): TRIGGER and DONE.

    Only one alignment is measured at a time: the figures are those of the latest checkpoint, and
    an older one that completes has 0 in Flink.
    """
    if checkpoint == alignment.latest_id:
        end_measuring(alignment, now)
    alignment.triggered_id = checkpoint
    update_pending(alignment, pending)
    return TRIGGER | DONE


def abort_tracked(
    alignment: Alignment, pending: Queue[TrackedCheckpoint], checkpoint: int, reason: int
) -> int:
    """Abort a checkpoint: ABORT."""
    if checkpoint == alignment.latest_id and alignment.is_aligning == 1:
        forget_measuring(alignment)
    alignment.aborted_id = checkpoint
    alignment.aborted_reason = reason
    update_pending(alignment, pending)
    return ABORT


def update_pending(alignment: Alignment, pending: Queue[TrackedCheckpoint]) -> None:
    """Note whether any checkpoint is pending."""
    alignment.is_pending = 1 if pending.ends.count > 0 else 0
