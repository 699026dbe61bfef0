"""What each task of a job with event time begins with."""

from flowcontrol.job.graph import JobVertex
from flowcontrol.job.job import Job
from flowcontrol.job.routing import stream_of
from flowcontrol.operators.timed_states import TaskTime
from flowcontrol.scenario.event_time import AlignmentPlan, SourceTime

MOST_PENDING_MARKS = 5
"""Marks of a channel that may wait behind a record: two of the last probe, two of MAX_TIME, and a
latency marker."""


def has_stamps(job: Job) -> bool:
    """Tell whether records of a job have stamps: event times, or keys for windows."""
    return job.scenario.has_stamps


def has_markers(job: Job) -> bool:
    """Tell whether sources of a job give out latency markers."""
    return job.scenario.options.latency_interval_us > 0


def is_timed(job: Job) -> bool:
    """Tell whether there are marks in the channels of a job: watermarks, or latency markers."""
    return has_stamps(job) or has_markers(job)


def timed_flags(job: Job, plan: JobVertex) -> dict[str, int]:
    """Return what a task of a job with marks has of them, by field of ``StreamTask``."""
    return {
        "is_timed": 1,
        "has_stamps": int(has_stamps(job)),
        "has_markers": int(has_markers(job)),
        "is_aligned": int(alignment_of(job, plan) is not None),
    }


def alignment_of(job: Job, plan: JobVertex) -> AlignmentPlan | None:
    """Return how a stage waits for others by event time; None of one that does not."""
    source = job.scenario.event_time_of(plan.stage.name)
    return None if source is None or source.watermark is None else source.watermark.alignment


def writes_together(job: Job, plan: JobVertex, index: int) -> bool:
    """Tell whether a task may write many records at once; with event time each has its own."""
    return plan.is_single(index) and not has_stamps(job)


def pending_marks(job: Job, channels: int) -> int:
    """Return how many marks a result partition of so many channels may have pending."""
    return MOST_PENDING_MARKS * channels if is_timed(job) else 0


def new_time(job: Job, plan: JobVertex, index: int, *, brings_stamps: bool = False) -> TaskTime:
    """Return the event time of a subtask at the start of a run.

    Parameters
    ----------
    job : Job
        The scenario, laid out.
    plan : JobVertex
        Its stage.
    index : int
        Which subtask.
    brings_stamps : bool, default False
        Whether it replays rows that have stamps.
    """
    time = TaskTime()
    stage = plan.stage.name
    if has_markers(job):
        time.marker_stream = stream_of(f"latency markers {stage}/{index}")
    if plan.is_source:
        time.stream = stream_of(f"event time {stage}/{index}")
        if has_markers(job):
            time.marker_interval, time.next_marker = job.scenario.options.latency_interval_us, 0
    time.is_sparks = int(job.scenario.time_model == "spark")
    source = job.scenario.event_time_of(stage)
    time.has_ids = int(brings_stamps)
    if source is None:
        return time
    if brings_stamps and source.column is not None:
        time.has_times, time.has_ids = 1, 0
    time.offset = source.offset_ms[index]
    time.spread = source.out_of_orderness_ms[index]
    time.is_exponential = int(source.distribution == "exponential")
    _fill_generator(time, source)
    return time


def _fill_generator(time: TaskTime, source: SourceTime) -> None:
    """Say what makes the watermarks of a source; its clock of idleness counts microseconds.

    Spark's are worked out where windows are (:mod:`flowcontrol.job.batch_control`).
    """
    plan = source.watermark
    if plan is None or time.is_sparks == 1:
        return
    time.has_generator = 1
    time.generator.out_of_orderness = plan.delay_ms
    time.generator.is_punctuated = int(plan.is_punctuated)
    time.generator.idle_after = plan.idle_after_us or 0
    if plan.interval_us > 0:
        time.interval = time.next_probe = plan.interval_us
