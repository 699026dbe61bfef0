"""What a subtask has of event time, as :mod:`flowcontrol.operators.event_time` asks for it."""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import cast

import numpy as np
import numpy.typing as npt

from flowcontrol.job.channel_elements import ChannelElements
from flowcontrol.job.exchanged import Incoming
from flowcontrol.job.graph import JobVertex
from flowcontrol.job.job import Job
from flowcontrol.job.routing import Output, mix
from flowcontrol.job.row_keys import row_of
from flowcontrol.job.source_logs import Arrivals
from flowcontrol.job.timed_settings import is_timed, new_time, timed_flags
from flowcontrol.operators import event_time as t
from flowcontrol.operators.aligning import hear_allowed, note_idle, reported
from flowcontrol.operators.marking import look_at_marker
from flowcontrol.operators.source_log import append_up_to
from flowcontrol.operators.states import SourceLog, StreamTask
from flowcontrol.operators.timed_states import TaskTime
from flowcontrol.operators.timed_worker import TimedWorker
from flowcontrol.protocol.event_time.states import ValveChannel
from flowcontrol.protocol.rows import Row
from flowcontrol.protocol.sides import Gate, Partition

Ints = npt.NDArray[np.int64]


@dataclass(slots=True)
class TimeRows:
    """The rows that the rules of event time work on, of one subtask.

    Attributes
    ----------
    state : TaskTime
        Its generator, or its valve.
    channels : list of ValveChannel
        The channels of that, of all gates, in order.
    inputs, outputs : list of list of ChannelElements
        What is in the channels of each gate and of each result partition.
    stamps : Row
        Stamps of the rows that it replays, if they have some; else empty.
    blocked_us : int
        For how long it has been back-pressured before this round.
    paused_before_us : int
        For how long earlier attempts have stood because they were paused, beyond its own count.
    marked_us : list of int
        When the latency markers were marked that its operators have seen in this round.
    fell_due : deque of (int, int)
        Of a throttle's log: its end, and the round in which it came there, as far as not read.
    """

    state: TaskTime
    channels: list[ValveChannel]
    inputs: list[list[ChannelElements]]
    outputs: list[list[ChannelElements]]
    stamps: Row
    blocked_us: int = 0
    marked_us: list[int] = field(default_factory=list)
    fell_due: deque[tuple[int, int]] = field(default_factory=deque)
    paused_before_us: int = 0

    def carry_on(self, before: "TimeRows") -> None:
        """Have counters of results go on, those of a fresh subtask behind an earlier attempt's."""
        paused_us = before.state.paused_us - self.state.paused_us
        self.paused_before_us = before.paused_before_us + paused_us


class TimedTask:
    """The side of a subtask that the rules of event time see: a ``TimedWorker``.

    Attributes
    ----------
    time : TimeRows or None
        None: the job has no event time.
    """

    job: Job
    plan: JobVertex
    index: int
    task: StreamTask
    gates: list[Gate]
    partitions: list[Partition]
    arrivals: Arrivals | None
    _round: int

    def _prepare_time(self, stamps: Ints | None) -> None:
        """Make the rows of a subtask, if the job has event time; rows replayed may have stamps."""
        self.time: TimeRows | None = None
        if is_timed(self.job):
            for name, value in timed_flags(self.job, self.plan).items():
                setattr(self.task, name, value)
            inputs = [[ChannelElements() for _ in gate.channels] for gate in self.gates]
            self.time = TimeRows(
                new_time(self.job, self.plan, self.index, brings_stamps=stamps is not None),
                [ValveChannel() for gate in inputs for _ in gate],
                inputs,
                [[self._new_elements() for _ in part.channels] for part in self.partitions],
                row_of(stamps),
            )

    def _hear_marks(self, incoming: Sequence[Sequence[Incoming]]) -> None:
        """Put the marks that other processes have sent into their channels."""
        for seen, gate in zip(
            incoming, [] if self.time is None else self.time.inputs, strict=False
        ):
            for state, elements in zip(seen, gate, strict=True):
                elements.marks.extend(state.marks)

    def _new_elements(self) -> ChannelElements:
        """Return an empty channel; one of a job that may fail remembers what was in it."""
        return ChannelElements(passed=None if self.job.faults is None else [])

    @property
    def _times(self) -> TimeRows:
        assert self.time is not None
        return self.time

    @property
    def _in_hand(self) -> ChannelElements:
        """What is in the channel whose buffer the task has in hand."""
        return self._times.inputs[self.task.gate][self.task.channel]

    def stamps_of(self, gate: int, channel: int, first: int, count: int) -> list[int]:
        """Return the stamps of records that wait in a channel, by their numbers in it."""
        return self._times.inputs[gate][channel].stamps_of(first, count)

    def _take_stamps(self, count: int) -> None:
        """Take records out of the channel in hand; the last one's stamp is that of its outputs."""
        gate, channel, found = self.task.gate, self.task.channel, self._in_hand
        passes_on = self.task.partitions > 0 or self.task.has_window == 1
        if passes_on and self.task.has_stamps == 1:
            [self.task.stamp] = self.stamps_of(gate, channel, found.taken + count - 1, 1)
        found.take(count)

    def _note_stamps(self, writer: Output, channel: int, count: int) -> None:
        """Have records with the stamp in hand enter a channel, or all channels of a broadcast."""
        for elements in self._entered(writer, channel):
            elements.add_records(self.task.stamp, count)

    def _entered(self, writer: Output, channel: int) -> list[ChannelElements]:
        number = next(i for i, own in enumerate(self.partitions) if own is writer.partition)
        outputs = self._times.outputs[number]
        return outputs if writer.partition.is_broadcast else [outputs[channel]]

    def _look_at_time(self, start: int, end: int) -> None:
        """Have a source probe its generator and mark the time, if that is due."""
        self._times.marked_us.clear()
        t.look_at_probe(self._worker, self.task, start, end)
        if self.task.has_markers == 1:
            look_at_marker(self._worker, self.task, start, end)

    def _count_time(self) -> None:
        """Count the time of a round, as far as the clock of idleness stands in it."""
        self._times.blocked_us += self.task.blocked
        if self.task.is_aligned == 1:
            note_idle(self._times.state, self.task.idle)

    # ------------------------------------------------------------------ of a group of sources

    def reported_watermark(self) -> int:
        """Return the watermark that it reports to its group, ms; MIN_TIME: none."""
        return reported(self._times.state)

    def hear_allowed(self, allowed: int) -> None:
        """Hear before a round which watermark its group allows it, ms."""
        hear_allowed(self._times.state, allowed)

    # ------------------------------------------------------------------ as a TimedWorker

    def task_time(self) -> TaskTime:
        """Return what it holds of event time."""
        return self._times.state

    def valve_channels(self) -> list[ValveChannel]:
        """Return the channels of its valve, those of all gates in order."""
        return self._times.channels

    def valve_place(self) -> int:
        """Return the place among those of the channel whose buffer it has in hand."""
        before = self.gates[: self.task.gate]
        return sum(len(gate.channels) for gate in before) + self.task.channel

    def before_mark(self, most: int) -> int:
        """Return how many of the next records come before the next mark of the buffer in hand."""
        found = self._in_hand
        return min(most, found.marks[0].before - found.taken)

    def mark_kind(self) -> int:
        """Return what the next mark of the channel in hand is."""
        return self._in_hand.marks[0].kind

    def mark_watermark(self) -> int:
        """Return the watermark of that one, ms."""
        return self._in_hand.marks[0].watermark

    def drop_mark(self) -> None:
        """Take it out of the channel."""
        self._in_hand.take_mark()

    def hear_marker(self, marked_us: int) -> None:
        """Take notice of a latency marker that its operators have seen."""
        self._times.marked_us.append(marked_us)

    def note_mark(self, writer: Output, channel: int, kind: int, watermark: int) -> None:
        """Have a mark enter a channel, behind what was routed to it; one of a broadcast all."""
        for elements in self._entered(writer, channel):
            elements.add_mark(kind, watermark)

    def written_apart(self, writer: Output) -> int:
        """Return to how many channels a mark is written one by one; 1 of a broadcast."""
        return 1 if writer.partition.is_broadcast else len(writer.partition.channels)

    def born_ms(self) -> int:
        """Return when the record that is being emitted came to be, ms of the run."""
        if self.arrivals is None:
            return self._due_round() * self.job.round_us // 1000
        return self.arrivals.written_us(self.task.taken - 1) // 1000

    def _append_due(self, log: SourceLog, count: int) -> None:
        """Have the log of a throttle hold what falls due in a round."""
        before = log.end
        append_up_to(log, before + count, self.task.limit)
        if self.time is not None and log.end > before:
            self.time.fell_due.append((log.end, self._round))

    def _due_round(self) -> int:
        """Return the round in which the record that is being emitted fell due."""
        fell_due = self._times.fell_due
        while fell_due and fell_due[0][0] < self.task.taken:
            fell_due.popleft()
        return fell_due[0][1] if fell_due else self._round

    def stamp_of_row(self, number: int) -> int:
        """Return the stamp of a replayed row, the ``number``-th of this source."""
        return self._times.stamps[number]

    def draw_bits(self, stream: int, number: int) -> int:
        """Return 63 well-mixed bits, the ``number``-th of a stream of random numbers."""
        return mix(self.job.scenario.seed, stream, number) >> 1

    def run_us(self) -> int:
        """Return the start of the round, microseconds of the run."""
        return self._round * self.job.round_us

    def blocked_us(self) -> int:
        """Return for how long it has been back-pressured before this round, microseconds."""
        return self._times.blocked_us

    def stop_time(self) -> None:
        """Have a source give out no watermark any more."""
        t.stop_time(self._times.state)

    def on_mark(self) -> None:
        """Act on the watermark or the status that comes next in the buffer in hand."""
        t.on_mark(self._worker, self.task, self.gates)

    def begin_event(self) -> None:
        """Give the record that it is about to put out its event time."""
        t.begin_event(self._worker, self.task)

    def end_event(self) -> None:
        """Take notice that it is put out."""
        t.end_event(self._worker, self.task)

    def is_paused(self) -> int:
        """Tell whether it may not begin a record, since it is ahead of its group: 1 if so."""
        return self._times.state.aligned.is_paused

    @property
    def _worker(self) -> TimedWorker[Output]:
        """Itself: a subtask has the rest of a worker."""
        return cast(TimedWorker[Output], self)
