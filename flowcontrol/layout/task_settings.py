"""What tasks begin with that have event time, Spark's batches, or a sink with a guarantee."""

from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import accumulate
from typing import Final, NamedTuple

import numpy as np

from flowcontrol.arrays import Ints
from flowcontrol.layout.graph import JobEdge, JobVertex, Member
from flowcontrol.layout.job import Job
from flowcontrol.layout.replay import NO_KEYS, NOTHING, LinkKeys, RowKeys
from flowcontrol.layout.shares import channels_of_keys, stream_of, weights_of_keys
from flowcontrol.protocol.commits.transactions import Guarantee
from flowcontrol.protocol.event_time import IDS
from flowcontrol.protocol.network.partitioners import (
    channel_of_key,
    default_max_parallelism,
    integer_weights,
)
from flowcontrol.protocol.windows import triggers as t
from flowcontrol.protocol.windows.contents import GLOBAL, PANES, SESSIONS
from flowcontrol.protocol.windows.spark_batches import APPEND, COMPLETE, UPDATE, WatermarkOperator
from flowcontrol.scenario import Edge, Scenario
from flowcontrol.scenario.event_time import Alignment
from flowcontrol.scenario.key_distribution import key_names, own_names
from flowcontrol.scenario.time_checks import BATCH_THROTTLE
from flowcontrol.scenario.windows import WindowPlan
from flowcontrol.state.tasks import TaskBatch, TaskTime, WindowTask
from flowcontrol.state.windows import WindowSettings, WindowStore

# --- What each task with windows begins with, and where the keys of its records are.


_KINDS = {"tumbling": PANES, "sliding": PANES, "session": SESSIONS, "global": GLOBAL}
_TRIGGERS = {"event_time": t.EVENT, "processing_time": t.PROCESSING, "count": t.COUNT}


def new_window_task(job: Job, plan: JobVertex, window: WindowPlan, keys: int = 1) -> WindowTask:
    """Return what a task holds of its windows besides them, at the start of a run.

    ``keys``: keys of its records, if rows bring them.
    """
    keys, nbytes = window.keys or keys, window.bytes_per_key
    checkpoints = job.scenario.checkpointing
    yields = int(checkpoints is not None and checkpoints.interrupts_timers)
    return WindowTask(keys=keys, bytes_per_key=nbytes, yields=yields, batch=new_batch(job, plan))


def new_window_settings(
    window: WindowPlan, *, is_batched: bool = False, further: int = 0
) -> WindowSettings:
    """Return what the rules of windows are told of a window.

    A continuous trigger of a global window follows the clock, as global windows need no watermark.

    ``is_batched``: whether it is Spark's, which has no trigger.
    """
    continuous = t.CONTINUOUS_EVENT if window.is_event_time else t.CONTINUOUS_CLOCK
    size, slide = max(1, window.size_ms), max(1, window.slide_ms)
    return WindowSettings(
        kind=_KINDS[window.kind],
        is_event_time=int(window.is_event_time),
        size=size,
        slide=slide,
        offset=window.offset_ms,
        overlap=-(-size // slide),
        gap=window.gap_ms,
        lateness=window.lateness_ms if window.is_event_time else 0,
        trigger=t.NEVER if is_batched else _TRIGGERS.get(window.trigger, continuous),
        every=max(1, window.every),
        is_purging=int(not window.is_accumulating),
        further=further,
    )


def link_keys(job: Job, link: JobEdge, rows: RowKeys = NO_KEYS) -> LinkKeys | None:
    """Return the keys of the records of an edge; None unless it leads to windows.

    A record's key follows from its stamp by the shares that the edge states, and where it is routed
    by key, to the subtask that Flink's key groups give that key. So neither depends on what came
    before it. A name is the same key on every edge. Shares are rounded to 2**-21; a key that is
    rarer does not come up. Replayed rows bring their key, and are routed by a table where their
    source sends them.

    ``rows``: keys of replayed rows; by default there are none.
    """
    window = job.scenario.window_of(link.edge.receiver)
    if window is None:
        return None
    if window.keys is None:
        return rows.edges.get(link.name)
    edge, width = link.edge, job.stage(link.edge.receiver).stage.parallelism
    edges = job.scenario.inputs(edge.receiver)
    owners = NOTHING
    if width > 1 and edge.partitioner == "hash":
        owners = _owners(edges, window.keys, width)
    return LinkKeys(window.keys, _firsts(edge, edges, window.keys), owners)


def _owners(edges: Sequence[Edge], keys: int, width: int) -> Ints:
    """Return the channel of each key that edges into the same windows name."""
    if _are_ranks(edges):
        return np.asarray(channels_of_keys(np.arange(1, keys + 1, dtype=np.int64), width), np.int64)
    groups = default_max_parallelism(width)
    names = key_names(edges)
    return np.array([channel_of_key(name, width, groups) for name in names], np.int64)


def _firsts(edge: Edge, edges: Sequence[Edge], keys: int) -> Ints:
    """Return the first id of each key on an edge; empty if they are alike or it names none.

    A key that only other edges into the windows name has no id here.
    """
    if edge.key_distribution is not None:
        if edge.key_distribution.kind == "uniform" and edge.key_distribution.keys == keys:
            return NOTHING
        own = weights_of_keys(edge.key_distribution)
    elif edge.key_weights is not None:
        own = integer_weights(edge.key_weights.values())
    else:
        return NOTHING
    if _are_ranks(edges):
        return _first_ids((*own, *[0] * (keys - len(own))))
    weights = dict(zip(own_names(edge), own, strict=True))
    return _first_ids(tuple(weights.get(name, 0) for name in key_names(edges)))


def _are_ranks(edges: Sequence[Edge]) -> bool:
    """Tell whether edges name keys by ranks alone: the number of a key is one below its own."""
    return all(edge.key_weights is None for edge in edges)


@lru_cache(maxsize=16)
def _first_ids(weights: Sequence[int]) -> Ints:
    """Return the first id of each key, given their weights."""
    total = sum(weights)
    before = [0, *accumulate(weights)][:-1]
    return np.array([weight * IDS // total for weight in before], np.int64)


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


def alignment_of(job: Job, plan: JobVertex) -> Alignment | None:
    """Return how a stage waits for others by event time; None of one that does not."""
    marks = plan.stage.watermark
    return None if marks is None else marks.alignment


def is_punctuated(job: Job, plan: JobVertex) -> bool:
    """Tell whether each record of a stage may yield a watermark."""
    marks = plan.stage.watermark
    return marks is not None and marks.punctuated


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
    source = plan.stage.event_time
    time.has_ids = int(brings_stamps)
    if source is None:
        return time
    if brings_stamps and source.column is not None:
        time.has_times, time.has_ids = 1, 0
    time.offset = source.offset_ms[index]
    time.spread = source.out_of_orderness_ms[index]
    time.is_exponential = int(source.distribution == "exponential")
    _fill_generator(time, job, plan)
    return time


def _fill_generator(time: TaskTime, job: Job, plan: JobVertex) -> None:
    """Say what makes the watermarks of a source; its clock of idleness counts microseconds.

    Spark's are worked out where windows are (:mod:`flowcontrol.control.sources`).
    """
    marks, interval_us = plan.stage.watermark, job.scenario.options.watermark_interval_us
    if marks is None or time.is_sparks == 1:
        return
    time.has_generator = 1
    time.generator.out_of_orderness = marks.delay_ms
    time.generator.is_punctuated = int(marks.punctuated)
    time.generator.idle_after = marks.idle_after_us or 0
    if interval_us > 0:
        time.interval = time.next_probe = interval_us


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
    return max((mark.delay_ms for mark in marks if mark is not None), default=None)


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
    which come again is not known. So sinks behind windows of a job that may fail are left out. A
    sink with requests has a table of its own, and is left out unless it has transactions.
    """
    exact = Guarantee.EXACTLY_ONCE
    for plan in job.stages:
        for member in plan.members:
            stage = member.stage
            if not member.is_sink or (stage.requests is not None and stage.guarantee != exact):
                continue
            if job.faults is None or not _is_behind_windows(job, member):
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
