"""Combine the latencies of many intervals and subtasks into one row.

Counts, means and maxima combine exactly. Percentiles do not: the records behind them are gone.
What is left of an interval says that half of its records took at most p50, nine tenths at most
p90, and so on. So each record counts with the *next known figure at or above it*: 50 % of an
interval's records with its p50, the next 40 % with its p90, the next 9 % with its p99 and the
last 1 % with its maximum. The percentile of these is never below the true one (but for the
rounding to whole records within each interval) and never above the maximum; one interval alone
gives back its own figures.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from flowcontrol.analysis.frames import Tables, panel_of, result_frame
from flowcontrol.analysis.panel import Columns, Panel
from flowcontrol.records import RECORD

if TYPE_CHECKING:
    import pandas as pd

_QUANTILES = {"p50_ms": 0.50, "p90_ms": 0.90, "p99_ms": 0.99}
_STEPS = (("p50_ms", 0.50), ("p90_ms", 0.40), ("p99_ms", 0.09), ("max_ms", 0.01))
_TOLERANCE = 1e-9
"""Share of all records by which a sum of weights may miss a quantile and still reach it."""


def latency_frame(tables: Tables, kind: str = RECORD) -> pd.DataFrame:
    """Return the rows of the table ``latency`` of one kind.

    - ``tables``: results of a run by table name; a missing table counts as empty.
    - ``kind``: of records, or of latency markers (``marker``).

    As :func:`flowcontrol.analysis.frames.result_frame` returns it.
    """
    frame = result_frame(tables, "latency")
    return frame[frame["kind"] == kind].reset_index(drop=True)


def latency_panel(tables: Tables, kind: str = RECORD) -> Panel:
    """Return the rows of the table ``latency`` of one kind, as :func:`latency_frame`."""
    return panel_of(tables, "latency").of("kind", kind)


def combine_latencies(rows: Columns) -> dict[str, float] | None:
    """Combine rows of the latency table into one.

    ``rows``: rows of :data:`flowcontrol.records.LATENCY`, of any intervals and subtasks.

    Returns ``count`` (records), ``mean_ms`` (weighted by count, exact), ``p50_ms``, ``p90_ms``,
    ``p99_ms`` (upper bounds, see the top of this module) and ``max_ms`` (exact). None when no
    record was taken up.
    """
    count = int(rows["count"].sum())
    if count <= 0:
        return None
    weighted = float((rows["mean_ms"] * rows["count"]).sum())
    combined = {"count": count, "mean_ms": weighted / count}
    combined |= _upper_quantiles(rows)
    combined["max_ms"] = float(rows["max_ms"].max())
    return combined


def _upper_quantiles(rows: Columns) -> dict[str, float]:
    """Return upper bounds of the quantiles, from the steps that each row is made of."""
    counts = np.asarray(rows["count"], np.float64)
    values = np.concatenate([np.asarray(rows[name], np.float64) for name, _ in _STEPS])
    weights = np.concatenate([counts * share for _, share in _STEPS])
    order = np.argsort(values, kind="stable")
    reached = np.cumsum(weights[order]) / counts.sum()
    last = len(order) - 1
    return {
        name: float(values[order[min(last, int(np.searchsorted(reached, q - _TOLERANCE)))]])
        for name, q in _QUANTILES.items()
    }
