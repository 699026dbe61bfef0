"""What a task holds of its windows besides the windows themselves."""

from dataclasses import dataclass, field

from flowcontrol.protocol.spark_time.states import TaskBatch


@dataclass(slots=True)
class WindowTask:
    """A task whose first operator is a window."""

    to_give: int = 0
    """What is passed on when nothing due is left: a sum of WATERMARK and IDLE
    (:mod:`flowcontrol.protocol.event_time.output_rules`)."""
    keys: int = 1
    """Keys of its records; constant."""
    bytes_per_key: int = 0
    """State of a key and window, bytes; constant."""
    yields: int = 0
    """1: mail interrupts the timers of a watermark; constant."""
    batch: TaskBatch = field(default_factory=TaskBatch)
    """What it knows of its batch, where windows are Spark's."""
