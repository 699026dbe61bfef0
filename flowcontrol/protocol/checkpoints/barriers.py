"""Rules of barriers on the edges: their kinds, what they overtake, what their checkpoint persists.

Which channels are blocked, and when a task takes a checkpoint, is decided by :mod:`.alignment` and
:mod:`.tracker`.

What an unaligned checkpoint persists of an input follows from three cursors of bytes, whenever they
are looked at: those before the barrier less those that the task had processed when it took the
checkpoint. That counts what was queued, the started part of a record, and what arrived later.
"""

from collections.abc import Sequence

from flowcontrol.protocol import queues as q
from flowcontrol.protocol.checkpoints.alignment import (
    ALIGNED,
    AT_LEAST_ONCE,
    TIMEOUTABLE,
    UNALIGNED,
    Channels,
)
from flowcontrol.protocol.queues import Queue
from flowcontrol.protocol.rows import add_member
from flowcontrol.protocol.sides import Gate
from flowcontrol.protocol.states import AlignedChannel, CoordinatorMessage, InputChannel

BARRIER_BYTES = 38
"""Size of a barrier with the default storage location, bytes (reference section 13)."""
CANCEL_BYTES = 12
"""Size of a marker that cancels a checkpoint, bytes."""

ACKNOWLEDGED = 1
"""Report of a task: it has taken the checkpoint, and all that belongs to it is written."""
DECLINED = 2
"""Report of a task: it has aborted the checkpoint."""
FINISHED = 3
"""Report of a task: it has finished."""

_BARRIERS = (
    (1 << q.ALIGNED_BARRIER)
    | (1 << q.TIMEOUTABLE_BARRIER)
    | (1 << q.UNALIGNED_BARRIER)
    | (1 << q.AT_LEAST_ONCE_BARRIER)
    | (1 << q.SAVEPOINT_BARRIER)
)


def outgoing_kind(mode: int, is_savepoint: int, is_forced: int, is_unaligned: int) -> int:
    """Return the kind of the barrier that a task sends on an edge (``CheckpointOptions``).

    Parameters
    ----------
    mode : int
        Of the job: ALIGNED, TIMEOUTABLE, UNALIGNED or AT_LEAST_ONCE.
    is_savepoint : int
        1: it is of a savepoint.
    is_forced : int
        1: an input of the receiving stage is pointwise or broadcast, so all of them are aligned.
    is_unaligned : int
        1: the checkpoint is unaligned at this task.

    Notes
    -----
    Behind a stage that was forced to align, the barrier is again what the mode makes of it.
    """
    if mode == AT_LEAST_ONCE:
        return q.AT_LEAST_ONCE_BARRIER
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


def place_of_barrier(queue: Queue[q.ReceivedMessage], checkpoint: int) -> int:
    """Return how many messages are before the timeoutable barrier of a checkpoint; -1: none."""
    place = q.find_kind(queue, q.TIMEOUTABLE_BARRIER)
    if place >= 0 and q.message_at(queue, place).checkpoint == checkpoint:
        return place
    return -1


# ---- bytes of the inputs


def begin_cut(gate: Gate, channels: Channels, first: int, record_bytes: int) -> int:
    """Note what a task has processed of a gate as it takes a checkpoint.

    Parameters
    ----------
    gate : Gate
        The gate.
    channels : sequence of AlignedChannel
        All of the task's.
    first : int
        Place of the gate's first one in it.
    record_bytes : int
        Size of the gate's records.

    Returns
    -------
    int
        Bytes to be persisted of the channels that have delivered; the others follow when they do.
    """
    persisted = 0
    for i in range(len(gate.channels)):
        channel = gate.channels[i]
        channel.cut = channel.processed * record_bytes
        channel.persisted = 0
        if channels[first + i].has_delivered == 1:
            persisted += count_persisted(channel)
    return persisted


def count_persisted(channel: InputChannel) -> int:
    """Return the bytes that a checkpoint persists of a channel that has delivered."""
    channel.persisted = max(0, channel.barrier_at - channel.cut)
    return channel.persisted


def bytes_polled(gate: Gate) -> int:
    """Return the bytes that a task has ever polled from a gate."""
    total = 0
    for i in range(len(gate.channels)):
        total += gate.channels[i].polled
    return total


def note_resumed(gate: Gate, channels: Sequence[AlignedChannel], first: int) -> None:
    """Have the channels of a gate whose consumption was resumed tell their senders."""
    for i in range(len(gate.channels)):
        if channels[first + i].resumed != gate.channels[i].resumed:
            gate.channels[i].resumed = channels[first + i].resumed
            add_member(gate.dirty_channels, i)


# ---- what the coordinator says


def is_aborted(aborted: Queue[CoordinatorMessage], checkpoint: int, number: int) -> int:
    """Tell whether a task has heard by round ``number`` that a checkpoint was aborted: 1 if so."""
    for i in range(aborted.ends.count):
        found = aborted.slots[(aborted.ends.head + i) % len(aborted.slots)]
        if found.checkpoint == checkpoint and found.arrives <= number:
            return 1
    return 0


def forget_aborted(aborted: Queue[CoordinatorMessage], checkpoint: int) -> None:
    """Forget the aborted checkpoints up to one that a task has handled."""
    kept = 0
    most = len(aborted.slots)
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
