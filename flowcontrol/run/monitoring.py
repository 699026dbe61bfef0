"""How a run was watched besides: the table of metrics, and sampling beside the timers."""

from __future__ import annotations

from typing import Any

from flowcontrol import notices
from flowcontrol.analysis.sampling import sampling_summary
from flowcontrol.metrics import MOST_ROWS, metrics_table, rows_of_metrics
from flowcontrol.records import METRICS, SAMPLES
from flowcontrol.results.run import Run


def add_monitoring(run: Run, summary: dict[str, Any]) -> None:
    """Put the metrics of a run into its tables, and what sampling saw into its summary.

    - ``run``: its tables get ``metrics``, unless its scenario says ``metrics: false``, a controller
      changed its parallelism (a subtask is not the same one after that) or, without being asked,
      there were more than :data:`flowcontrol.metrics.MOST_ROWS` rows.
    - ``summary``: gets ``sampling`` if the scenario asks for samples.
    """
    scenario = run.job.scenario
    monitoring = scenario.monitoring
    if SAMPLES.name in run.tables and monitoring is not None and monitoring.sampling is not None:
        summary["sampling"] = sampling_summary(run.tables, scenario, monitoring.sampling)
    if scenario.scaling is not None:
        return
    wanted = None if monitoring is None else monitoring.metrics
    rows = rows_of_metrics(run.tables, scenario) if wanted is None else 0
    if rows > MOST_ROWS:
        notices.warn(
            f"the table metrics is left out: it had some {rows:,} rows, more than {MOST_ROWS:,}; "
            "monitoring: {metrics: true} has it written, {metrics: false} says nothing"
        )
    elif wanted is not False:
        run.tables[METRICS.name] = metrics_table(run.tables, scenario)
