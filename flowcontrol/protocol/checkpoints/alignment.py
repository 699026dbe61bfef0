"""Rules of a task that aligns barriers (``SingleCheckpointBarrierHandler`` and its states).

One checkpoint is pending at a time. ``alignment`` is the task's
:class:`~flowcontrol.state.network.Alignment`, ``channels`` its input channels, all gates in order
(an indexable sequence of :class:`~flowcontrol.state.network.AlignedChannel`), ``index`` a place
in it. Rules check nothing. Each returns the sum of what it did: TRIGGER, ABORT ...; a caller acts
on it in this order:

1. ABORT: ``aborted_id`` and ``aborted_reason`` say which and why; decline it, send a cancel marker;
2. SWITCH: the checkpoint has turned unaligned; OVERTAKE: pull the barriers of all channels with
   ``is_overtaken`` to the front of their queues (those already there stay);
3. TRIGGER: snapshot for ``triggered_id``, unaligned if ``is_unaligned``;
4. RESUME_ALL, RESUME_CHANNEL: ``resumed`` of some channels, or of the one at ``index`` alone, has
   grown: their senders may go on;
5. DONE: the last barrier is in: ``alignment``, ``bytes_processed``, ``persisted`` are final.

Source: section 2 of checkpoints-and-time, section 11 of flink-network.
"""

from collections.abc import Sequence
from typing import TypeAlias

from flowcontrol.state.network import AlignedChannel, Alignment

Channels: TypeAlias = Sequence[AlignedChannel]

ALIGNED = 0
"""Kind of barrier: it blocks its channel, and its checkpoint never turns unaligned. Savepoints
and forced alignment (pointwise and broadcast edges) have it in every mode."""
TIMEOUTABLE = 1
"""Kind of barrier: as ALIGNED until the checkpoint's age exceeds the timeout."""
UNALIGNED = 2
"""Kind of barrier: it overtakes, and blocks nothing."""
AT_LEAST_ONCE = 3
"""Not aligned: :mod:`flowcontrol.protocol.checkpoints.barriers` counts barriers."""
PUTTING_ASIDE = 4
"""Mode of a job whose tasks align as Flink's did up to 1.10: its barriers are ALIGNED here, but no
sender waits behind one, and its receiver puts aside what comes
(:mod:`flowcontrol.systems.barrier_buffer`)."""

TRIGGER = 1
ABORT = 2
RESUME_ALL = 4
RESUME_CHANNEL = 8
OVERTAKE = 16
SWITCH = 32
DONE = 64
AGAIN = 128
"""Call again with the same arguments: there is more to abort (only of an at-least-once task)."""

SUBSUMED = 1
ON_CANCELLATION_BARRIER = 2
INPUT_END_OF_STREAM = 3
LIMIT_EXCEEDED = 4
"""More was put aside than ``task.checkpoint.alignment.max-size`` (PUTTING_ASIDE)."""

NEVER = -1
"""A deadline that there is not."""


def is_obsolete(alignment: Alignment, checkpoint: int) -> int:
    """Tell whether a barrier comes too late to count: 1 if so.

    Its checkpoint is older than the latest, or is the latest and no longer pending.
    """
    if checkpoint != alignment.latest_id:
        return 1 if checkpoint < alignment.latest_id else 0
    return 1 - alignment.is_pending


def is_timed_out(alignment: Alignment, now: int) -> int:
    """Tell whether the checkpoint is older than the timeout, strictly: 1 if so."""
    return 1 if now - alignment.created > alignment.timeout else 0


def on_barrier(
    alignment: Alignment,
    channels: Channels,
    index: int,
    now: int,
    checkpoint: int,
    created: int,
    kind: int,
) -> int:
    """Take a barrier that the task has polled from a channel.

    ``SingleCheckpointBarrierHandler.processBarrier``. A newer checkpoint aborts the pending one.
    The last barrier of an aligned checkpoint triggers it as aligned however old it is: the age is
    looked at only while others are missing. In an unaligned checkpoint a blocking barrier keeps
    its channel blocked until all have delivered.

    Returns what it did. An obsolete barrier only resumes its channel (RESUME_CHANNEL), if it
    blocks.
    """
    channel = channels[index]
    if is_obsolete(alignment, checkpoint) == 1:
        if kind == UNALIGNED:
            return 0
        channel.resumed += 1
        return RESUME_CHANNEL
    done = see(alignment, channels, now, checkpoint, created, kind)
    if channel.has_delivered == 0:
        alignment.barriers += 1
    deliver(alignment, channel, now)
    if kind != UNALIGNED:
        channel.is_blocked = 1
    elif alignment.is_unaligned == 0:
        done |= switch(alignment, channels)
    if kind == TIMEOUTABLE:
        done |= look_at_age(alignment, channels, now)
    return done | advance(alignment, channels)


def on_announcement(
    alignment: Alignment,
    channels: Channels,
    index: int,
    now: int,
    checkpoint: int,
    created: int,
    kind: int,
) -> int:
    """Take the announcement of a timeoutable barrier that has arrived behind data.

    ``SingleCheckpointBarrierHandler.processBarrierAnnouncement``.

    ``alignment``, ``channels``, ``index``, ``now``, ``checkpoint``, ``created``, ``kind``: as of
    :func:`on_barrier`; the kind is TIMEOUTABLE.

    Returns what it did: it may begin the checkpoint, which aborts an older one; OVERTAKE if the
    checkpoint is unaligned already. It never switches.
    """
    if is_obsolete(alignment, checkpoint) == 1:
        return 0
    done = see(alignment, channels, now, checkpoint, created, kind)
    channel = channels[index]
    if channel.has_delivered == 1:
        return done
    if alignment.is_unaligned == 1:
        channel.is_overtaken = 1
        return done | OVERTAKE
    channel.is_announced = 1
    return done


def on_cancel(alignment: Alignment, channels: Channels, index: int, checkpoint: int) -> int:
    """Take a cancel marker: ABORT of its checkpoint, or 0.

    A newer id than the latest is aborted, and the pending one is dropped without an abort of its
    own; the latest is aborted if at least one channel has delivered.

    ``SingleCheckpointBarrierHandler.processCancellationBarrier``. Barriers of the id that come
    later are obsolete.
    """
    is_counted = alignment.is_pending == 1 and alignment.delivered > 0
    if checkpoint < alignment.latest_id or (checkpoint == alignment.latest_id and not is_counted):
        return 0
    return abort(alignment, channels, checkpoint, ON_CANCELLATION_BARRIER)


def on_end_of_partition(alignment: Alignment, channels: Channels, index: int, now: int) -> int:
    """Take the end of a channel.

    It counts as delivered (FLIP-147), or without ``tasks_finish`` aborts what is pending.

    ``SingleCheckpointBarrierHandler.processEndOfPartition``.
    """
    channel = channels[index]
    alignment.open_channels -= 1
    channel.is_open = 0
    channel.is_blocked = 0
    if alignment.is_pending == 0:
        return 0
    if alignment.tasks_finish == 0:
        return abort(alignment, channels, alignment.latest_id, INPUT_END_OF_STREAM)
    deliver(alignment, channel, now)
    done = look_at_age(alignment, channels, now) if alignment.kind == TIMEOUTABLE else 0
    return done | advance(alignment, channels)


def on_timer(alignment: Alignment, channels: Channels, now: int) -> int:
    """Turn the checkpoint unaligned if its ``deadline`` has come (``alignedCheckpointTimeout``).

    0, or SWITCH with what follows: TRIGGER only if a barrier was delivered; else the first barrier
    triggers.
    """
    if alignment.deadline == NEVER or now < alignment.deadline:
        return 0
    return switch(alignment, channels) | advance(alignment, channels)


def must_persist(alignment: Alignment, channel: AlignedChannel) -> int:
    """Tell whether data of a channel stand before its barrier in an unaligned snapshot: 1 if so.

    True of what is queued in the channel when the checkpoint is triggered (up to the barrier), of
    the started part of a record, and of what arrives until the barrier.
    """
    is_snapshot = alignment.is_pending & alignment.is_unaligned & alignment.is_triggered
    return is_snapshot & (1 - channel.has_delivered) & channel.is_open


# ---- what these are made of


def see(
    alignment: Alignment, channels: Channels, now: int, checkpoint: int, created: int, kind: int
) -> int:
    """Begin a checkpoint if it is new, which aborts the pending one (``checkNewCheckpoint``)."""
    if checkpoint <= alignment.latest_id:
        return 0
    done = 0
    if alignment.is_pending == 1:
        done = abort(alignment, channels, alignment.latest_id, SUBSUMED)
    note(alignment, now, checkpoint, created)
    alignment.is_pending = 1
    alignment.kind = kind
    alignment.deadline = max(now, created + alignment.timeout) if kind == TIMEOUTABLE else NEVER
    alignment.target = alignment.open_channels
    alignment.delivered = 0
    alignment.barriers = 0
    alignment.is_unaligned = 1 if kind == UNALIGNED else 0
    alignment.is_triggered = 0
    alignment.persisted = 0
    for i in range(len(channels)):
        channel = channels[i]
        channel.has_delivered = 0
        channel.is_announced = 0
        channel.is_overtaken = 0
    return done


def note(alignment: Alignment, now: int, checkpoint: int, created: int) -> None:
    """Take note of a checkpoint at first sight."""
    alignment.latest_id = checkpoint
    alignment.created = created
    alignment.first_seen = now
    alignment.start_delay = max(0, now - created)


def begin_measuring(alignment: Alignment, now: int) -> None:
    """Begin to measure at a checkpoint's first barrier (``markAlignmentStart``)."""
    alignment.is_aligning = 1
    alignment.aligned_since = now
    alignment.alignment = 0
    alignment.bytes_processed = 0


def end_measuring(alignment: Alignment, now: int) -> None:
    """Stop measuring at the last barrier (``markAlignmentEnd``)."""
    alignment.is_aligning = 0
    alignment.alignment = now - alignment.aligned_since


def forget_measuring(alignment: Alignment) -> None:
    """Drop what was measured of an aborted checkpoint (``resetAlignment``)."""
    alignment.is_aligning = 0
    alignment.alignment = 0
    alignment.bytes_processed = 0


def deliver(alignment: Alignment, channel: AlignedChannel, now: int) -> None:
    """Put a channel into the set of those that delivered (``markCheckpointAligned...``)."""
    channel.is_announced = 0
    channel.is_overtaken = 0
    if channel.has_delivered == 1:
        return
    channel.has_delivered = 1
    alignment.delivered += 1
    if alignment.delivered == 1:
        begin_measuring(alignment, now)
    if alignment.delivered == alignment.target:
        end_measuring(alignment, now)


def look_at_age(alignment: Alignment, channels: Channels, now: int) -> int:
    """Switch if the checkpoint is too old and still waits for a channel."""
    if alignment.is_unaligned == 1 or alignment.delivered == alignment.target:
        return 0
    return switch(alignment, channels) if is_timed_out(alignment, now) == 1 else 0


def switch(alignment: Alignment, channels: Channels) -> int:
    """Turn the checkpoint unaligned: SWITCH, OVERTAKE, RESUME_ALL.

    ``AlternatingCollectingBarriers.alignedCheckpointTimeout`` of Flink 1.20.1 resumes no channel;
    ``AlternatingCollectingBarriersUnaligned.finishCheckpoint`` resumes all. The clocks do that
    (``resumes_at_switch`` 0); the reference, and so
    :class:`flowcontrol.spec.aligner.BarrierAligner`, resume at once.
    """
    alignment.is_unaligned = 1
    alignment.deadline = NEVER
    done = SWITCH
    for i in range(len(channels)):
        channel = channels[i]
        if channel.is_announced == 1:
            channel.is_announced = 0
            channel.is_overtaken = 1
            done |= OVERTAKE
    if alignment.resumes_at_switch == 1:
        done |= resume_all(channels)
    return done


def advance(alignment: Alignment, channels: Channels) -> int:
    """Trigger if it is time to, and end the checkpoint if all have delivered."""
    is_complete = alignment.delivered == alignment.target
    done = 0
    is_due = is_complete or (alignment.is_unaligned == 1 and alignment.barriers > 0)
    if is_due and alignment.is_triggered == 0:
        alignment.is_triggered = 1
        alignment.triggered_id = alignment.latest_id
        done |= TRIGGER
    if is_complete:
        alignment.is_pending = 0
        alignment.deadline = NEVER
        done |= DONE | resume_all(channels)
    return done


def abort(alignment: Alignment, channels: Channels, checkpoint: int, reason: int) -> int:
    """Abort a checkpoint, the pending one or a newer one in its place (``abortInternal``)."""
    if alignment.is_pending == 1:
        forget_measuring(alignment)
    alignment.latest_id = checkpoint
    alignment.is_pending = 0
    alignment.deadline = NEVER
    alignment.persisted = 0
    alignment.aborted_id = checkpoint
    alignment.aborted_reason = reason
    return ABORT | resume_all(channels)


def resume_all(channels: Channels) -> int:
    """Resume every blocked channel (``unblockAllChannels``); RESUME_ALL if there is one."""
    done = 0
    for i in range(len(channels)):
        channel = channels[i]
        if channel.is_blocked == 1:
            channel.is_blocked = 0
            channel.resumed += 1
            done = RESUME_ALL
    return done
