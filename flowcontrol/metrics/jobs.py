"""The metrics of jobs and of task managers: checkpoints, restarts, processors, markers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from flowcontrol.metrics.scopes import (
    Floats,
    Moments,
    job_scope,
    jobs_of,
    plain,
    task_manager_scope,
)
from flowcontrol.records import MARKER
from flowcontrol.scenario import Scenario

if TYPE_CHECKING:
    import pyarrow as pa

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
