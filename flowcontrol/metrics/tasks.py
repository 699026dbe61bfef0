"""The metrics of a subtask, as its task group in Flink has them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from flowcontrol.metrics.scopes import Floats, Moments, Task, plain
from flowcontrol.scenario import Scenario

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

_INPUT: Final = "Shuffle.Netty.Input"
_OUTPUT: Final = "Shuffle.Netty.Output"
_TIMES: Final = {"busy": "Busy", "idle": "Idle", "backpressured": "BackPressured"}
"""Times of the table ``stages``, and what they are called in Flink's accumulate...TimeMs."""
_INPUT_LEVELS: Final = {
    "inPoolUsage": "in_pool_usage",
    "inputFloatingBuffersUsage": "floating_buffers_usage",
    "inputExclusiveBuffersUsage": "exclusive_buffers_usage",
    "inputQueueLength": "input_queue_buffers",
}
_NS_PER_MS: Final = 1e6
_CHECKPOINTS: Final = {
    "checkpointAlignmentTime": "alignment_ms",
    "checkpointStartDelayNanos": "start_delay_ms",
}
"""Metrics in nanoseconds, and the columns of ``checkpoint_tasks`` that they are."""

Metric = tuple[str, Floats]


class TaskTables:
    """The tables of a run, by subtask and by channel."""

    def __init__(
        self, tables: Mapping[str, pa.Table], scenario: Scenario, moments: Moments
    ) -> None:
        self.scenario, self.moments = scenario, moments
        stages, channels = tables["stages"].to_pandas(), tables["channels"].to_pandas()
        self._stages = _by(stages, ["stage", "subtask"])
        self._sent = _by(channels, ["edge", "sender"])
        self._received = _by(channels, ["edge", "receiver"])
        tasks = tables.get("checkpoint_tasks")
        self._checkpoints = {} if tasks is None else _by(tasks.to_pandas(), ["stage", "subtask"])
        self.has_checkpoints = tasks is not None
        self.intervals_s = np.diff(moments.samples, prepend=0.0)

    def figure(self, stage: str, subtask: int, column: str) -> Floats:
        """Return a column of ``stages`` of a subtask, by sample."""
        return np.asarray(self._stages[stage, subtask][column], np.float64)

    def checkpoints(self, stage: str, subtask: int) -> pd.DataFrame | None:
        """Return the rows of ``checkpoint_tasks`` of a subtask; None without any."""
        return self._checkpoints.get((stage, subtask))

    def sent(self, stages: set[str], subtask: int) -> Floats:
        """Return the buffers that a subtask has put on its way, by sample."""
        total = np.zeros(len(self.moments.samples))
        for edge in self.scenario.edges:
            rows = self._sent.get((edge.name, subtask)) if edge.sender in stages else None
            if rows is not None:
                total += rows.groupby("t_s", sort=True)["sent"].sum().to_numpy()
        return total

    def consumed(self, stages: set[str], subtask: int) -> tuple[Floats, Floats]:
        """Return the buffers that a subtask has read, local ones and others, by sample."""
        local, remote = (np.zeros(len(self.moments.samples)) for _ in range(2))
        for edge in self.scenario.edges:
            rows = self._received.get((edge.name, subtask)) if edge.receiver in stages else None
            if rows is None:
                continue
            placement = np.asarray(self.scenario.stage(edge.sender).placement)
            here = self.scenario.stage(edge.receiver).placement[subtask]
            is_local = placement[rows["sender"].to_numpy()] == here
            for own, total in ((rows[is_local], local), (rows[~is_local], remote)):
                if len(own):
                    total += own.groupby("t_s", sort=True)["consumed"].sum().to_numpy()
        return local, remote


def _by(frame: pd.DataFrame, keys: list[str]) -> dict[Any, pd.DataFrame]:
    return dict(iter(frame.groupby(keys)))


def task_metrics(tables: TaskTables, task: Task, subtask: int) -> Iterator[Metric]:
    """Yield the metrics of a subtask, name and values by moment."""
    head = task.stages[0].name
    yield from _times(tables, head, subtask)
    yield from _volume(tables, task, subtask)
    levels = tables.moments.levels
    for name, column in _INPUT_LEVELS.items():
        yield f"{_INPUT}.Buffers.{name}", levels(tables.figure(head, subtask, column))
    yield from _output_levels(tables, task, subtask)
    if tables.has_checkpoints:
        yield from _checkpoint_times(tables, head, subtask)
    yield from _operators(tables, task, subtask)


def _times(tables: TaskTables, head: str, subtask: int) -> Iterator[Metric]:
    """Shares of time as TimerGauge has them, and the whole milliseconds since the start."""
    for column, text in _TIMES.items():
        share = tables.figure(head, subtask, f"{column}_ms_per_s")
        total_ms = np.floor(np.round(np.cumsum(share * tables.intervals_s), 3))
        name = text[0].lower() + text[1:]
        yield f"{name}TimeMsPerSecond", tables.moments.gauge(total_ms)
        yield f"accumulate{text}TimeMs", tables.moments.levels(total_ms)


def _volume(tables: TaskTables, task: Task, subtask: int) -> Iterator[Metric]:
    """Records and buffers of the task: what enters the first operator, what leaves the chain."""
    moments, names = tables.moments, {stage.name for stage in task.stages}
    leaving = {edge.sender for edge in tables.scenario.edges if edge.receiver not in names}
    out = np.zeros(len(moments.samples))
    for stage in task.stages:
        if stage.name in leaving:
            out += tables.figure(stage.name, subtask, "records_out")
    local, remote = tables.consumed(names, subtask)
    taken = tables.figure(task.stages[0].name, subtask, "records_in")
    sent = tables.sent(names, subtask)
    for name, counts in {
        "numRecordsIn": taken,
        "numRecordsOut": out,
        "numBuffersOut": sent,
    }.items():
        yield name, moments.levels(counts)
        yield f"{name}PerSecond", moments.meter(counts)
    for name, counts in {"numBuffersInLocal": local, "numBuffersInRemote": remote}.items():
        yield f"{_INPUT}.{name}", moments.levels(counts)
        yield f"{_INPUT}.{name}PerSecond", moments.meter(counts)


def _output_levels(tables: TaskTables, task: Task, subtask: int) -> Iterator[Metric]:
    """Usage and queue of all output pools of the task together."""
    used, size, queued = (
        sum(
            (tables.figure(stage.name, subtask, column) for stage in task.stages),
            np.zeros(len(tables.moments.samples)),
        )
        for column in ("output_pool_used", "output_pool_size", "output_queue_buffers")
    )
    usage = np.divide(used, size, out=np.zeros(len(used)), where=size > 0)
    yield f"{_OUTPUT}.Buffers.outPoolUsage", tables.moments.levels(usage)
    yield f"{_OUTPUT}.Buffers.outputQueueLength", tables.moments.levels(queued)


def _checkpoint_times(tables: TaskTables, head: str, subtask: int) -> Iterator[Metric]:
    """What the last checkpoint took here that this subtask has acknowledged; 0 before the first."""
    rows, times = tables.checkpoints(head, subtask), tables.moments.times
    for name, column in _CHECKPOINTS.items():
        values = np.zeros(len(times))
        if rows is not None:
            own = rows[rows[column].notna()].sort_values("acknowledged_s", kind="stable")
            at = np.searchsorted(own["acknowledged_s"].to_numpy(), times, side="right")
            figures = np.concatenate([[0.0], own[column].to_numpy("float64") * _NS_PER_MS])
            values = figures[at]
        yield name, values


def _operators(tables: TaskTables, task: Task, subtask: int) -> Iterator[Metric]:
    """Records of each operator: of sources, and where a chain has several."""
    levels = tables.moments.levels
    for stage, operator in zip(task.stages, task.operators, strict=True):
        is_source = not tables.scenario.inputs(stage.name)
        if not is_source and len(task.stages) == 1:
            continue
        group, out = plain(operator), levels(tables.figure(stage.name, subtask, "records_out"))
        taken = levels(tables.figure(stage.name, subtask, "records_in"))
        yield f"{group}.numRecordsIn", out if is_source else taken
        yield f"{group}.numRecordsOut", out
        if is_source and stage.reads_log:
            lag = tables.figure(stage.name, subtask, "lag_records")
            yield f"{group}.pendingRecords", levels(lag)
