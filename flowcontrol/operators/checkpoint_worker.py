"""What checkpoints ask of a clock, beside what the loop of a task does."""

from collections.abc import Sequence
from typing import Protocol

from flowcontrol.operators.worker import W, Worker
from flowcontrol.protocol.checkpoints.alignment import Channels
from flowcontrol.protocol.queues import Queue
from flowcontrol.protocol.rows import Row, Rows
from flowcontrol.protocol.sides import Gate, Partition
from flowcontrol.protocol.states import (
    Alignment,
    CoordinatorMessage,
    TaskCheckpoint,
    TrackedCheckpoint,
)


class CheckpointWorker(Worker[W], Protocol[W]):
    """A subtask of a job with checkpoints; times are microseconds of the run."""

    def checkpoint_state(self) -> TaskCheckpoint:
        """Return what the task knows of checkpoints."""

    def alignment(self) -> Alignment:
        """Return its alignment."""

    def aligned(self) -> Channels:
        """Return the channels of that, those of all gates in order."""

    def tracked(self) -> Queue[TrackedCheckpoint]:
        """Return the checkpoints that an at-least-once task counts."""

    def triggers(self) -> Queue[CoordinatorMessage]:
        """Return the checkpoints that a source has been asked for, oldest first."""

    def aborted(self) -> Queue[CoordinatorMessage]:
        """Return the checkpoints that the coordinator has aborted, oldest first."""

    def gate_count(self) -> int:
        """Return how many gates it has."""

    def input_gates(self) -> Sequence[Gate]:
        """Return its gates."""

    def gate_record_bytes(self, number: int) -> int:
        """Return the size of a gate's records, bytes."""

    def gates_with_data(self) -> Row:
        """Return its queue of gates with data."""

    def event_partition(self, number: int) -> Partition:
        """Return a result partition, into which an event is going to be put."""

    def note_barrier(self, number: int) -> None:
        """Take notice of a barrier in a result partition: the task may have to wait with it."""

    def is_forced(self, number: int) -> int:
        """Tell whether a partition's receivers align whatever the mode is: 1 if so."""

    def round_number(self) -> int:
        """Return the round."""

    def now_us(self) -> int:
        """Return the start of the round."""

    def service_phases(self) -> Rows:
        """Return its rate, as :func:`flowcontrol.protocol.service.work_by` takes it."""

    def snapshot(self, checkpoint: int) -> None:
        """Take the state: what the synchronous part of a snapshot does."""

    def stop_time(self) -> None:
        """Have a source give out no watermark any more; of a job with event time."""

    def report(self, kind: int, checkpoint: int, reason: int) -> None:
        """Tell the coordinator what has become of a checkpoint, with what was measured."""

    def report_writing(self, before: int) -> None:
        """Say that the task takes up records in this round, behind so many before it."""
