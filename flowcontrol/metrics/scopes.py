"""Whose a metric is, after Flink's scopes, and how Flink's reporter names it for Prometheus."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt

from flowcontrol.deployment import job_graph, stream_graph
from flowcontrol.protocol.monitoring import UPDATE_S, MeterView, TimerGaugeView
from flowcontrol.scenario import Scenario, Stage

if TYPE_CHECKING:
    import pyarrow as pa


# --- Whose a metric is: Flink's scopes of tasks, of jobs and of task managers, and names in them.
#
# Source: ``metrics.scope.*`` of Flink with their defaults
# (``reference/deployment-and-diagnosis.md`` section 5.3).
#
# Flink updates its views every 5 s, whatever a reporter's interval. A figure is then that of the
# newest sample: the tables of a run have no other.


_OTHER: Final = re.compile(r"[^A-Za-z0-9]")

JOB_MANAGER: Final = "jobmanager"
TASK_MANAGER: Final = "taskmanager"


@dataclass(frozen=True)
class Task:
    """A vertex of Flink's job graph: what runs in one task."""

    job: str  # Name of its job
    name: str  # Flink's name of the vertex, ``Source: a -> b``
    stages: tuple[Stage, ...]  # In the order of the chain
    operators: tuple[str, ...]  # Flink's name of each of them

    def scope(self, subtask: int) -> str:
        """Return the scope of a subtask's metrics."""
        manager = task_manager_scope(self.stages[0].placement[subtask])
        return ".".join([manager, plain(self.job), plain(self.name), str(subtask)])


def plain(text: str) -> str:
    """Return a name as it stands in a scope: what is not a letter and no digit becomes ``_``."""
    return _OTHER.sub("_", text)


def task_manager_scope(number: int) -> str:
    """Return the scope of a task manager, ``host.taskmanager.tm_id``: it has a host of its own."""
    return f"host_{number}.{TASK_MANAGER}.tm_{number}"


def job_scope(job: str) -> str:
    """Return the scope of a job's own metrics, ``host.jobmanager.job``."""
    return f"host_{JOB_MANAGER}.{JOB_MANAGER}.{plain(job)}"


def jobs_of(scenario: Scenario) -> dict[str, tuple[str, ...]]:
    """Return the names of the jobs of a scenario, and those of the stages of each."""
    if scenario.jobs:
        return {job.name: tuple(job.stages) for job in scenario.jobs}
    return {scenario.name: tuple(stage.name for stage in scenario.stages)}


def tasks_of(scenario: Scenario) -> list[Task]:
    """Return the vertices of a scenario's jobs, as they run, with Flink's names."""
    written, found = scenario.canonical(), list[Task]()
    for job, names in jobs_of(scenario).items():
        given: Scenario | dict[str, Any] = scenario
        if scenario.jobs:
            own = next(one for one in written["jobs"] if one["name"] == job)
            given = {"stages": own["stages"], "edges": own["edges"]}
        try:
            found += _of_graph(scenario, job, given)
        except ValueError:  # a job that runs here and that Flink would not build
            found += _of_chains(scenario, job, names)
    return found


def _of_graph(scenario: Scenario, job: str, given: Scenario | dict[str, Any]) -> Iterator[Task]:
    """Yield the vertices of Flink's job graph."""
    graph = stream_graph(given)
    texts = {node.name: node.operator_name for node in graph.nodes}
    for vertex in job_graph(graph).vertices:
        stages = tuple(map(scenario.stage, vertex.operators))
        yield Task(job, vertex.name, stages, tuple(texts[stage.name] for stage in stages))


def _of_chains(scenario: Scenario, job: str, names: Sequence[str]) -> Iterator[Task]:
    """Yield a job's chains, named as Flink names plain ones."""
    heads = {edge.receiver: edge.sender for edge in scenario.edges if edge.chain}
    chains: dict[str, list[Stage]] = {}
    for stage in scenario.topological():
        head = stage.name
        while head in heads:
            head = heads[head]
        if stage.name in names:
            chains.setdefault(head, []).append(stage)
    for stages in chains.values():
        texts = tuple(
            stage.name if scenario.inputs(stage.name) else f"Source: {stage.name}"
            for stage in stages
        )
        yield Task(job, " -> ".join(texts), tuple(stages), texts)


Floats = npt.NDArray[np.float64]

_SLACK_S = 1e-9


@dataclass(frozen=True)
class Moments:
    """When metrics are looked at."""

    samples: Floats  # Times of all samples of the run, ascending, s
    # By update of the views, every 5 s: the index of the newest sample; -1: there is none yet.
    updates: tuple[int, ...]
    # By moment: the index of its sample, and how many updates the views have had.
    shown: tuple[tuple[int, int], ...]

    @classmethod
    def of(cls, samples: Sequence[float]) -> Moments:
        """Return the moments of a run with these samples, ascending, s."""
        times = np.asarray(samples, np.float64)
        if len(times) == 0:
            return cls(times, (), ())
        count = int((times[-1] + _SLACK_S) // UPDATE_S)
        grid = UPDATE_S * np.arange(1, count + 1) + _SLACK_S
        updates = (np.searchsorted(times, grid, side="right") - 1).tolist()
        shown = {index: number for number, index in reversed([*enumerate(updates, 1)])}
        shown.pop(-1, None)
        shown.setdefault(len(times) - 1, count)
        return cls(times, tuple(updates), tuple(sorted(shown.items())))

    @property
    def times(self) -> Floats:
        """Time of each moment, s."""
        return self.samples[[index for index, _ in self.shown]]

    def levels(self, values: Floats) -> Floats:
        """Return a figure at each moment, given it at each sample."""
        return values[[index for index, _ in self.shown]]

    def meter(self, counts: Floats) -> Floats:
        """Return what a meter shows of a counter, given it at each sample."""
        view, rates = MeterView(), [0.0]
        for index in self.updates:
            view.update(int(counts[index]) if index >= 0 else 0)
            rates.append(view.rate)
        return np.array([rates[number] for _, number in self.shown])

    def gauge(self, total_ms: Floats) -> Floats:
        """Return what a gauge of time shows, given the time so far at each sample, ms."""
        view, values = TimerGaugeView(), [0]
        for index in self.updates:
            view.update(int(total_ms[index]) if index >= 0 else 0)
            values.append(view.value)
        return np.array([values[number] for _, number in self.shown], np.float64)


# --- Metrics as Prometheus has them from Flink's reporter, so that dashboards made for Flink fit.
#
# Source: ``PrometheusReporter`` of Flink 1.20 (``reference/deployment-and-diagnosis.md`` section
# 7.3): all metrics are gauges, counters too.


_TASK_LABELS: Final = ("host", "tm_id", "job_name", "task_name", "subtask_index")
_GROUPS: Final = ("Shuffle.", "buffers.")
"""What names of a task's metrics begin with that have groups; another one is an operator's."""
_ILLEGAL: Final = re.compile(r"[^a-zA-Z0-9:_]")


def prometheus_name(scope: str, name: str) -> tuple[str, dict[str, str]]:
    """Return the name of a metric in Prometheus, and its labels.

    Parameters
    ----------
    scope, name : str
        As in the table ``metrics``.

    Returns
    -------
    tuple of (str, dict of str to str)
        The labels ``job_id``, ``task_id`` and ``operator_id`` are left out: an emulation has no
        ids. Names in labels are those of the scope, so ``Source__a`` where Flink has
        ``Source:_a``.

    Raises
    ------
    ValueError
        If the scope is none of the table.

    Examples
    --------
    >>> name, labels = prometheus_name("host_0.taskmanager.tm_0.job.map.1", "numRecordsIn")
    >>> name, labels["task_name"], labels["subtask_index"]
    ('flink_taskmanager_job_task_numRecordsIn', 'map', '1')
    """
    host, kind, *rest = scope.split(".")
    if kind == JOB_MANAGER and len(rest) == 1:
        return _joined("flink_jobmanager_job", name), {"host": host, "job_name": rest[0]}
    if kind == TASK_MANAGER and len(rest) == 1:
        return _joined("flink_taskmanager", name), {"host": host, "tm_id": rest[0]}
    if kind != TASK_MANAGER or len(rest) != len(_TASK_LABELS) - 1:
        raise ValueError(f"{scope!r} is not a scope of the table metrics")
    labels = dict(zip(_TASK_LABELS, [host, *rest], strict=True))
    operator, dot, own = name.partition(".")
    if dot and not name.startswith(_GROUPS):
        labels["operator_name"] = operator
        return _joined("flink_taskmanager_job_task_operator", own), labels
    return _joined("flink_taskmanager_job_task", name), labels


def openmetrics(metrics: pa.Table, start_s: float = 0.0) -> Iterator[str]:
    """Yield the lines of an OpenMetrics text with all values of a run, each with its time.

    Parameters
    ----------
    metrics : pyarrow.Table
        The table ``metrics``.
    start_s : float, default 0
        When the run is to have begun, seconds since 1970.

    Yields
    ------
    str
        A line with its end. ``promtool tsdb create-blocks-from openmetrics FILE DIR`` makes blocks
        of them that a Prometheus serves, and a dashboard made for Flink reads.
    """
    families: dict[str, list[str]] = {}
    heads: dict[tuple[str, str], tuple[str, str]] = {}
    for row in metrics.to_pylist():
        key = row["scope"], row["name"]
        if key not in heads:
            family, labels = prometheus_name(*key)
            texts = ",".join(f'{label}="{text}"' for label, text in labels.items())
            heads[key] = family, f"{family}{{{texts}}}"
        family, head = heads[key]
        value = f"{head} {row['value']!r} {start_s + row['t_s']:.3f}\n"
        families.setdefault(family, []).append(value)
    for family, lines in families.items():
        yield f"# TYPE {family} gauge\n"
        yield from lines
    yield "# EOF\n"


def _joined(prefix: str, name: str) -> str:
    return f"{prefix}_{_ILLEGAL.sub('_', name)}"
