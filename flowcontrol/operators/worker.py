"""What the loop of a task asks of a clock."""

from collections.abc import Sequence
from typing import Protocol, TypeVar

from flowcontrol.operators.states import Operator, RecordWriter
from flowcontrol.protocol.rows import Row
from flowcontrol.protocol.sides import Gate

W = TypeVar("W", bound=RecordWriter)


class Worker(Protocol[W]):
    """One subtask on a clock: where its operators and outputs are, and what only the clock knows.

    The kernel has one in :mod:`flowcontrol.virtual.task`, whose methods numba compiles as they
    stand; :class:`flowcontrol.job.subtask.Subtask` is one too.
    """

    def operator(self, number: int) -> Operator:
        """Return an operator of the chain."""

    def writer(self, number: int) -> W:
        """Return what writes to a result partition."""

    def pending(self, writer: W) -> Row:
        """Return the queue of the channels of records that are routed and not written."""

    def is_available(self, writer: W) -> int:
        """Tell whether another record may be begun as far as a partition goes: 1 if so."""

    def write(self, writer: W, channel: int, nbytes: int) -> int:
        """Write bytes of one record to a channel, or to all; return those left over."""

    def write_mark(self, writer: W, channel: int, nbytes: int) -> int:
        """Write bytes of a watermark or a status likewise; of a job with event time."""

    def write_whole(self, writer: W, most: int) -> int:
        """Write the records that fit into the only channel's open buffer without filling it.

        Nothing that a task looks at between two records changes. Return how many they are.
        """

    def next_channel(self, writer: W) -> int:
        """Return the channel of the next record."""

    def note_routed(self, writer: W, channel: int, count: int) -> None:
        """Take notice that records were routed to a channel; one of a broadcast to all."""

    def draw(self) -> int:
        """Return the work of the next record, units, where service times vary."""

    def next_input(self, gates: Sequence[Gate], union: Row) -> int:
        """Make sure that the task has a record in hand, if there is one.

        Returns what :func:`flowcontrol.protocol.rounds.next_input` does.
        """

    def note_taken(self, count: int) -> None:
        """Take notice that records of the buffer in hand are about to be taken up."""

    def note_emitted(self, count: int) -> None:
        """Take notice that records were emitted."""

    def note_put_out(self, operator: int, count: int) -> None:
        """Take notice that an operator has put out records, or none."""

    def on_event(self) -> int:
        """Act on the event that the task has polled; return 1 if it then stands still.

        Called where there are checkpoints.
        """

    def before_mark(self, most: int) -> int:
        """Return how many of the next records come before the next mark of the buffer in hand.

        Called while there is one; at most ``most``.
        """

    def on_mark(self) -> None:
        """Act on the watermark or the status that comes next in the buffer in hand."""

    def begin_event(self) -> None:
        """Give the record that a source is about to put out its event time."""

    def end_event(self) -> None:
        """Take notice that it is put out."""

    def is_paused(self) -> int:
        """Tell whether a source may not begin a record, since it is ahead of its group: 1 if so.

        Called of a source whose group is aligned.
        """

    def take_element(self, may_write: int) -> None:
        """Put the record that has been taken up into its windows, and put out what that causes.

        Called where the first operator is a window, as :meth:`fire_next` is.
        """

    def fire_next(self, may_write: int) -> int:
        """Go on with a burst of results: 0 if it is over."""

    def of_one_time(self, most: int) -> int:
        """Take notice that records of its log are read next; return how many of them at once.

        Their latency counts from one moment; at least 1, and at most ``most``.
        """
