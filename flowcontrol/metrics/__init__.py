"""A run's figures under Flink's names and scopes, and as Prometheus has them from Flink.

Made from the result tables alone, so both clocks have the same.
"""

from flowcontrol.metrics.scopes import openmetrics, prometheus_name
from flowcontrol.metrics.table import MOST_ROWS, metrics_table, rows_of_metrics

__all__ = ["MOST_ROWS", "metrics_table", "openmetrics", "prometheus_name", "rows_of_metrics"]
