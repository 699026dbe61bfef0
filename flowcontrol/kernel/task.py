"""A subtask of the kernel: what the rules of :mod:`flowcontrol.protocol.tasks` ask of one."""

from collections.abc import Sequence
from typing import Any

from flowcontrol.kernel import ages, waits
from flowcontrol.kernel import requests as q
from flowcontrol.kernel import views as v
from flowcontrol.kernel import writing as w
from flowcontrol.kernel.ages import LATE, ROUTED, SNAPSHOT, TAKEN, keeps_journal, note_move
from flowcontrol.kernel.reports import (
    act_on_old,
    keep_cut,
    log_channels,
    log_commit,
    log_report,
    log_result,
    log_windows,
    log_writing,
    next_of_old,
    record_element,
)
from flowcontrol.kernel.runs import expect_elements, pass_runs, write_run
from flowcontrol.kernel.spilling import is_stopped
from flowcontrol.memory import fields as f
from flowcontrol.memory.cells import part_of, row, rows
from flowcontrol.memory.part_fields import KernelCheckpoints, KernelKeys, KernelWindow
from flowcontrol.memory.parts import CHECKPOINTS, JOURNAL, REQUESTS, WINDOWS
from flowcontrol.memory.places import FLAG_WINDOWS, KernelMemory
from flowcontrol.protocol.network.rounds import RECORD, next_input
from flowcontrol.protocol.service import LOGNORMAL, service_work
from flowcontrol.protocol.tasks.checkpointing import on_event
from flowcontrol.protocol.tasks.reading import written_by, written_round, written_us
from flowcontrol.protocol.tasks.windowing import take_element
from flowcontrol.protocol.windows.spark_batches import WatermarkOperator
from flowcontrol.state import network as s
from flowcontrol.state.async_wait import Element, Wait
from flowcontrol.state.queues import Queue
from flowcontrol.state.requests import Entry, Request, Requests
from flowcontrol.state.rows import Gate, Partition, Row, Rows
from flowcontrol.state.tasks import TASK_INPUT, Operator, TaskTime, ValveChannel, WindowTask
from flowcontrol.state.windows import Windows


class KernelWorker:
    """A subtask in the kernel's memory.

    - ``m``: the memory.
    - ``number``: which task it is.
    - ``task``: its row.
    """

    def __init__(self, m: KernelMemory, number: int, task: f.KernelTask) -> None:
        self.m, self.number, self.task = m, number, task

    # ---- records

    def operator(self, number: int) -> Operator:
        """Return an operator of the chain."""
        return v.operator_at(self.m, self.m[self.task.operators_at + number])

    def writer(self, number: int) -> f.KernelPartition:
        """Return a result partition."""
        return v.partition_row(self.m, self.task.first_partition + number)

    def pending(self, writer: f.KernelPartition) -> Any:
        """Return the queue of the channels of records that are routed and not written."""
        return row(self.m, writer.pending, writer.pending_width)

    def is_available(self, writer: f.KernelPartition) -> int:
        """Tell whether another record may be begun as far as a partition goes: 1 if so."""
        # Without credits nobody asks: a task waits inside a record, if it needs a buffer.
        waits = self.m.is_tcp == 0 or (writer.left_bytes > 0 and writer.pool.free == 0)
        return 0 if is_stopped(writer) == 1 and waits else 1

    def write(self, writer: f.KernelPartition, channel: int, nbytes: int) -> int:
        """Write bytes of a record to a channel, or to all; return those left over."""
        return w.write_to(self.m, writer, channel, nbytes, 0)

    def write_mark(self, writer: f.KernelPartition, channel: int, nbytes: int) -> int:
        """Write bytes of a watermark, a status or a latency marker likewise."""
        return w.write_to(self.m, writer, channel, nbytes, 1)

    def next_channel(self, writer: f.KernelPartition) -> int:
        """Return the channel of the next record, which is routed."""
        channel = w.peek_channel(self.m, writer, self.task.stamp)
        w.count_routed(self.m, writer, channel)
        return channel

    def pass_runs(self, most: int) -> int:
        """Route and write records of the buffer in hand that fit; none for a journal."""
        if keeps_journal(self.m) == 1:
            return 0
        return pass_runs(self.m, self.task, self.runs_in_hand(), most)

    def write_run(self, most: int) -> int:
        """Route and write records like the one that a source has in hand that fit."""
        return write_run(self.m, self.task, most)

    def count_bytes_taken(self, count: int) -> None:
        """Count the bytes of records that are taken up from the gate in hand, for its debloater."""
        g = v.gate_row(self.m, self.task.first_gate + self.task.gate)
        if self.m.debloat_us > 0:
            g.bytes_taken += count * g.record_bytes

    def note_routed(self, writer: f.KernelPartition, channel: int, count: int) -> None:
        """Count records as routed, and have their ages follow them."""
        m = self.m
        note_move(m, self.number, ROUTED, writer.first_channel + channel, self.task.taken, count)
        for each in range(channel, w.last_written(writer, channel) + 1):
            m[writer.routed + each] += count
            out = v.out_row(m, writer.first_channel + each)
            ages.push_run(m, out.runs, self.task.emitted, count, self.task.stamp)
            if v.in_row(m, out.input).recorded > 0:
                stamp = self.task.stamp
                record_element(m, self.task, writer.first_channel + each, count, stamp, 0)

    def draw(self) -> int:
        """Return the work of the next record, units."""
        m, task = self.m, self.task
        number = task.draws
        task.draws = number + 1
        first = w.uniform(m.seed, task.stream, 2 * number)
        second = 0.0
        if task.distribution == LOGNORMAL:
            second = w.uniform(m.seed, task.stream, 2 * number + 1)
        return service_work(task.distribution, task.cv / 1000000.0, first, second, task.unit)

    def draw_bits(self, stream: int, number: int) -> int:
        """Return 63 well-mixed bits, the ``number``-th of a stream of random numbers."""
        return w.mix_bits(self.m.seed, stream, number)

    def next_input(self, gates: Any, union: Any) -> int:
        """Make sure that the task has a record in hand, if there is one."""
        if self.m.is_tcp == 1:
            return next_of_old(self.m, self, gates, union)
        found = next_input(self.task, gates, union)
        if self.task.has_window == 1 and self.task.read == 0 and found == RECORD:
            expect_elements(self.m, self.task, self.runs_in_hand())
        return found

    def note_taken(self, count: int) -> None:
        """Note the ages of the records taken up; those of a sink are logged.

        Several are taken up at once only where no operator follows.
        """
        m, task = self.m, self.task
        note_move(m, self.number, TAKEN, task.gate, task.channel, count)
        self.count_bytes_taken(count)
        g = v.gate_row(m, task.first_gate + task.gate)
        out = v.out_row(m, v.in_row(m, g.first_channel + task.channel).out)
        if task.has_window == 1 or (task.is_timed == 1 and task.partitions > 0):
            task.stamp = ages.first_run(m, out.runs).stamp
        if task.has_requests == 1:
            q.take_in(m, task, self.number, out, count)
            m.arrived += 0 if task.awaits == 1 else count
            return
        if task.partitions == 0 and task.sinks == 0:
            ages.take_ages(m, out, self.number, m.now, count)
            m.arrived += count
            return
        while count > 0:
            part = min(count, ages.run_length(m, out.runs))
            task.emitted = ages.take_run(m, out.runs, part)
            self.note_emitted(part)
            count -= part

    def note_emitted(self, count: int) -> None:
        """Log the ages of records that reach a sink in this very task."""
        if self.task.sinks > 0:
            self.m.arrived += count
            ages.log_put_out(self.m, self.task, TASK_INPUT, count)

    def note_put_out(self, operator: int, count: int) -> None:
        """Log the ages of records that an operator puts out to sinks in this very task."""
        if self.task.sinks > 0 and count > 0:
            ages.log_put_out(self.m, self.task, operator, count)

    def of_one_time(self, most: int) -> int:
        """Say when the records were emitted that are read next; return how many there are of it."""
        m, task = self.m, self.task
        task.emitted = m.now
        log = v.source_log(m, task.log)
        if m.is_tracked == 0 or log.from_arrival == 0:
            return most
        arrivals = rows(m, log.arrivals, log.arrival_count, 3)
        task.emitted = written_round(arrivals, log.unit, log.position, m.round_us)
        end_us = (task.emitted + 1) * m.round_us
        return min(most, written_by(arrivals, log.unit, end_us) - log.position)

    # ---- requests

    @part_of(REQUESTS)
    def waits_for_requests(self) -> int:
        """Tell whether the task waits for its destination: 1 if so."""
        return q.is_waiting(self.m, self.task)

    @part_of(REQUESTS)
    def room_for_requests(self) -> int:
        """Return how many records it may take up before it may have to wait, at least 1."""
        return q.room_for(self.m, self.task)

    @part_of(REQUESTS)
    def write_requests(self) -> int:
        """Write the records that are processed, as far as the task does not wait."""
        q.write_taken(self.m, self, self.task)
        return 0

    @part_of(REQUESTS)
    def flush_requests(self) -> int:
        """Begin to wait until no request is in flight; return 1 if none is."""
        return q.flush_all(self.m, self, self.task)

    @part_of(REQUESTS)
    def end_requests(self) -> int:
        """Send what is left when the input is over; return 1 when all of it is acknowledged."""
        return q.end_requests(self.m, self)

    @part_of(REQUESTS)
    def submit(self, requests: Requests, request: Request, now: int) -> int:
        """Have the destination say when it answers a request, and what fails of it."""
        q.submit(self.m, self, requests, request)
        return 0

    @part_of(REQUESTS)
    def finds(self, wait: Wait, element: Element) -> int:
        """Tell whether a cache has the answer to a record: 1 if so."""
        return waits.is_cached(self.m, q.kernel_requests(self.m, self.task.requests), wait, element)

    @part_of(REQUESTS)
    def may_emit(self) -> int:
        """Tell whether nothing waits for an output: 1 if so, 2 if a record may be taken up too."""
        return waits.may_emit(self)

    @part_of(REQUESTS)
    def emit(self, wait: Wait, element: Element) -> int:
        """Put out the record of an element that leaves the queue."""
        waits.emit(self, wait, element)
        return 0

    @part_of(REQUESTS)
    def queue_marks(self, done: int) -> int:
        """Put what the valve has given out behind the records in the queue of its calls."""
        return q.queue_marks(self.m, self, done)

    @part_of(REQUESTS)
    def acknowledge(self, entry: Entry, due: int, heard: int) -> int:
        """Log the ages of records that the destination has stored, if the task hears of it."""
        q.acknowledge(self.m, self.number, entry, due, heard)
        return 0

    # ---- checkpoints

    def held(self) -> KernelCheckpoints:
        """Return what it holds of them, and where the rest is."""
        return v.kernel_checkpoints(self.m, self.task.checkpoints)

    def checkpoint_state(self) -> s.TaskCheckpoint:
        """Return what the task knows of checkpoints."""
        return v.kernel_checkpoints(self.m, self.task.checkpoints).own

    def alignment(self) -> s.Alignment:
        """Return its alignment."""
        return v.kernel_checkpoints(self.m, self.task.checkpoints).alignment

    def aligned(self) -> Sequence[s.AlignedChannel]:
        """Return the channels of that, those of all gates in order."""
        held = v.kernel_checkpoints(self.m, self.task.checkpoints)
        return v.aligned_channels(self.m, held.channels, held.channel_count)

    def tracked(self) -> Queue[s.TrackedCheckpoint]:
        """Return the checkpoints that an at-least-once task counts."""
        held = v.kernel_checkpoints(self.m, self.task.checkpoints)
        return v.tracked_queue(self.m, held.tracked, held.tracked_most)

    def triggers(self) -> Queue[s.CoordinatorMessage]:
        """Return the checkpoints that a source has been asked for, oldest first."""
        held = v.kernel_checkpoints(self.m, self.task.checkpoints)
        return v.coordinator_queue(self.m, held.triggers, held.messages_most)

    def aborted(self) -> Queue[s.CoordinatorMessage]:
        """Return the checkpoints that the coordinator has aborted, oldest first."""
        held = v.kernel_checkpoints(self.m, self.task.checkpoints)
        return v.coordinator_queue(self.m, held.aborted, held.messages_most)

    def input_gates(self) -> Sequence[Gate]:
        """Return its gates."""
        gates: Any = v.gates_of(self.m, self.task.first_gate)
        return gates

    def gate_record_bytes(self, number: int) -> int:
        """Return the size of a gate's records, bytes."""
        return v.gate_row(self.m, self.task.first_gate + number).record_bytes

    def gates_with_data(self) -> Row:
        """Return its queue of gates with data."""
        union: Row = v.union_of(self.m, self.task)
        return union

    def event_partition(self, number: int) -> Partition:
        """Return a result partition, into which an event is going to be put."""
        return w.event_partition(self.m, self.task.first_partition + number)

    def note_barrier(self, number: int) -> None:
        """Have the task wait while a barrier in a result partition has no permit."""
        if self.m.counts_records == 1:
            w.note_barriers_of(self.m, v.partition_of(self.m, self.task.first_partition + number))

    def is_forced(self, number: int) -> int:
        """Tell whether a partition's receivers align whatever the mode is: 1 if so."""
        return v.partition_row(self.m, self.task.first_partition + number).is_forced

    def round_number(self) -> int:
        """Return the round."""
        return self.m.now

    def now_us(self) -> int:
        """Return the start of the round, microseconds of the run."""
        return self.m.now * self.m.round_us

    def service_phases(self) -> Rows:
        """Return its rate, as rows of work; none of a task that works in no time."""
        phases: Rows = rows(self.m, self.task.phases, self.task.phase_count, 3)
        return phases

    def snapshot(self, checkpoint: int) -> None:
        """Take the state, from which an attempt begins after a failure."""
        note_move(self.m, self.number, SNAPSHOT, checkpoint, 0, 0)
        if self.m.may_fail == 1 and self.task.has_requests == 1:
            q.keep_buffer(self.m, self.task)
        keep_cut(self.m, self.held(), checkpoint)
        if self.m.may_fail == 1 and self.task.is_timed == 1:
            log_channels(self.m, self.task, checkpoint)
            log_windows(self.m, self, checkpoint)

    def report(self, kind: int, checkpoint: int, reason: int) -> None:
        """Tell the coordinator what has become of a checkpoint, with what was measured."""
        log_report(self.m, self, kind, checkpoint, reason)

    def report_commit(self, checkpoint: int, length: int, count: int, files: int) -> None:
        """Say that the task begins to commit so many checkpoints, for so many microseconds."""
        log_commit(self.m, self.number, checkpoint, length, count * files)

    def report_writing(self, before: int) -> None:
        """Say that the task takes up records in this round, behind so many before it."""
        log_writing(self.m, self.number, before)

    @part_of(CHECKPOINTS)
    def on_event(self) -> int:
        """Act on the event that the task has polled in its turn; return 1 if it then stands still.

        Called where there are checkpoints.
        """
        self.task.in_checkpoint = 1
        if self.m.is_tcp == 1 and self.held().aside > 0:
            return act_on_old(self.m, self)
        return on_event(self, self.task)

    # ---- event time

    def task_time(self) -> TaskTime:
        """Return what it holds of event time."""
        return v.kernel_time(self.m, self.task.time).own

    def valve_channels(self) -> Sequence[ValveChannel]:
        """Return the channels of its valve, those of all gates in order."""
        held = v.kernel_time(self.m, self.task.time)
        return v.valve_channel_rows(self.m, held.channels, held.channel_count)

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
        """Return how many of the next records, at most ``most``, come before the next mark."""
        return ages.records_before_mark(self.m, self.runs_in_hand(), most)

    def first_mark(self) -> f.Run:
        """Return the next mark of the buffer in hand: its kind, and its watermark as the stamp."""
        return ages.first_run(self.m, self.runs_in_hand())

    def drop_mark(self) -> None:
        """Take it out of the channel."""
        ages.drop_mark(self.m, self.runs_in_hand())

    def report_latency(self, marked_us: int) -> None:
        """Log how old a latency marker is that its operators have seen, behind all tasks' ages."""
        m = self.m
        ages.log_age(m, m.tasks + self.number, m.now - marked_us // m.round_us, 1)

    def note_mark(self, writer: f.KernelPartition, channel: int, kind: int, watermark: int) -> None:
        """Have a mark enter a channel, behind what was routed to it; one of a broadcast all."""
        for each in range(channel, w.last_written(writer, channel) + 1):
            out = v.out_row(self.m, writer.first_channel + each)
            ages.push_mark(self.m, out.runs, kind, watermark)
            if v.in_row(self.m, out.input).recorded > 0:
                number = writer.first_channel + each
                record_element(self.m, self.task, number, 0, watermark, kind)

    def written_apart(self, writer: f.KernelPartition) -> int:
        """Return to how many channels a mark is written one by one; 1 of a broadcast."""
        return 1 if writer.is_broadcast == 1 else writer.channels

    def born_ms(self) -> int:
        """Return when the record that is being emitted came to be, ms of the run.

        The start of the round, or when it was written to the log that the source reads.
        """
        m, task = self.m, self.task
        if m.has_readers == 1 and task.kind == f.READER:
            log = v.source_log(m, task.log)
            arrivals = rows(m, log.arrivals, log.arrival_count, 3)
            return written_us(arrivals, log.unit, task.taken - 1) // 1000
        return task.emitted * m.round_us // 1000

    def stamp_of_row(self, number: int) -> int:
        """Return the stamp of a replayed row, the ``number``-th of this source."""
        return self.m[v.kernel_time(self.m, self.task.time).stamps + number]

    # ---- windows

    def window_held(self) -> KernelWindow:
        """Return where what it holds of its windows is."""
        return v.kernel_window(self.m, self.task.window)

    def window_task(self) -> WindowTask:
        """Return what it holds of its windows besides them."""
        return v.kernel_window(self.m, self.task.window).own

    def windows(self) -> Windows:
        """Return its windows."""
        return v.windows_of(self.m, self.window_held())

    def watermark_operators(self) -> Sequence[WatermarkOperator]:
        """Return what it has seen of each input, a gate each; of a job with Spark's time."""
        held = self.window_held()
        return v.watermark_operators(self.m, held.operators, held.operator_count)

    def gate_keys(self, gate: int) -> KernelKeys:
        """Return the keys of the records of a gate."""
        return v.key_rows(self.m, self.window_held().keys, self.task.gates)[gate]

    def first_ids(self, gate: int) -> Any:
        """Return the first id of each key of the records of a gate; empty: keys are alike."""
        keys = self.gate_keys(gate)
        return row(self.m, keys.firsts, keys.first_count)

    def guide(self, gate: int) -> Any:
        """Return the guide to those; empty: there is none."""
        keys = self.gate_keys(gate)
        return row(self.m, keys.guide, keys.guide_count)

    def keys_of_ids(self, gate: int) -> Any:
        """Return the key of each id of the records of a gate; empty: they are made."""
        keys = self.gate_keys(gate)
        return row(self.m, keys.numbers, keys.number_count)

    def values_of_ids(self) -> Any:
        """Return the value of each id in the first column; empty: records are counted alone."""
        held = self.window_held()
        return row(self.m, held.values, held.value_count)

    def make_room(self) -> None:
        """Have the run begin again with room for more windows."""
        self.m.flags |= FLAG_WINDOWS

    def note_result(self) -> None:
        """Log the result that the windows' store has."""
        log_result(self.m, self)

    @part_of(WINDOWS)
    def take_element(self, may_write: int) -> None:
        """Put the record that has been taken up into its windows, and put out what that causes.

        Called where the first operator is a window.
        """
        late = late_so_far(self.m, self.window_held())
        take_element(self, self.task, may_write)
        if late_so_far(self.m, self.window_held()) > late:
            note_move(self.m, self.number, LATE, 0, 0, self.task.taken)


@part_of(JOURNAL)
def late_so_far(m: KernelMemory, held: KernelWindow) -> int:
    """Return how many records came too late for every window."""
    return held.store.late


def worker_of(m: KernelMemory, number: int, task: f.KernelTask) -> KernelWorker:
    """Return a task as a worker."""
    return KernelWorker(m, number, task)
