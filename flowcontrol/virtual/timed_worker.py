"""A subtask of the kernel, as :mod:`flowcontrol.operators.event_time` sees it."""

from collections.abc import Sequence
from typing import Any

from flowcontrol.operators.aligning import note_idle
from flowcontrol.operators.event_time import (
    begin_event,
    end_event,
    end_time,
    look_at_probe,
    on_mark,
    stop_time,
)
from flowcontrol.operators.marking import look_at_marker
from flowcontrol.operators.source_log import written_us
from flowcontrol.operators.timed_states import TaskTime
from flowcontrol.protocol.event_time.states import ValveChannel
from flowcontrol.virtual import fields as f
from flowcontrol.virtual import views as v
from flowcontrol.virtual.ages import drop_mark, first_run, log_age, push_mark, records_before_mark
from flowcontrol.virtual.cells import rows, rows_of, state_of
from flowcontrol.virtual.checkpoint_worker import CheckpointedWorker
from flowcontrol.virtual.cut_logs import record_element
from flowcontrol.virtual.header import KernelMemory
from flowcontrol.virtual.parts import ALIGNMENT, CHECKPOINTS, EVENT_TIME, MARKERS
from flowcontrol.virtual.registry import part_of
from flowcontrol.virtual.time_fields import KernelTime

kernel_time = state_of(KernelTime)
valve_channel_rows = rows_of(ValveChannel)


class TimedKernelWorker(CheckpointedWorker):
    """What a task holds of event time; a base of a task of the kernel: a ``TimedWorker``."""

    def task_time(self) -> TaskTime:
        """Return what it holds of event time."""
        return kernel_time(self.m, self.task.time).own

    def valve_channels(self) -> Sequence[ValveChannel]:
        """Return the channels of its valve, those of all gates in order."""
        held = kernel_time(self.m, self.task.time)
        return valve_channel_rows(self.m, held.channels, held.channel_count)

    def valve_place(self) -> int:
        """Return the place among those of the channel whose buffer it has in hand."""
        place = self.task.channel
        for i in range(self.task.gate):
            place += v.gate_row(self.m, self.task.first_gate + i).channels
        return place

    def runs_in_hand(self) -> f.RunList:
        """Return what is in the channel whose buffer it has in hand."""
        g = v.gate_row(self.m, self.task.first_gate + self.task.gate)
        return v.out_row(self.m, v.in_row(self.m, g.first_channel + self.task.channel).out).runs

    def before_mark(self, most: int) -> int:
        """Return how many of the next records come before the next mark of the buffer in hand."""
        return records_before_mark(self.m, self.runs_in_hand(), most)

    def mark_kind(self) -> int:
        """Return what the next mark of that channel is."""
        return first_run(self.m, self.runs_in_hand()).kind

    def mark_watermark(self) -> int:
        """Return the watermark of that one, ms."""
        return first_run(self.m, self.runs_in_hand()).stamp

    def drop_mark(self) -> None:
        """Take it out of the channel."""
        drop_mark(self.m, self.runs_in_hand())

    def hear_marker(self, marked_us: int) -> None:
        """Log how old a latency marker is that its operators have seen, behind all tasks' ages."""
        m = self.m
        log_age(m, m.tasks + self.number, m.now - marked_us // m.round_us, 1)

    def note_mark(self, writer: f.KernelPartition, channel: int, kind: int, watermark: int) -> None:
        """Have a mark enter a channel, behind what was routed to it; one of a broadcast all."""
        last = writer.channels - 1 if writer.is_broadcast == 1 else channel
        for each in range(channel, last + 1):
            out = v.out_row(self.m, writer.first_channel + each)
            push_mark(self.m, out.runs, kind, watermark)
            if v.in_row(self.m, out.input).recorded > 0:
                number = writer.first_channel + each
                record_element(self.m, self.task, number, 0, watermark, kind)

    def written_apart(self, writer: f.KernelPartition) -> int:
        """Return to how many channels a mark is written one by one; 1 of a broadcast."""
        return 1 if writer.is_broadcast == 1 else writer.channels

    def born_ms(self) -> int:
        """Return when the record that is being emitted came to be, ms of the run."""
        if self.m.has_readers == 1 and self.task.kind == f.READER:
            return written_ms(self.m, self.task)
        return self.task.emitted * self.m.round_us // 1000

    def stamp_of_row(self, number: int) -> int:
        """Return the stamp of a replayed row, the ``number``-th of this source."""
        return self.m[kernel_time(self.m, self.task.time).stamps + number]

    def run_us(self) -> int:
        """Return the start of the round, microseconds of the run."""
        return self.m.now * self.m.round_us

    def blocked_us(self) -> int:
        """Return for how long it has been back-pressured before this round, microseconds."""
        return self.task.blocked

    def stop_time(self) -> None:
        """Have a source give out no watermark any more."""
        stop_times(self.m, self)

    def count_mark(self, place: int, nbytes: int) -> None:
        """Count the bytes of a mark that was taken from a channel."""
        count_mark_bytes(self.m, self, place, nbytes)

    def on_mark(self) -> None:
        """Act on the watermark or the status that comes next in the buffer in hand."""
        act_on_mark(self.m, self)

    def begin_event(self) -> None:
        """Give the record that it is about to put out its event time."""
        stamp_record(self.m, self)

    def end_event(self) -> None:
        """Take notice that it is put out."""
        note_event(self.m, self)

    def is_paused(self) -> int:
        """Tell whether it may not begin a record, since it is ahead of its group: 1 if so."""
        return is_paused(self.m, self.task)


def written_ms(m: KernelMemory, task: f.KernelTask) -> int:
    """Return when the record was written that a source reads from its log, ms of the run."""
    log = v.source_log(m, task.log)
    return written_us(rows(m, log.arrivals, log.arrival_count, 3), log.unit, task.taken - 1) // 1000


@part_of(ALIGNMENT)
def is_paused(m: KernelMemory, task: f.KernelTask) -> int:
    """Tell whether a source may not begin a record, since it is ahead of its group: 1 if so."""
    return kernel_time(m, task.time).own.aligned.is_paused


@part_of(ALIGNMENT)
def note_pause(m: KernelMemory, task: f.KernelTask, idle_us: int) -> None:
    """Count the time for which a source was idle, microseconds, if it is paused."""
    note_idle(kernel_time(m, task.time).own, idle_us)


@part_of(EVENT_TIME)
def act_on_mark(m: KernelMemory, worker: Any) -> None:
    """Have a task take the next mark of the buffer in hand."""
    on_mark(worker, worker.task, v.gates_of(m, worker.task.first_gate))


@part_of(EVENT_TIME)
def stamp_record(m: KernelMemory, worker: Any) -> None:
    """Give the record that a source is about to put out its event time."""
    begin_event(worker, worker.task)


@part_of(EVENT_TIME)
def note_event(m: KernelMemory, worker: Any) -> None:
    """Have a source take notice of the record that it has put out."""
    end_event(worker, worker.task)


@part_of(EVENT_TIME)
def probe(m: KernelMemory, worker: Any, start: int, end: int) -> None:
    """Have a source probe its generator, if that is due."""
    look_at_probe(worker, worker.task, start, end)


@part_of(MARKERS)
def mark_time(m: KernelMemory, worker: Any, start: int, end: int) -> None:
    """Have a source give out a latency marker, if that is due."""
    look_at_marker(worker, worker.task, start, end)


@part_of(EVENT_TIME)
def end_times(m: KernelMemory, worker: Any) -> None:
    """Have a source that has ended give out the last watermark."""
    end_time(worker, worker.task)


@part_of(EVENT_TIME)
def stop_times(m: KernelMemory, worker: Any) -> None:
    """Have a source give out no watermark any more."""
    stop_time(worker.task_time())


@part_of(CHECKPOINTS)
def count_mark_bytes(m: KernelMemory, worker: Any, place: int, nbytes: int) -> None:
    """Count the bytes of a mark that a task has taken from a channel."""
    channel = worker.aligned()[place]
    channel.marks += 1
    channel.mark_bytes += nbytes


@part_of(EVENT_TIME)
def next_probe_us(m: KernelMemory, worker: Any) -> int:
    """Return when a source is probed or marks next, microseconds of the run; -1: never."""
    time = worker.task_time()
    if worker.task.has_markers == 0 or time.next_marker < 0:
        return time.next_probe
    return time.next_marker if time.next_probe < 0 else min(time.next_probe, time.next_marker)
