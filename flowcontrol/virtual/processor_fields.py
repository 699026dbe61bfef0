"""What the kernel keeps of processors: of each task that needs one, and of each task manager."""

from dataclasses import dataclass, field

from flowcontrol.protocol.processors import Processors, TaskProcessor


@dataclass(slots=True)
class KernelProcessor(TaskProcessor):
    """What a task has claimed of a processor."""

    shares: int = 0
    """Where it is which part of its time needs one, rows of ``cpu_at``."""
    share_count: int = 0
    """How many there are."""


@dataclass(slots=True)
class KernelProcessors:
    """The processors of a task manager, and where the tasks are that share them."""

    own: Processors = field(default_factory=Processors)
    """Those."""
    first: int = 0
    """Where what its tasks claim is, one behind the other."""
    count: int = 0
    """How many need a processor."""
