"""What tasks begin with that have event time, Spark's batches, or a sink with a guarantee."""

from collections.abc import Iterator
from typing import Final, NamedTuple

from flowcontrol.layout.graph import JobVertex, Member
from flowcontrol.layout.job import Job
from flowcontrol.layout.shares import stream_of
from flowcontrol.protocol.commits.transactions import Guarantee
from flowcontrol.protocol.windows.spark_batches import APPEND, COMPLETE, UPDATE, WatermarkOperator
from flowcontrol.scenario import Scenario
from flowcontrol.scenario.event_time import AlignmentPlan, SourceTime, in_ms
from flowcontrol.scenario.time_checks import BATCH_THROTTLE
from flowcontrol.state.tasks import TaskBatch, TaskTime
from flowcontrol.state.windows import WindowStore

# --- What each task of a job with event time begins with


MOST_PENDING_MARKS = 5
"""Marks of a channel that may wait behind a record: two of the last probe, two of MAX_TIME, and a
latency marker."""


def has_markers(job: Job) -> bool:
    """Tell whether sources of a job give out latency markers."""
    return job.scenario.options.latency_interval_us > 0


def is_timed(job: Job) -> bool:
    """Tell whether there are marks in the channels of a job: watermarks, or latency markers."""
    return job.scenario.has_stamps or has_markers(job)


def timed_flags(job: Job, plan: JobVertex) -> dict[str, int]:
    """Return what a task of a job with marks has of them, by field of ``StreamTask``."""
    return {
        "is_timed": 1,
        "has_stamps": int(job.scenario.has_stamps),
        "has_markers": int(has_markers(job)),
        "is_aligned": int(alignment_of(job, plan) is not None),
    }


def alignment_of(job: Job, plan: JobVertex) -> AlignmentPlan | None:
    """Return how a stage waits for others by event time; None of one that does not."""
    source = job.scenario.event_time_of(plan.stage.name)
    return None if source is None or source.watermark is None else source.watermark.alignment


def is_punctuated(job: Job, plan: JobVertex) -> bool:
    """Tell whether each record of a stage may yield a watermark."""
    source = job.scenario.event_time_of(plan.stage.name)
    return source is not None and source.watermark is not None and source.watermark.is_punctuated


def pending_marks(job: Job, channels: int) -> int:
    """Return how many marks a result partition of so many channels may have pending."""
    return MOST_PENDING_MARKS * channels if is_timed(job) else 0


def new_time(job: Job, plan: JobVertex, index: int, *, brings_stamps: bool = False) -> TaskTime:
    """Return the event time of a subtask at the start of a run.

    ``brings_stamps``: whether it replays rows that have stamps.
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

    Spark's are worked out where windows are (:mod:`flowcontrol.control.batches`).
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


# --- What tasks whose windows are Spark's begin with, and when batches end


NEVER = 1 << 62
"""In place of a round."""

_MODES = {"append": APPEND, "update": UPDATE, "complete": COMPLETE}


def has_batches(scenario: Scenario) -> bool:
    """Tell whether windows of a scenario are Spark's, which are answered batch by batch."""
    return scenario.time_model == "spark" and any(one.window is not None for one in scenario.stages)


def has_throttles_batches(scenario: Scenario) -> bool:
    """Tell whether the batches of Spark's windows are those that a throttle admits."""
    return has_batches(scenario) and scenario.system.throttle == BATCH_THROTTLE


def new_batch(job: Job, plan: JobVertex) -> TaskBatch:
    """Return what a task with windows knows of its batch, at the start of a run."""
    window = job.scenario.window_of(plan.stage.name)
    if window is None or not has_batches(job.scenario):
        return TaskBatch()
    return TaskBatch(1, _MODES[window.output], int(len(new_operators(job, plan)) > 0))


def new_store(job: Job) -> WindowStore:
    """Return the store of a task's windows at the start of a run: a query's watermark begins at 0.

    Rows before 1970, or before the start of a run whose times are made, are late from then on.
    """
    return WindowStore(watermark=0) if has_batches(job.scenario) else WindowStore()


def new_operators(job: Job, plan: JobVertex) -> list[WatermarkOperator]:
    """Return the ``withWatermark`` of each input of a stage with windows, a gate each.

    An edge is a stream; the sources that reach it are united before its ``withWatermark``, which
    has their delay. Empty: the sources have no watermark, or the time is Flink's.
    """
    if not has_batches(job.scenario):
        return []
    delays = [delay_ms(job.scenario, link.edge.sender) for link in plan.inputs]
    return [WatermarkOperator(delay) for delay in delays if delay is not None]


def delay_ms(scenario: Scenario, stage: str) -> int | None:
    """Return how far the watermark of a stage's records stays behind, ms; None: they have none.

    That of the sources above it, which is the same for all.
    """
    marks = [source.watermark for source in scenario.sources_of(stage)]
    return max((in_ms(mark.delay_s) for mark in marks if mark is not None), default=None)


def next_batch_end(job: Job, number: int) -> int:
    """Return the next round from ``number`` on before which a batch may end.

    Batches end at multiples of ``batch_s``: before the first round that begins then or later. The
    round may be beyond the job's last one.
    """
    batch_us = job.scenario.batch_us
    if batch_us is None:  # batches are those of a throttle, or micro-batches
        return NEVER if has_throttles_batches(job.scenario) else max(1, number)
    before_us = max(0, number - 1) * job.round_us
    return -(-(before_us // batch_us + 1) * batch_us // job.round_us)


# --- Which subtasks are sinks, and how often those that commit say that they write


LOOKS: Final = 20
"""How often in a checkpoint's interval it is known when an exactly-once sink wrote, so that its
visibility latencies are up to this part of the interval too long."""

_ONLY_SAVEPOINTS_US: Final = 1_000_000
"""In the place of the interval, of a job that takes only savepoints."""


class SinkSubtask(NamedTuple):
    """A subtask of a sink."""

    task: int  # Which task it runs in, in the order of the job
    plan: JobVertex  # The stages of that
    member: Member  # The sink among them
    subtask: int  # Which subtask


def sink_subtasks(job: Job) -> Iterator[SinkSubtask]:
    """Yield the subtasks of the sinks that are accounted for, stage by stage in the job's order.

    After a restart windows may put out other results than before, and more or fewer of them:
    which come again is not known. So sinks behind windows of a job that may fail are left out.
    """
    for plan in job.stages:
        for member in plan.members:
            if member.is_sink and not (job.faults is not None and _is_behind_windows(job, member)):
                for index, task in enumerate(job.tasks[plan.name]):
                    yield SinkSubtask(task, plan, member, index)


def has_delivery(job: Job) -> bool:
    """Tell whether a run has the table ``delivery``.

    It does if the job checkpoints or may fail, or if a sink has a guarantee of its own, and if any
    of its sinks is accounted for.
    """
    may_repeat = job.checkpoints is not None or job.faults is not None
    usual = Guarantee.AT_LEAST_ONCE
    return any(may_repeat or one.member.stage.guarantee != usual for one in sink_subtasks(job))


def _is_behind_windows(job: Job, member: Member) -> bool:
    above = job.scenario.upstream(member.stage.name)
    return any(job.scenario.stage(name).window is not None for name in above)


def look_rounds(job: Job, plan: JobVertex) -> int:
    """Return the rounds of an interval, in each of which a task says when it begins to write.

    At least 1; 0 of a task without an exactly-once sink, and of a job without checkpoints.
    """
    exact = Guarantee.EXACTLY_ONCE
    if job.checkpoints is None or not any(
        member.is_sink and member.stage.guarantee == exact for member in plan.members
    ):
        return 0
    interval_us = job.checkpoints.interval_us or _ONLY_SAVEPOINTS_US
    return max(1, interval_us // LOOKS // job.round_us)
