"""What the kernel logs of checkpoints that a job with event time may restore."""

from dataclasses import dataclass, field

from flowcontrol.protocol.windows.states import WindowEntry


@dataclass(slots=True)
class KeptElement:
    """Records or a mark in flight in a channel behind a receiver's cut: an entry of the log."""

    channel: int = 0
    """The channel."""
    checkpoint: int = 0
    """The checkpoint."""
    count: int = 0
    """Records; 0 of a mark."""
    stamp: int = 0
    """Of the records; of a watermark: that, ms."""
    kind: int = 0
    """Of a mark: ACTIVE, WATERMARK or IDLE; else 0."""


@dataclass(slots=True)
class KeptWindow:
    """A window that was open when a task took a checkpoint: an entry of the log.

    Behind it stands what it held of further columns.
    """

    task: int = 0
    """The task."""
    checkpoint: int = 0
    """The checkpoint."""
    entry: WindowEntry = field(default_factory=WindowEntry)
    """What the window holds."""
