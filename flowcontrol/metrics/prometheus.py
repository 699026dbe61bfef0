"""Metrics as Prometheus has them from Flink's reporter, so that dashboards made for Flink fit.

Source: ``PrometheusReporter`` of Flink 1.20 (``reference/deployment-and-diagnosis.md`` section
7.3): all metrics are gauges, counters too.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from flowcontrol.metrics.scopes import JOB_MANAGER, TASK_MANAGER

if TYPE_CHECKING:
    import pyarrow as pa

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
