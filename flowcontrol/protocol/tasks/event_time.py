"""What a task does about event time in a round: stamps, watermarks, alignment.

A source stamps what it emits, and its generator hears of it. Probes are looked at when the task is
between two records, as Flink's timers in the mailbox. What a valve or a generator gives out is
written to all outputs like a record, behind all that was put out before.
"""

from collections.abc import Sequence

from flowcontrol.protocol.event_time import (
    ID_BITS,
    IDLE,
    MARKER,
    WATERMARK,
    activity_time,
    advance,
    check_watermark,
    id_of,
    mark_bytes,
    on_allowed,
    on_event,
    on_probe,
    on_status,
    on_watermark,
    report_of,
    stamp_of,
    time_of,
)
from flowcontrol.protocol.network.rounds import read_mark
from flowcontrol.protocol.service import EXPONENTIAL, LONGEST, relative_time
from flowcontrol.protocol.tasks.operators import is_between
from flowcontrol.protocol.tasks.windowing import emit_marks, pass_marker, process_watermark
from flowcontrol.state.rows import Gate
from flowcontrol.state.tasks import MAX_TIME, RELAY, SERVER, StreamTask, TaskTime, Worker

# --- What a source does whose group is aligned: it is paused while it is too far ahead of the
# group.
#
# A paused source begins no record: one that reads a log leaves the records there, one that
# makes its records is not polled, and what would fall due is lost. One that it is reading is
# read to its end. It is probed as ever, says that it is idle or active, and hears what its
# group allows it now. Flink stops its clock of idleness meanwhile, and counts the time as
# idle.
#
# Source: `SourceOperator`; section 6 of checkpoints-and-time.


def reported(time: TaskTime) -> int:
    """Return the watermark that a source reports to its group, ms; MIN_TIME: none."""
    return report_of(time.generator.watermark, time.generator.is_idle, time.has_ended)


def update_max_desired_watermark(time: TaskTime, allowed: int) -> int:
    """Tell a source which watermark its group allows it, ms; return 1 if it pauses or goes on."""
    if time.has_ended == 1:
        return 0
    return 1 if on_allowed(time.aligned, time.generator.watermark, allowed) > 0 else 0


def check_watermark_alignment(time: TaskTime, done: int) -> None:
    """Have a source look at what it has given out: a watermark may be too far ahead."""
    if done & WATERMARK:
        check_watermark(time.aligned, time.generator.watermark)


def is_paused(worker: Worker) -> int:
    """Tell whether a source may not begin a record, since it is ahead of its group: 1 if so."""
    paused: int = worker.task_time().aligned.is_paused
    return paused


def note_idle(time: TaskTime, idle_us: int) -> None:
    """Count the time for which a source was idle, microseconds, if it is paused."""
    if time.aligned.is_paused == 1:
        time.paused_us += idle_us


# --- What a task does about event time in a round; written once, for both clocks.


_SHARE = 2.0 ** (ID_BITS - 63)
"""The least share of one that the bits above an id's can tell apart."""


def begin_event(worker: Worker, task: StreamTask) -> None:
    """Give the record that a source is about to put out its stamp.

    A replayed row may bring its own. Of others one number of the source's stream says both how far
    they lie behind and which id they have; the id of a row may be its own too.
    """
    time = worker.task_time()
    if time.has_times == 1:
        task.stamp = worker.stamp_of_row(task.taken - 1)
        return
    drawn = worker.draw_bits(time.stream, task.taken - 1)
    behind = 0
    if time.is_exponential == 1:
        share = (drawn >> ID_BITS) * _SHARE
        behind = int(min(relative_time(EXPONENTIAL, 0.0, share, 0.0) * time.spread, LONGEST))
    elif time.spread > 0:
        behind = (drawn >> ID_BITS) % (time.spread + 1)
    number = worker.stamp_of_row(task.taken - 1) if time.has_ids == 1 else drawn
    task.stamp = stamp_of(worker.born_ms() + time.offset - behind, id_of(number))


def end_event(worker: Worker, task: StreamTask) -> None:
    """Have the generator of a source hear of the record that has been put out."""
    time = worker.task_time()
    if time.has_generator == 1:
        done = on_event(time.generator, time_of(task.stamp))
        if done > 0:
            _emit_own(worker, task, time, done)


def probe_generator(worker: Worker, task: StreamTask, start: int, end: int) -> None:
    """Probe the generator of a source if it is due, and the task between two records.

    Probes fall due at the multiples of the interval; one that is missed is left out.

    ``start``, ``end``: work that its rate allows by the start and by the end of the round, units.
    """
    time, now = worker.task_time(), worker.now_us()
    if time.next_probe < 0 or time.next_probe > now or is_between(worker, task, start, end) == 0:
        return
    time.next_probe = now - now % time.interval + time.interval
    _probe(worker, task, time)


def _probe(worker: Worker, task: StreamTask, time: TaskTime) -> None:
    """Probe a generator; its clock of idleness stands while it is back-pressured or paused."""
    time.clock.stood = task.blocked + time.paused_us
    done = on_probe(time.generator, activity_time(time.clock, worker.now_us()))
    if done > 0:
        _emit_own(worker, task, time, done)


def _emit_own(worker: Worker, task: StreamTask, time: TaskTime, done: int) -> None:
    """Write what the generator of a source has given out; the source may be paused by it."""
    emit_marks(worker, task, done, time.generator.watermark)
    if task.is_aligned == 1:
        check_watermark_alignment(time, done)


def end_time(worker: Worker, task: StreamTask) -> None:
    """Have a source whose last record is written give out MAX_TIME, once.

    ``StreamTask.endData``: the generator is probed once more, then comes ``Watermark.MAX``, from
    a source without a generator too. Spark has no last watermark.
    """
    time = worker.task_time()
    if task.kind == SERVER or task.kind == RELAY or time.has_ended == 1:
        return
    if task.open_inputs > 0 or task.is_pending == 1:
        return
    time.has_ended = 1
    time.next_probe = time.next_marker = -1
    if task.has_stamps == 0 or time.is_sparks == 1:
        return
    if time.has_generator == 1:
        _probe(worker, task, time)
    time.aligned.is_paused = 0  # it waits for nobody any more
    emit_marks(worker, task, advance(time.generator, MAX_TIME), MAX_TIME)


def stop_time(worker: Worker) -> None:
    """Have a source give out no watermark any more, MAX_TIME neither; it is not paused.

    ``StreamTask.endData(NO_DRAIN)``: a savepoint that stops the job does not end its event time.
    ``SourceOperator.stop`` ends the wait for its group too.
    """
    time = worker.task_time()
    time.has_ended = 1
    time.aligned.is_paused = 0
    time.next_probe = time.next_marker = -1


def count_mark(worker: Worker, place: int, nbytes: int) -> None:
    """Count the bytes of a mark that was taken from a channel of the valve, for checkpoints."""
    channel = worker.aligned()[place]
    channel.marks += 1
    channel.mark_bytes += nbytes


def next_probe_us(worker: Worker, task: StreamTask) -> int:
    """Return when a source is probed or marks next, microseconds of the run; -1: never."""
    time: TaskTime = worker.task_time()
    if task.has_markers == 0 or time.next_marker < 0:
        return time.next_probe
    return time.next_marker if time.next_probe < 0 else min(time.next_probe, time.next_marker)


def on_mark(worker: Worker, task: StreamTask, gates: Sequence[Gate]) -> None:
    """Take the mark whose turn it is; pass on what the valve gives out, or the latency marker."""
    time, mark, place = worker.task_time(), worker.first_mark(), worker.valve_place()
    kind, watermark = mark.kind, mark.stamp
    worker.drop_mark()
    read_mark(task, gates)
    if task.has_checkpoints == 1:
        count_mark(worker, place, mark_bytes(kind))
    if task.has_markers == 1 and kind == MARKER:
        pass_marker(worker, task, watermark)
        return
    if kind == WATERMARK:
        done = on_watermark(time.valve, worker.valve_channels(), place, watermark)
    else:
        is_idle = 1 if kind == IDLE else 0
        done = on_status(time.valve, worker.valve_channels(), place, is_idle)
    if done > 0 and task.has_window == 1:
        process_watermark(worker, task, done)
    elif done > 0 and task.awaits == 1:
        worker.queue_marks(done)
    elif done > 0:
        emit_marks(worker, task, done, time.valve.watermark)
