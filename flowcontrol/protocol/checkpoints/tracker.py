"""Rules of an at-least-once task, which counts barriers (``CheckpointBarrierTracker``).

It blocks no channel and follows several checkpoints at once, in ``pending``: a queue of
:class:`~flowcontrol.protocol.states.TrackedCheckpoint`, oldest first, of at most 50 slots, the
limit of Flink. ``alignment`` and ``channels`` are as in
:mod:`flowcontrol.protocol.checkpoints.alignment`, and so is what the rules return; the checkpoint
to trigger is ``alignment.triggered_id``.
"""

from flowcontrol.protocol.checkpoints.alignment import Channels
from flowcontrol.protocol.queues import Queue
from flowcontrol.protocol.states import Alignment, TrackedCheckpoint

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
    return 0


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
    return 0
