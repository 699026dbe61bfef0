"""Rules of a task that aligns barriers (``SingleCheckpointBarrierHandler`` and its states).

One checkpoint is pending at a time. ``alignment`` is the task's
:class:`~flowcontrol.protocol.states.Alignment`, ``channels`` its input channels, all gates in order
(an indexable sequence of :class:`~flowcontrol.protocol.states.AlignedChannel`), ``index`` a place
in it. Rules check nothing. Each returns the sum of what it did: TRIGGER, ABORT ...; a caller acts
on it in this order:

1. ABORT: ``aborted_id`` and ``aborted_reason`` say which and why; decline it, send a cancel marker;
2. SWITCH: the checkpoint has turned unaligned; OVERTAKE: pull the barriers of all channels with
   ``is_overtaken`` to the front of their queues (those already there stay);
3. TRIGGER: snapshot for ``latest_id``, unaligned if ``is_unaligned``;
4. RESUME_ALL, RESUME_CHANNEL: ``resumed`` of some channels, or of the one at ``index`` alone, has
   grown: their senders may go on;
5. DONE: the last barrier is in: ``alignment``, ``bytes_processed``, ``persisted`` are final.

Source: section 2 of checkpoints-and-time, section 11 of flink-network.
"""

from collections.abc import Sequence
from typing import TypeAlias

from flowcontrol.protocol.states import AlignedChannel, Alignment

Channels: TypeAlias = Sequence[AlignedChannel]

ALIGNED = 0
"""Kind of barrier: it blocks its channel, and its checkpoint never turns unaligned. Savepoints
and forced alignment (pointwise and broadcast edges) have it in every mode."""
TIMEOUTABLE = 1
"""Kind of barrier: as ALIGNED until the checkpoint's age exceeds the timeout."""
UNALIGNED = 2
"""Kind of barrier: it overtakes, and blocks nothing."""
AT_LEAST_ONCE = 3
"""Not aligned: :mod:`flowcontrol.protocol.checkpoints.tracker` counts barriers."""

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

NEVER = -1
"""A deadline that there is not."""


def barrier_kind(mode: int, is_savepoint: int) -> int:
    """Kind of a barrier on the inputs of a task with this mode.

    Parameters
    ----------
    mode : int
        Of the task: ALIGNED, TIMEOUTABLE or UNALIGNED.
    is_savepoint : int
        1: savepoints are aligned in every mode.
    """
    return ALIGNED if is_savepoint == 1 else mode


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

    Parameters
    ----------
    alignment : Alignment
        Of the task.
    channels : sequence of AlignedChannel
        Its channels.
    index : int
        Channel that delivers.
    now, created : int
        Time, and the time of the trigger.
    checkpoint : int
        Id.
    kind : int
        ALIGNED, TIMEOUTABLE or UNALIGNED. A timeoutable barrier that was pulled to the front
        still is TIMEOUTABLE: its sender waits until consumption resumes.

    Returns
    -------
    int
        What it did. An obsolete barrier only resumes its channel (RESUME_CHANNEL), if it blocks.

    Notes
    -----
    ``SingleCheckpointBarrierHandler.processBarrier``. A newer checkpoint aborts the pending one.
    The last barrier of an aligned checkpoint triggers it as aligned however old it is: the age is
    looked at only while others are missing. In an unaligned checkpoint a blocking barrier keeps
    its channel blocked until all have delivered.
    """
    return 0


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

    Parameters
    ----------
    alignment, channels, index, now, checkpoint, created, kind
        As of :func:`on_barrier`; the kind is TIMEOUTABLE.

    Returns
    -------
    int
        What it did: it may begin the checkpoint, which aborts an older one; OVERTAKE if the
        checkpoint is unaligned already. It never switches.

    Notes
    -----
    ``SingleCheckpointBarrierHandler.processBarrierAnnouncement``.
    """
    return 0


def on_cancel(alignment: Alignment, channels: Channels, index: int, checkpoint: int) -> int:
    """Take a cancel marker: ABORT of its checkpoint, or 0.

    A newer id than the latest is aborted, and the pending one is dropped without an abort of its
    own; the latest is aborted if at least one channel has delivered.

    Notes
    -----
    ``SingleCheckpointBarrierHandler.processCancellationBarrier``. Barriers of the id that come
    later are obsolete.
    """
    return 0


def on_end_of_partition(alignment: Alignment, channels: Channels, index: int, now: int) -> int:
    """Take the end of a channel.

    It counts as delivered (FLIP-147), or without ``tasks_finish`` aborts what is pending.

    Notes
    -----
    ``SingleCheckpointBarrierHandler.processEndOfPartition``.
    """
    return 0


def on_timer(alignment: Alignment, channels: Channels, now: int) -> int:
    """Turn the checkpoint unaligned if its ``deadline`` has come (``alignedCheckpointTimeout``).

    Returns
    -------
    int
        0, or SWITCH with what follows: TRIGGER only if a barrier was delivered; else the first
        barrier triggers.
    """
    return 0


def must_persist(alignment: Alignment, channel: AlignedChannel) -> int:
    """Tell whether data of a channel stand before its barrier in an unaligned snapshot: 1 if so.

    True of what is queued in the channel when the checkpoint is triggered (up to the barrier), of
    the started part of a record, and of what arrives until the barrier.
    """
    return 0


def persist(alignment: Alignment, channel: AlignedChannel, nbytes: int) -> int:
    """Count bytes of a channel as persisted if they must be: 1 if so."""
    return 0


def count_processed(alignment: Alignment, nbytes: int) -> None:
    """Count bytes that the task has polled, from any channel (``addProcessedBytes``)."""
