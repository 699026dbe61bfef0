"""Rules of an at-least-once task, which counts barriers (``CheckpointBarrierTracker``).

It blocks no channel and follows several checkpoints at once, in ``pending``: a queue of
:class:`~flowcontrol.protocol.states.TrackedCheckpoint`, oldest first, of at most 50 slots, the
limit of Flink. ``alignment`` and ``channels`` are as in
:mod:`flowcontrol.protocol.checkpoints.alignment`, and so is what the rules return; the checkpoint
to trigger is ``alignment.triggered_id``.
"""

from flowcontrol.protocol.checkpoints.alignment import (
    ABORT,
    AGAIN,
    DONE,
    INPUT_END_OF_STREAM,
    ON_CANCELLATION_BARRIER,
    TRIGGER,
    Channels,
    begin_measuring,
    end_measuring,
    forget_measuring,
    note,
)
from flowcontrol.protocol.queues import Queue, append, drop, is_full, next_slot
from flowcontrol.protocol.rings import use_all
from flowcontrol.protocol.states import AlignedChannel, Alignment, TrackedCheckpoint

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

    Notes
    -----
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

    Notes
    -----
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

    Notes
    -----
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
