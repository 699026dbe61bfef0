"""The table ``metrics`` of a run, from its other tables."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from flowcontrol.metrics.scopes import (
    Floats,
    Moments,
    Task,
    job_scope,
    jobs_of,
    plain,
    task_manager_scope,
    tasks_of,
)
from flowcontrol.records import MARKER, METRICS
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


NONE_YET: Final = -1.0
"""Flink's gauges of the last checkpoint before there is one."""

_LAST: Final = {
    "lastCheckpointDuration": "e2e_ms",
    "lastCheckpointSize": "state_bytes",
    "lastCheckpointProcessedData": "processed_bytes",
    "lastCheckpointPersistedData": "persisted_bytes",
}
_PROCESS: Final = {
    "Status.JVM.CPU.Load": "cpu_share",
    "Status.JVM.GarbageCollector.All.TimeMsPerSecond": "gc_ms_per_s",
}
_LATENCY: Final = {
    "mean": "mean_ms",
    "p50": "p50_ms",
    "p90": "p90_ms",
    "p99": "p99_ms",
    "max": "max_ms",
}

Found = tuple[str, str, Floats]


def job_metrics(
    tables: Mapping[str, pa.Table], scenario: Scenario, moments: Moments
) -> Iterator[Found]:
    """Yield scope, name and values of the metrics of jobs."""
    jobs, times = jobs_of(scenario), moments.times
    if len(jobs) == 1:
        scope = job_scope(next(iter(jobs)))
        if "checkpoints" in tables:
            for name, values in _checkpoints(tables["checkpoints"].to_pylist(), times):
                yield scope, name, values
        if "restarts" in tables:
            ran = [row["running_s"] for row in tables["restarts"].to_pylist()]
            yield scope, "numRestarts", _count([at for at in ran if at is not None], times)
    markers = [row for row in tables["latency"].to_pylist() if row["kind"] == MARKER]
    for (stage, subtask), rows in sorted(_grouped(markers).items()):
        job = next(name for name, stages in jobs.items() if stage in stages)
        group = f"latency.operator_id.{plain(stage)}.operator_subtask_index.{subtask}.latency"
        for name, column in _LATENCY.items():
            values = _last([(row["t_s"], row[column]) for row in rows], times, 0.0)
            yield job_scope(job), f"{group}_{name}", values


def process_metrics(tables: Mapping[str, pa.Table], moments: Moments) -> Iterator[Found]:
    """Yield scope, name and values of the metrics of task managers, where a run has them."""
    if "processes" not in tables:
        return
    rows = tables["processes"].to_pylist()
    for manager in sorted({row["task_manager"] for row in rows}):
        own = [row for row in rows if row["task_manager"] == manager]
        for name, column in _PROCESS.items():
            known = [(row["t_s"], row[column]) for row in own if row[column] is not None]
            if known:
                yield task_manager_scope(manager), name, _last(known, moments.times, 0.0)


def _checkpoints(rows: list[dict[str, Any]], times: Floats) -> Iterator[tuple[str, Floats]]:
    ended = sorted((row for row in rows if row["ended_s"] is not None), key=_ended)
    done = [row for row in ended if row["status"] == "completed"]
    triggered = _count([row["triggered_s"] for row in rows], times)
    over = _count([row["ended_s"] for row in ended], times)
    completed = _count([row["ended_s"] for row in done], times)
    yield "totalNumberOfCheckpoints", triggered
    yield "numberOfInProgressCheckpoints", triggered - over
    yield "numberOfCompletedCheckpoints", completed
    yield "numberOfFailedCheckpoints", over - completed
    for name, column in _LAST.items():
        yield name, _last([(row["ended_s"], row[column]) for row in done], times, NONE_YET)


def _ended(row: Mapping[str, Any]) -> float:
    return float(row["ended_s"])


def _count(at_s: list[float], times: Floats) -> Floats:
    """Return how many moments have passed at each of some times."""
    passed = np.searchsorted(np.sort(np.array(at_s, np.float64)), times, side="right")
    return passed.astype(np.float64)


def _last(known: list[tuple[float, float]], times: Floats, before: float) -> Floats:
    """Return at each time the figure that was known last, given (moment, figure) in order."""
    at = np.searchsorted(np.array([one for one, _ in known], np.float64), times, side="right")
    return np.array([before, *(figure for _, figure in known)], np.float64)[at]


def _grouped(rows: list[dict[str, Any]]) -> dict[tuple[str, int], list[dict[str, Any]]]:
    found: dict[tuple[str, int], list[dict[str, Any]]] = {}
    for row in rows:
        found.setdefault((row["stage"], row["subtask"]), []).append(row)
    return found


MOST_ROWS: Final = 1_000_000
"""Rows up to which a run has the table without being asked: some 10 MB."""

_NAMES_OF_A_TASK: Final = 24
"""About as many metrics does a subtask have."""

Tables = Mapping[str, "pa.Table"]


def rows_of_metrics(tables: Tables, scenario: Scenario) -> int:
    """Return about how many rows the table of a run has."""
    moments = _moments(tables)
    return len(moments.shown) * _NAMES_OF_A_TASK * sum(one.parallelism for one in scenario.stages)


def metrics_table(tables: Tables, scenario: Scenario) -> pa.Table:
    """Return the figures of a run under Flink's names and scopes.

    ``tables``: its result tables; ``checkpoints``, ``checkpoint_tasks``, ``restarts`` and
    ``processes`` may be missing.

    Returns rows by time, within it by task, subtask and name in a fixed order, then jobs and task
    managers.
    """
    import pyarrow as pa

    moments = _moments(tables)
    schema, count = METRICS.arrow_schema(), len(moments.shown)
    if not count:  # interrupted before the first sample
        return schema.empty_table()
    found = list(_metrics(tables, scenario, moments))
    scopes, names, values = zip(*found, strict=True)
    columns = [
        pa.array(np.repeat(moments.times, len(found))),
        _repeated(scopes, count),
        _repeated(names, count),
        pa.array(np.array(values, np.float64).T.reshape(-1)),
    ]
    return pa.table(columns, schema=schema)


def _repeated(texts: Iterable[str], count: int) -> pa.Array:
    """Return texts as a column, so many times one behind the other."""
    import pyarrow as pa

    own = pa.array(list(texts), pa.string())
    return pa.concat_arrays([own] * count)


def _moments(tables: Tables) -> Moments:
    return Moments.of(np.unique(tables["stages"]["t_s"].to_numpy()).tolist())


def _metrics(
    tables: Tables, scenario: Scenario, moments: Moments
) -> Iterator[tuple[str, str, Floats]]:
    """Yield scope, name and values of each metric."""
    own = TaskTables(tables, scenario, moments)
    for task in tasks_of(scenario):
        for subtask in range(task.stages[0].parallelism):
            for name, values in task_metrics(own, task, subtask):
                yield task.scope(subtask), name, values
    yield from job_metrics(tables, scenario, moments)
    yield from process_metrics(tables, moments)
