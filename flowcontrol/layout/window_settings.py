"""What each task with windows begins with, and where the keys of its records are."""

from collections.abc import Sequence
from functools import lru_cache
from itertools import accumulate

import numpy as np

from flowcontrol.arrays import Ints
from flowcontrol.layout.graph import JobEdge, JobVertex
from flowcontrol.layout.job import Job
from flowcontrol.layout.replay import NO_KEYS, NOTHING, LinkKeys, RowKeys
from flowcontrol.layout.shares import channels_of_keys, weights_of_keys
from flowcontrol.layout.task_settings import new_batch
from flowcontrol.protocol.event_time.watermarks import IDS
from flowcontrol.protocol.network.partitioners import (
    channel_of_key,
    default_max_parallelism,
    integer_weights,
)
from flowcontrol.protocol.windows import triggers as t
from flowcontrol.protocol.windows.contents import GLOBAL, PANES, SESSIONS
from flowcontrol.scenario import Edge
from flowcontrol.scenario.key_distribution import key_names, own_names
from flowcontrol.scenario.windows import WindowPlan
from flowcontrol.state.tasks import WindowTask
from flowcontrol.state.windows import WindowSettings

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
