"""The table ``metrics`` of a run, from its other tables."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Final

import numpy as np

from flowcontrol.metrics.scopes import Floats, Moments, tasks_of
from flowcontrol.metrics.table import TaskTables, job_metrics, process_metrics, task_metrics
from flowcontrol.records import METRICS
from flowcontrol.scenario import Scenario

if TYPE_CHECKING:
    import pyarrow as pa

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
