"""What a source does whose group is aligned: it is paused while it is too far ahead of the group.

A paused source begins no record: one that reads a log leaves the records there, one that makes its
records is not polled, and what would fall due is lost. One that it is reading is read to its end.
It is probed as ever, says that it is idle or active, and hears what its group allows it now. Flink
stops its clock of idleness meanwhile, and counts the time as idle.

Source: ``SourceOperator``; section 6 of checkpoints-and-time.
"""

from flowcontrol.operators.states import Worker
from flowcontrol.operators.timed_states import TaskTime
from flowcontrol.protocol.event_time.alignment_rules import check_watermark, on_allowed, report_of
from flowcontrol.protocol.event_time.output_rules import WATERMARK


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
