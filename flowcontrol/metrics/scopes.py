"""Whose a metric is: Flink's scopes of tasks, of jobs and of task managers, and names in them.

Source: ``metrics.scope.*`` of Flink with their defaults (``reference/deployment-and-diagnosis.md``
section 5.3).

Flink updates its views every 5 s, whatever a reporter's interval. A figure is then that of the
newest sample: the tables of a run have no other.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from flowcontrol.deployment import job_graph, stream_graph
from flowcontrol.protocol.monitoring import UPDATE_S, MeterView, TimerGaugeView
from flowcontrol.scenario import Scenario, Stage

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
