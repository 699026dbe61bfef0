"""What event time asks of a clock, beside what the loop of a task does."""

from collections.abc import Sequence
from typing import Protocol

from flowcontrol.operators.timed_states import TaskTime
from flowcontrol.operators.worker import W, Worker
from flowcontrol.protocol.event_time.states import ValveChannel


class TimedWorker(Worker[W], Protocol[W]):
    """A subtask of a job with event time."""

    def task_time(self) -> TaskTime:
        """Return what it holds of event time."""

    def valve_channels(self) -> Sequence[ValveChannel]:
        """Return the channels of its valve, those of all gates in order."""

    def valve_place(self) -> int:
        """Return the place among those of the channel whose buffer it has in hand."""

    def mark_kind(self) -> int:
        """Return what the next mark of that channel is: ACTIVE, WATERMARK, IDLE or MARKER."""

    def mark_watermark(self) -> int:
        """Return the watermark of that one, ms; of a MARKER when it was marked, microseconds."""

    def drop_mark(self) -> None:
        """Take it out of the channel."""

    def count_mark(self, place: int, nbytes: int) -> None:
        """Count the bytes of a mark that was taken from a channel of the valve.

        Called where there are checkpoints.
        """

    def hear_valve(self, done: int) -> None:
        """Take what the valve has given out, where the first operator is a window."""

    def hear_marker(self, marked_us: int) -> None:
        """Take notice of a latency marker that all operators of the task have seen in this round.

        Of a task of a source all but the source itself.
        """

    def note_mark(self, writer: W, channel: int, kind: int, watermark: int) -> None:
        """Have a mark enter a channel, behind what was routed to it; one of a broadcast all."""

    def written_apart(self, writer: W) -> int:
        """Return to how many channels a mark is written one by one; 1 of a broadcast."""

    def born_ms(self) -> int:
        """Return when the record that is being emitted came to be, ms of the run.

        The start of the round, or when it was written to the log that the source reads.
        """

    def stamp_of_row(self, number: int) -> int:
        """Return the stamp of a replayed row, the ``number``-th of this source."""

    def draw_bits(self, stream: int, number: int) -> int:
        """Return 63 well-mixed bits, the ``number``-th of a stream of random numbers."""

    def run_us(self) -> int:
        """Return the start of the round, microseconds of the run."""

    def blocked_us(self) -> int:
        """Return for how long it has been back-pressured before this round, microseconds."""
