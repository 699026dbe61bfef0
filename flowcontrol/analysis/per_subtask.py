"""The figures of each subtask of a stage, and their spread.

A mean over the subtasks of a stage hides the one that limits it, so wherever a mean is shown the
largest figure of a subtask stands beside it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from flowcontrol.analysis.panel import Panel, Window
from flowcontrol.protocol.monitoring import data_skew

_COUNTERS: Final = ("records_in", "records_out")
MEANS: Final = (
    "busy_ms_per_s", "idle_ms_per_s", "backpressured_ms_per_s", "in_pool_usage", "out_pool_usage",
    "floating_buffers_usage", "exclusive_buffers_usage", "input_queue_buffers",
    "output_queue_buffers", "output_pool_size", "output_pool_used", "lag_records", "lag_s",
)  # fmt: skip
"""In the order of the fields of :class:`SubtaskFigures`, behind counters and rates."""


class SubtaskFigures(NamedTuple):
    """The figures of one subtask in a window, named as the columns they come from."""

    subtask: int  # Its index in the stage, from 0
    records_in: int  # records_in, records_out: growth of the counters (records)
    records_out: int
    rate_in: float  # rate_in, rate_out: that growth over the length of the window (records/s)
    rate_out: float
    # Means weighted by the length of the intervals, as are all that follow (ms/s).
    busy_ms_per_s: float
    idle_ms_per_s: float
    backpressured_ms_per_s: float
    # Usages of pools (ratio).
    in_pool_usage: float
    out_pool_usage: float
    floating_buffers_usage: float
    exclusive_buffers_usage: float
    # Queues and pools; under a transport that counts records, records (buffers).
    input_queue_buffers: float
    output_queue_buffers: float
    output_pool_size: float
    output_pool_used: float
    lag_records: float  # lag_records, lag_s: how far a source is behind its log; 0 for others
    lag_s: float


FIGURES: Final = SubtaskFigures._fields[1:]
"""Names of the figures of a subtask."""


def subtask_figures(samples: Panel, window: Window) -> list[SubtaskFigures]:
    """Return the figures of the subtasks of one stage in a window.

    - ``samples``: rows of the table ``stages`` of one stage, from the start of the run.
    - ``window`` (s): from and until.

    In the order of their indices; empty if no sample lies in the window.
    """
    means = samples.within(window).means_by("subtask", MEANS)
    owners, growth = samples.growth(["subtask"], _COUNTERS, window)
    counts = zip(*(grown.tolist() for grown in growth), strict=True)
    counted = dict(zip(owners.first(samples["subtask"]).tolist(), counts, strict=True))
    length = window[1] - window[0]
    found = []
    for subtask, shares in means.items():
        records = counted[subtask]
        rates = [count / length if length > 0 else 0.0 for count in records]
        found.append(SubtaskFigures(subtask, *records, *rates, *shares))
    return found


def largest(subtasks: Sequence[SubtaskFigures]) -> dict[str, float]:
    """Return for each figure that of the subtask with the most; 0 without subtasks."""
    if not subtasks:
        return dict.fromkeys(FIGURES, 0)
    _, *columns = zip(*subtasks, strict=True)
    return dict(zip(FIGURES, map(max, columns), strict=True))


def spread(subtasks: Sequence[SubtaskFigures]) -> Mapping[str, float]:
    """Return how unevenly the records of a stage are spread over its subtasks.

    Returns ``data_skew_percent``: Flink's score of the records taken up (``data_skew``);
    ``records_in_max_over_mean``: those of the subtask with the most over their mean, 1 if all have
    equally many. Both are 0 where no record was taken up, as at a source.
    """
    records = [subtask.records_in for subtask in subtasks]
    total = sum(records)
    return {
        "data_skew_percent": data_skew(records),
        "records_in_max_over_mean": max(records) * len(records) / total if total else 0.0,
    }
