"""What a subtask holds of checkpoints after a round, as a typed value."""

from dataclasses import dataclass

from flowcontrol.protocol.states import (
    AlignedChannel,
    Alignment,
    CheckpointReport,
    CoordinatorMessage,
    TaskCheckpoint,
    TrackedCheckpoint,
)
from flowcontrol.systems.barrier_buffer import AsideMessage, BarrierBuffer


@dataclass(frozen=True, slots=True)
class AsideState:
    """What a subtask has put aside behind barriers.

    Attributes
    ----------
    state : BarrierBuffer
        How much it is, and has been.
    behind : tuple[AsideMessage, ...]
        What has come behind the barriers of the alignment under way, oldest first.
    again : tuple[AsideMessage, ...]
        What is played back before the gates are polled, in this order.
    writing : tuple[AsideMessage, ...]
        Buffers that return to their gate's pool when the disk has written them.
    """

    state: BarrierBuffer
    behind: tuple[AsideMessage, ...]
    again: tuple[AsideMessage, ...]
    writing: tuple[AsideMessage, ...] = ()


@dataclass(frozen=True, slots=True)
class CheckpointState:
    """What a subtask holds of checkpoints.

    Attributes
    ----------
    state : TaskCheckpoint
        What it knows of them: the one that it took last, and what that waits for.
    alignment : Alignment
        Its alignment of barriers.
    channels : tuple[AlignedChannel, ...]
        The channels of all its gates, in order.
    tracked : tuple[TrackedCheckpoint, ...]
        Of an at-least-once task: the checkpoints that it counts, oldest first.
    tracked_head : int
        Place of the first of these in its ring, which each channel's set goes by.
    triggers : tuple[CoordinatorMessage, ...]
        What it was asked for and has not taken, oldest first.
    aborted : tuple[CoordinatorMessage, ...]
        What was aborted and it has not passed, oldest first.
    reports : tuple[CheckpointReport, ...]
        What it told the coordinator in the round.
    aside : AsideState | None
        What it has put aside behind barriers, with the transport ``tcp``.
    """

    state: TaskCheckpoint
    alignment: Alignment
    channels: tuple[AlignedChannel, ...]
    tracked: tuple[TrackedCheckpoint, ...] = ()
    tracked_head: int = 0
    triggers: tuple[CoordinatorMessage, ...] = ()
    aborted: tuple[CoordinatorMessage, ...] = ()
    reports: tuple[CheckpointReport, ...] = ()
    aside: AsideState | None = None
