"""What the kernel keeps of event time, of each task."""

from dataclasses import dataclass, field

from flowcontrol.operators.timed_states import TaskTime
from flowcontrol.protocol.event_time.states import ValveChannel
from flowcontrol.virtual.pointers import rows


@dataclass(slots=True)
class KernelTime:
    """Event time of a task, and where the channels of its valve are."""

    own: TaskTime = field(default_factory=TaskTime)
    """Its generator, or its valve."""
    channels: int = rows(ValveChannel, "channel_count")
    """The channels of that, those of all gates in order."""
    channel_count: int = 0
    """How many there are."""
    stamps: int = 0
    """Where the stamps are of the rows that it replays, if they have some."""
