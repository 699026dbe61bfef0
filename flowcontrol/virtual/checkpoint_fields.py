"""What the kernel keeps of checkpoints: of each task, under way to tasks, and the tasks' log."""

from dataclasses import dataclass, field

from flowcontrol.protocol.queues import MOST_BARRIERS
from flowcontrol.protocol.states import (
    AlignedChannel,
    Alignment,
    CoordinatorMessage,
    TaskCheckpoint,
    TrackedCheckpoint,
)
from flowcontrol.virtual.pointers import queue, rows


@dataclass(slots=True)
class KernelCheckpoints:
    """What a task knows of checkpoints, and where the rest of it is."""

    own: TaskCheckpoint = field(default_factory=TaskCheckpoint)
    """What it knows of checkpoints beside its alignment."""
    alignment: Alignment = field(default_factory=Alignment)
    """Its alignment."""
    channels: int = rows(AlignedChannel, "channel_count")
    """The channels of that, those of all gates in order."""
    channel_count: int = 0
    """How many there are."""
    tracked: int = queue(TrackedCheckpoint, "tracked_most")
    """Checkpoints that an at-least-once task counts."""
    tracked_most: int = 0
    """How many there may be."""
    triggers: int = queue(CoordinatorMessage, "messages_most")
    """Checkpoints that a source has been asked for."""
    aborted: int = queue(CoordinatorMessage, "messages_most")
    """Checkpoints that the coordinator has aborted."""
    messages_most: int = 0
    """How many there may be in either."""
    cut_places: int = 0
    """Where the places of the cells are listed that a checkpoint keeps."""
    cut_cells: int = 0
    """How many there are."""
    cuts: int = 0
    """Where those of the latest checkpoints are, each behind its id, by id modulo CUT_SLOTS."""
    aside: int = 0
    """Where what it has put aside is (:mod:`flowcontrol.systems.barrier_buffer`); 0: it never
    does."""
    aside_disk: int = 0
    """Where the disk for that is."""


CUT_SLOTS = MOST_BARRIERS + 1
"""Cuts of a task that are kept in the kernel: those of all checkpoints that may be under way, so
that the one before is written over when somebody has seen it."""


TO_TAKE = 0
ABORTED = 1
COMPLETED = 2
"""What an order says of its checkpoint."""
SLOWED = 3
RELIEVED = 4
"""Orders of no checkpoint: the task's manager uploads from now on, or no more."""


@dataclass(slots=True)
class KernelOrder(CoordinatorMessage):
    """What the coordinator tells a task from the next round on that is run."""

    task: int = 0
    """The task."""
    kind: int = 0
    """TO_TAKE, ABORTED, COMPLETED, SLOWED or RELIEVED."""
