"""What a subtask holds of event time after a round, as a typed value."""

from dataclasses import dataclass

from flowcontrol.operators.timed_states import TaskTime
from flowcontrol.protocol.event_time.states import ValveChannel

Elements = tuple[tuple[int, int], ...]
"""What is in a channel, in order: 0 and the stamp of a record, or a mark's kind and watermark."""


@dataclass(frozen=True, slots=True)
class TimeState:
    """What a subtask holds of event time.

    Attributes
    ----------
    state : TaskTime
        Its generator, or its valve.
    channels : tuple[ValveChannel, ...]
        The channels of the valve: those of all its gates, in order.
    stamp : int
        Stamp of the record that it took up last, if it has outputs; of a source: emitted last.
    in_flight : tuple[Elements, ...]
        What was put out to it and it has not taken up, by channel in the same order.
    """

    state: TaskTime
    channels: tuple[ValveChannel, ...]
    stamp: int
    in_flight: tuple[Elements, ...]

    @property
    def watermark(self) -> int:
        """The watermark that it gave out last, ms; MIN_TIME: none so far."""
        return (self.state.valve if self.channels else self.state.generator).watermark

    @property
    def is_idle(self) -> bool:
        """Whether the last status that it gave out was IDLE."""
        return (self.state.valve if self.channels else self.state.generator).is_idle == 1
